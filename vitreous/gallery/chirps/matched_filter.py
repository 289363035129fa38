"""Matched filtering, the optimal way to find a signal of known shape, and the comparison of detectors.

The filter's output `z(t)` is the product of a segment with a template that ends at t, as a complex number whose parts
belong to the two phases. In noise each part has variance 1, so that |z| is Rayleigh-distributed; with a signal, |z| is
close to the signal-to-noise ratio. For unknown mass, time and phase there are two statistics: the largest |z| of a bank
of templates, and the likelihood ratio averaged over all unknowns, which no detector can beat.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.special import i0e, ndtr, ndtri

from vitreous.core.errors import InputError
from vitreous.gallery.chirps.simulate import Chirps, Events, random_events, signals

TEMPLATES = 96
"""Number of templates; for the default chirps the minimal match with any signal is 0.985."""
_MEMORY = 2**24  # complex numbers held at a time
_SEGMENTS = 1024  # simulated at a time
_STRENGTHS = 512  # signal-to-noise ratios over which the likelihood is averaged
_TABLE_END = 64.0  # |z| up to which the averaged likelihood is tabulated
_TABLE_SIZE = 4097


class TemplateBank:
    """`count` templates of all chirp masses, evenly spaced in 1 / M_c, for every possible sample of coalescence."""

    def __init__(self, chirps: Chirps, count: int = TEMPLATES, device: torch.device | str = "cpu") -> None:
        if count < 2:
            raise InputError(f"count: found {count}, expected two templates or more")
        self.chirps, points = chirps, chirps.points
        least, largest = chirps.chirp_mass
        inverse = torch.linspace(1 / least, 1 / largest, count, dtype=torch.float64)
        self.masses = 1 / inverse
        """Chirp masses `(T,)` in solar masses."""
        first, last = chirps.coalescence
        self.times = first + torch.arange(1 + round((last - first) * chirps.rate), dtype=torch.float64) / chirps.rate
        """Times of coalescence `(N,)` in seconds."""
        one = torch.ones(count, dtype=torch.float64)
        waves = signals(chirps, Events(self.masses, first * one, 0 * one, one))  # (T, points), of norm 1
        spectra = 2 * torch.fft.rfft(waves).conj()[:, : (points + 1) // 2]  # positive frequencies: both phases
        self._spectra = spectra.to(torch.complex64).to(device)
        edges = torch.cat([inverse[:1], (inverse[1:] + inverse[:-1]) / 2, inverse[-1:]]).log()
        prior = (edges[1:] - edges[:-1]).abs()  # uniform in the logarithm of the mass
        self._log_prior = (prior / prior.sum()).log().float().to(device)
        loudness = torch.linspace(0, _TABLE_END, _TABLE_SIZE, dtype=torch.float64)
        self._table = averaged_log_likelihood(chirps, loudness).float().to(device)

    def filter(self, segments: Tensor) -> Tensor:
        """Output z `(B, T, N)`, complex, of all filters for whitened segments `(B, points)`."""
        spectra = torch.fft.rfft(segments)[:, None, : self._spectra.shape[1]]
        z: Tensor = torch.fft.ifft(spectra * self._spectra, self.chirps.points)[..., : len(self.times)]
        return z

    def loudest(self, segments: Tensor) -> Tensor:
        """The largest |z| over all masses, times and phases, `(B,)`: the usual statistic of a matched filter."""
        return self._in_batches(segments, lambda z: z.flatten(1).amax(1))

    def log_likelihood_ratio(self, segments: Tensor) -> Tensor:
        """Log-likelihood ratio of chirp and noise, `(B,)`, averaged over mass, time, phase and strength."""

        def ratio(z: Tensor) -> Tensor:
            position = (z * ((_TABLE_SIZE - 1) / _TABLE_END)).clamp(max=_TABLE_SIZE - 1.001)
            low = position.long()
            values = torch.lerp(self._table[low], self._table[low + 1], position - low)  # (b, T, N)
            return torch.logsumexp(values.logsumexp(2) + self._log_prior, dim=1) - math.log(len(self.times))

        return self._in_batches(segments, ratio)

    @torch.no_grad()
    def _in_batches(self, segments: Tensor, statistic: Callable[[Tensor], Tensor]) -> Tensor:
        batch = max(1, _MEMORY // (len(self.masses) * self.chirps.points))
        return torch.cat([statistic(self.filter(part).abs()) for part in segments.split(batch)])


def averaged_log_likelihood(chirps: Chirps, loudness: Tensor) -> Tensor:
    """Log-likelihood ratio at one mass and time, given |z|, averaged over phase and signal-to-noise ratio ρ.

    The mean over the phase of `exp(ρ Re(z e^(−iφ)) − ρ²/2)` is `exp(−ρ²/2) I₀(ρ |z|)`.
    """
    weakest, strongest = chirps.snr
    rho = weakest + (strongest - weakest) * (torch.arange(_STRENGTHS, dtype=loudness.dtype) + 0.5) / _STRENGTHS
    product = rho * loudness.unsqueeze(-1)
    logs: Tensor = i0e(product).log() + product - rho.square() / 2
    return logs.logsumexp(-1) - math.log(_STRENGTHS)


def known_signal_efficiency(snr: Tensor, false_alarms: float) -> Tensor:
    """Detection efficiency for known mass, time and phase, where a single template suffices; see `efficiency`."""
    share: Tensor = ndtr(snr - ndtri(torch.tensor(1 - false_alarms, dtype=torch.float64)))
    return share


def efficiency(noise: Tensor, signal: Tensor, false_alarms: float) -> float:
    """Fraction of signals above the threshold that a fraction `false_alarms` of the noise segments exceeds.

    Args:
        noise, signal: statistic of segments without a signal, `(m,)`, and with one, `(n,)`.
        false_alarms: fraction of noise segments above the threshold.
    """
    if not 0 < false_alarms < 1 or len(noise) * false_alarms < 1:
        share = f"{false_alarms:g} of {len(noise)} segments of noise"
        raise InputError(f"false_alarms: found {share}, expected at least one of them")
    threshold = noise.sort(descending=True).values[int(len(noise) * false_alarms)]
    return float((signal > threshold).double().mean())


Detector = Callable[[Tensor], Tensor]
"""Maps whitened segments `(B, points)` to a statistic `(B,)` that is larger the likelier a chirp is."""


@torch.no_grad()
def compare_detectors(
    detectors: Mapping[str, Detector],
    populations: Sequence[Chirps],
    noise: int,
    signals_each: int,
    false_alarms: Sequence[float],
    device: torch.device | str = "cpu",
) -> dict[str, dict[float, list[float]]]:
    """Efficiencies of detectors on the same segments, by detector and rate of false alarms: one for each population.

    Args:
        populations: distributions of signals, such as those of one strength or mass, in segments of equal length.
        noise: number of segments without a signal, which set the thresholds.
        signals_each: number of segments with a signal, for each population.
        false_alarms: fractions of noise segments above the threshold.
    """
    lengths = {chirps.points for chirps in populations}
    if len(lengths) != 1:
        raise InputError(f"populations: found segments of {sorted(lengths)} points, expected those of one length")
    (length,) = lengths

    def statistics(count: int, chirps: Chirps | None) -> dict[str, Tensor]:
        parts: dict[str, list[Tensor]] = {name: [] for name in detectors}
        for start in range(0, count, _SEGMENTS):
            size = min(_SEGMENTS, count - start)
            segments = torch.randn(size, length, device=device)
            if chirps is not None:
                segments += signals(chirps, random_events(chirps, size, device))
            for name, detector in detectors.items():
                parts[name].append(detector(segments).cpu())
        return {name: torch.cat(values) for name, values in parts.items()}

    of_noise = statistics(noise, None)
    of_signals = [statistics(signals_each, chirps) for chirps in populations]
    return {
        name: {rate: [efficiency(of_noise[name], each[name], rate) for each in of_signals] for rate in false_alarms}
        for name in detectors
    }
