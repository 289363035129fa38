"""Gravitational waves of inspiralling compact binaries in the noise of an interferometer (S2.11).

To leading order the frequency rises as `f(τ) = (5 m / τ)^(3/8) / (8 π m)` and the amplitude as `f^(2/3)`, where τ is
the time to coalescence and `m = G M_c / c³` the chirp mass as a time. The noise is Gaussian with the power spectrum of
initial LIGO. Segments are treated as periodic, so that whitened noise is exactly white. Strain is in units of 10⁻²¹.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.core.settings import Settings
from vitreous.data.simulated import fixed_samples
from vitreous.data.source import Axis, Source, consecutive_parts

SUN = 4.925490947e-6  # G M☉ / c³, seconds
MEGAPARSEC = 3.0856775814913673e22 / 299_792_458  # light travel time in seconds
CLASSES = ("noise", "chirp")
_TAPER = 0.1  # seconds over which a signal is switched on
_CUTOFF = 1.2  # frequency at which a signal ends, in units of its last stable orbit
_FLOOR = 25.0  # Hz; the power spectrum is constant below


@dataclass(frozen=True)
class Chirps(Settings):
    """Distribution of the signals, and the recording.

    Args:
        seconds: length of a segment.
        rate: sampling rate in Hz.
        chirp_mass: range in solar masses, uniform in the logarithm. The two masses of a binary are equal.
        lasting: duration of a signal: seconds from its start to coalescence.
        coalescence: range of coalescence times, in seconds from the start of the segment; uniform.
        snr: range of the optimal signal-to-noise ratio; uniform.
    """

    seconds: float = 1.0
    rate: int = 2048
    chirp_mass: tuple[float, ...] = (5.0, 20.0)
    lasting: float = 0.6
    coalescence: tuple[float, ...] = (0.65, 0.95)
    snr: tuple[float, ...] = (4.0, 16.0)

    @property
    def points(self) -> int:
        """Samples in a segment."""
        return round(self.seconds * self.rate)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("chirp_mass", "coalescence", "snr"):
            bounds = getattr(self, name)
            if len(bounds) != 2 or not 0 < bounds[0] <= bounds[1]:
                raise InputError(f"{name}: found {bounds}, expected two numbers above 0, the smaller first")
        if not _TAPER < self.lasting <= self.coalescence[0] or self.coalescence[1] > self.seconds:
            bounds = f"from lasting = {self.lasting:g} (above {_TAPER:g}) to seconds = {self.seconds:g}"
            expected = f"expected {bounds}, so that segments contain whole signals"
            raise InputError(f"coalescence: found {self.coalescence}, {expected}")
        highest = _CUTOFF * float(last_frequency(torch.tensor(self.chirp_mass[0])))
        if not 2 * highest < self.rate:
            raise InputError(f"rate: found {self.rate}, expected more than {2 * highest:.0f} Hz to resolve the chirps")


class Events(NamedTuple):
    """Parameters of binaries, each `(B,)`."""

    chirp_mass: Tensor  # solar masses
    coalescence: Tensor  # seconds from the start of the segment
    phase: Tensor  # of the wave at coalescence, in radians
    snr: Tensor  # optimal signal-to-noise ratio


def frequency(time_left: Tensor, chirp_mass: Tensor) -> Tensor:
    """Frequency of the wave in Hz, `time_left` seconds before coalescence; chirp mass in solar masses."""
    m = SUN * chirp_mass
    return (5 * m / time_left) ** 0.375 / (8 * math.pi * m)


def phase(time_left: Tensor, chirp_mass: Tensor) -> Tensor:
    """Phase of the wave in radians, relative to coalescence: `−2 (τ / 5 m)^(5/8)`."""
    return -2 * (time_left / (5 * SUN * chirp_mass)) ** 0.625


def last_frequency(chirp_mass: Tensor) -> Tensor:
    """Frequency in Hz at the innermost stable orbit of two equal masses: `1 / (6^(3/2) π G M / c³)`."""
    return 1 / (6**1.5 * math.pi * SUN * chirp_mass * 4**0.6)


def power_spectrum(frequency: Tensor) -> Tensor:
    """One-sided power spectral density of the noise in (10⁻²¹)² / Hz, for frequencies in Hz.

    `9·10⁻⁴ [(4.49 x)^(−56) + 0.16 x^(−4.52) + 0.52 + 0.32 x²]` with `x = f / 150 Hz`: initial LIGO as in Sathyaprakash
    and Schutz 2009, table 1; the terms are seismic, thermal and shot noise. It is constant below 25 Hz.
    """
    x = frequency.clamp(min=_FLOOR) / 150
    return 9e-4 * ((4.49 * x) ** -56 + 0.16 * x**-4.52 + 0.52 + 0.32 * x.square())


def strain(chirps: Chirps, events: Events, megaparsecs: float | Tensor = 100.0) -> Tensor:
    """Strain `(B, points)` of binaries seen face-on: `4 m^(5/3) (π f)^(2/3) / distance · cos(phase)`.

    It begins `lasting` seconds before coalescence, over a tenth of a second, and ends past the innermost stable orbit.
    """
    mass, time, start = (part.unsqueeze(1) for part in (events.chirp_mass, events.coalescence, events.phase))
    clock = torch.arange(chirps.points, device=mass.device, dtype=mass.dtype) / chirps.rate
    time_left = time - clock  # (B, points)
    before = time_left > 0
    time_left = time_left.where(before, time_left.new_ones(()))
    f, end = frequency(time_left, mass), last_frequency(mass)
    rise = ((chirps.lasting - time_left) / _TAPER).clamp(0, 1)
    fall = ((_CUTOFF * end - f) / ((_CUTOFF - 1) * end)).clamp(0, 1)
    window = (math.pi / 2 * rise).sin().square() * (math.pi / 2 * fall).sin().square() * before
    m = SUN * mass
    amplitude = 1e21 * 4 * m ** (5 / 3) * (math.pi * f) ** (2 / 3) / (MEGAPARSEC * megaparsecs)
    return amplitude * window * torch.cos(phase(time_left, mass) + start)


def colour(chirps: Chirps, white: Tensor) -> Tensor:
    """Turn white noise of variance 1, `(..., points)`, into the detector's noise."""
    amplitudes = _amplitudes(chirps, white.device, white.dtype)
    noise: Tensor = torch.fft.irfft(torch.fft.rfft(white) * amplitudes, chirps.points)
    return noise


