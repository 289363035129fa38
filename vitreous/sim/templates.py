"""Matched filtering: what a chirp of known shape is found with, and the measure of any other way to find it.

The filter's output `z(t)` is the product of a segment with a template that ends at t, as a complex number: its parts
are those of the two phases, each of variance 1 in noise, so that |z| is Rayleigh-distributed there, and about the
signal-to-noise ratio where there is a signal. Where mass, time and phase are not known there are two answers: the
largest |z| of a bank of templates, and the likelihood ratio averaged over all that may be, which no detector can beat.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.special import i0e, ndtr, ndtri

from vitreous.errors import InputError
from vitreous.sim.chirps import Chirps, Events, random_events, signals

TEMPLATES = 96
"""Their number for the default chirps, of which the best is within 1.5 % of any signal (minimal match 0.985)."""
_AT_ONCE = 2**24  # complex numbers in memory
_SEGMENTS = 1024  # at a time
_STRENGTHS = 512  # at which the likelihood is averaged
_HIGHEST = 64.0  # |z| up to which it is tabulated
_ENTRIES = 4097


class Bank:
    """Templates of all chirp masses, evenly spaced in 1 / M_c, at every sample that a signal may end at.

    Args:
        chirps: which signals there are.
        count: of templates.
        device: on which segments are looked through.
    """

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
        """Of coalescence, `(N,)`, in seconds."""
        one = torch.ones(count, dtype=torch.float64)
        waves = signals(chirps, Events(self.masses, first * one, 0 * one, one))  # (T, points), of length 1
        spectra = 2 * torch.fft.rfft(waves).conj()[:, : (points + 1) // 2]  # positive frequencies: both phases
        self._spectra = spectra.to(torch.complex64).to(device)
        between = torch.cat([inverse[:1], (inverse[1:] + inverse[:-1]) / 2, inverse[-1:]]).log()
        shares = (between[1:] - between[:-1]).abs()  # of the logarithm of the mass, which is uniform
        self._shares = (shares / shares.sum()).log().float().to(device)
        self._table = averaged(chirps, torch.linspace(0, _HIGHEST, _ENTRIES, dtype=torch.float64)).float().to(device)

    def filtered(self, segments: Tensor) -> Tensor:
        """Whitened segments `(B, points)` through all filters: z `(B, T, N)`, complex."""
        spectra = torch.fft.rfft(segments)[:, None, : self._spectra.shape[1]]
        z: Tensor = torch.fft.ifft(spectra * self._spectra, self.chirps.points)[..., : len(self.times)]
        return z

    def loudest(self, segments: Tensor) -> Tensor:
        """The largest |z| over all masses, times and phases, `(B,)`: the matched filter's usual statistic."""
        return self._through(segments, lambda z: z.flatten(1).amax(1))

    def log_likelihood_ratio(self, segments: Tensor) -> Tensor:
        """Log of how much likelier a chirp is than noise, `(B,)`, averaged over mass, time, phase and strength."""

        def ratio(z: Tensor) -> Tensor:
            place = (z * ((_ENTRIES - 1) / _HIGHEST)).clamp(max=_ENTRIES - 1.001)
            low = place.long()
            values = torch.lerp(self._table[low], self._table[low + 1], place - low)  # (b, T, N)
            return torch.logsumexp(values.logsumexp(2) + self._shares, dim=1) - math.log(len(self.times))

        return self._through(segments, ratio)

    @torch.no_grad()
    def _through(self, segments: Tensor, statistic: Callable[[Tensor], Tensor]) -> Tensor:
        batch = max(1, _AT_ONCE // (len(self.masses) * self.chirps.points))
        return torch.cat([statistic(self.filtered(part).abs()) for part in segments.split(batch)])


def averaged(chirps: Chirps, loudness: Tensor) -> Tensor:
    """Log-likelihood ratio at one mass and time, given |z|, averaged over phase and signal-to-noise ratio ρ.

    The mean over the phase of `exp(ρ Re(z e^(−iφ)) − ρ²/2)` is `exp(−ρ²/2) I₀(ρ |z|)`.
    """
    weakest, strongest = chirps.snr
    rho = weakest + (strongest - weakest) * (torch.arange(_STRENGTHS, dtype=loudness.dtype) + 0.5) / _STRENGTHS
    product = rho * loudness.unsqueeze(-1)
    logs: Tensor = i0e(product).log() + product - rho.square() / 2
    return logs.logsumexp(-1) - math.log(_STRENGTHS)


def known(snr: Tensor, false_alarms: float) -> Tensor:
    """Share of the signals that are found where mass, time and phase are known, so that one product decides.

    Args:
        snr: signal-to-noise ratios.
        false_alarms: share of the segments of noise that are taken for a signal.
    """
    threshold = ndtri(torch.tensor(1 - false_alarms, dtype=torch.float64))
    found: Tensor = ndtr(snr - threshold)
    return found


def efficiency(noise: Tensor, found: Tensor, false_alarms: float) -> float:
    """Share of signals whose statistic `(n,)` is above that of all but a share of the segments of noise."""
    if not 0 < false_alarms < 1 or len(noise) * false_alarms < 1:
        raise InputError(
            f"false_alarms: found {false_alarms:g} of {len(noise)} segments of noise, expected at least one of them"
        )
    threshold = noise.sort(descending=True).values[int(len(noise) * false_alarms)]  # so many are above it
    return float((found > threshold).double().mean())


Detector = Callable[[Tensor], Tensor]
"""From whitened segments `(B, points)` to a number for each, `(B,)`: the larger, the likelier a chirp."""


@torch.no_grad()
def compared(
    detectors: Mapping[str, Detector],
    populations: Sequence[Chirps],
    noise: int,
    signals_each: int,
    false_alarms: Sequence[float],
    device: torch.device | str = "cpu",
) -> dict[str, dict[float, list[float]]]:
    """Efficiencies of detectors on the same segments: for each, and each rate of false alarms, one of each population.

    Args:
        detectors: by their names.
        populations: which signals there are, such as those of one strength or mass, in segments of one length.
        noise: segments without a signal, which set the thresholds.
        signals_each: segments with a signal, of each population.
        false_alarms: shares of the noise that may be taken for a signal.
        device: on which segments are made.
    """

    points = {chirps.points for chirps in populations}
    if len(points) != 1:
        raise InputError(f"populations: found segments of {sorted(points)} points, expected those of one length")
    length = points.pop()

    def statistics(count: int, chirps: Chirps | None) -> dict[str, Tensor]:
        found: dict[str, list[Tensor]] = {name: [] for name in detectors}
        for start in range(0, count, _SEGMENTS):
            part = min(_SEGMENTS, count - start)
            segments = torch.randn(part, length, device=device)
            if chirps is not None:
                segments += signals(chirps, random_events(chirps, part, device))
            for name, detector in detectors.items():
                found[name].append(detector(segments).cpu())
        return {name: torch.cat(parts) for name, parts in found.items()}

    quiet = statistics(noise, None)
    heard = [statistics(signals_each, chirps) for chirps in populations]
    return {
        name: {rate: [efficiency(quiet[name], each[name], rate) for each in heard] for rate in false_alarms}
        for name in detectors
    }