def whiten(chirps: Chirps, strain: Tensor) -> Tensor:
    """The inverse of `colour`: recorded strain `(..., points)`, filtered so that its noise is white, of variance 1."""
    amplitudes = _amplitudes(chirps, strain.device, strain.dtype)
    white: Tensor = torch.fft.irfft(torch.fft.rfft(strain) / amplitudes, chirps.points)
    return white


@lru_cache(maxsize=16)
def _amplitudes(chirps: Chirps, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Amplitude of the noise at each frequency, relative to white noise of variance 1."""
    frequencies = torch.fft.rfftfreq(chirps.points, 1 / chirps.rate, dtype=torch.float64)
    return torch.sqrt(power_spectrum(frequencies) * chirps.rate / 2).to(device, dtype)


def signals(chirps: Chirps, events: Events) -> Tensor:
    """Whitened waves `(B, points)`; their norm is their signal-to-noise ratio."""
    waves = whiten(chirps, strain(chirps, events))
    scaled: Tensor = events.snr.unsqueeze(1) * waves / torch.linalg.vector_norm(waves, dim=1, keepdim=True)
    return scaled


def random_events(chirps: Chirps, count: int, device: torch.device | str = "cpu") -> Events:
    """Binaries with random mass, time, phase and signal-to-noise ratio."""
    mass, time, start, strength = torch.rand(4, count, device=device)
    (lightest, heaviest), (first, last), (weakest, strongest) = chirps.chirp_mass, chirps.coalescence, chirps.snr
    mass, time = lightest * (heaviest / lightest) ** mass, first + (last - first) * time
    return Events(mass, time, 2 * math.pi * start, weakest + (strongest - weakest) * strength)


def simulate_segments(chirps: Chirps, count: int, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Whitened segments `(count, 1, points)` and their classes `(count,)`: every second one contains a chirp."""
    label = torch.arange(count, device=device) % 2
    waves = signals(chirps, random_events(chirps, count, device)) * label.unsqueeze(1)
    return (waves + torch.randn_like(waves)).unsqueeze(1), label


def chirps_source(chirps: Chirps | None = None, train: int = 512, validation: int = 2000, test: int = 4000) -> Source:
    """Segments with and without a chirp, in parts of so many samples; training itself draws new ones at every step."""
    chirps = chirps or Chirps()
    simulate = partial(simulate_segments, chirps)
    x, y = fixed_samples(simulate, train + validation + test, seed=0)
    axis, parts = Axis("time", "s", 0.0, 1 / chirps.rate), consecutive_parts(train, validation, test)
    return Source("simulated chirps", x, y, (axis,), ("whitened strain",), CLASSES, (), parts, fresh=simulate)
