"""Gravitational waves of compact binaries that spiral into each other, in the noise of an interferometer (S2.11).

To leading order the frequency rises as `f(τ) = (5 m / τ)^(3/8) / (8 π m)`, where τ is the time to coalescence and
`m = G M_c / c³` the chirp mass as a time, and the amplitude as `f^(2/3)`. The noise is Gaussian with the power spectrum
of the first LIGO; a segment counts as periodic, as the discrete Fourier transform has it, so that whitened noise is
white exactly. Strain is in units of 10⁻²¹.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

from vitreous.data.source import Axis, Source, in_order
from vitreous.errors import InputError
from vitreous.settings import Settings
from vitreous.sim.drawn import drawn

SUN = 4.925490947e-6  # G M☉ / c³, seconds
MEGAPARSEC = 3.0856775814913673e22 / 299_792_458  # seconds of light
CLASSES = ("noise", "chirp")
_TAPER = 0.1  # seconds in which a signal sets in
_BEYOND = 1.2  # where a signal has ended, in units of its last frequency
_FLOOR = 25.0  # Hz; below it the power spectrum stays as it is there


@dataclass(frozen=True)
class Chirps(Settings):
    """Which signals there are and what is recorded of them."""

    seconds: float = 1.0
    """Of a segment."""
    rate: int = 2048
    """Samples in a second."""
    chirp_mass: tuple[float, ...] = (5.0, 20.0)
    """Least and largest, in solar masses; its logarithm is uniform. The two masses of a binary are equal."""
    lasting: float = 0.6
    """Seconds before coalescence at which a signal sets in."""
    coalescence: tuple[float, ...] = (0.65, 0.95)
    """Earliest and latest, in seconds from the beginning of the segment; uniform."""
    snr: tuple[float, ...] = (4.0, 16.0)
    """Least and largest optimal signal-to-noise ratio; uniform."""

    @property
    def points(self) -> int:
        """Samples of a segment."""
        return round(self.seconds * self.rate)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("chirp_mass", "coalescence", "snr"):
            bounds = getattr(self, name)
            if len(bounds) != 2 or not 0 < bounds[0] <= bounds[1]:
                raise InputError(f"{name}: found {bounds}, expected two numbers above 0, the lesser first")
        if not _TAPER < self.lasting <= self.coalescence[0] or self.coalescence[1] > self.seconds:
            raise InputError(
                f"coalescence: found {self.coalescence}, expected from lasting = {self.lasting:g} (above {_TAPER:g}) "
                f"to seconds = {self.seconds:g}, so that a signal is whole"
            )
        highest = _BEYOND * float(last_frequency(torch.tensor(self.chirp_mass[0])))
        if not 2 * highest < self.rate:
            raise InputError(f"rate: found {self.rate}, expected more than {2 * highest:.0f} to follow the chirps")


class Events(NamedTuple):
    """Binaries, each `(B,)`."""

    chirp_mass: Tensor
    """Solar masses."""
    coalescence: Tensor
    """Seconds from the beginning of the segment."""
    phase: Tensor
    """Of the wave at coalescence, radians."""
    snr: Tensor
    """Optimal signal-to-noise ratio."""


def frequency(to_go: Tensor, chirp_mass: Tensor) -> Tensor:
    """Of the wave in Hz, `to_go` seconds before coalescence; chirp mass in solar masses."""
    m = SUN * chirp_mass
    return (5 * m / to_go) ** 0.375 / (8 * math.pi * m)


def phase(to_go: Tensor, chirp_mass: Tensor) -> Tensor:
    """Of the wave in radians, counted from coalescence: `−2 (τ / 5 m)^(5/8)`."""
    return -2 * (to_go / (5 * SUN * chirp_mass)) ** 0.625


def last_frequency(chirp_mass: Tensor) -> Tensor:
    """Of the wave in Hz, at the innermost stable orbit of two equal masses: `1 / (6^(3/2) π G M / c³)`."""
    return 1 / (6**1.5 * math.pi * SUN * chirp_mass * 4**0.6)


def power_spectrum(frequency: Tensor) -> Tensor:
    """One-sided, in (10⁻²¹)² / Hz: a seismic wall, thermal noise and shot noise, for frequencies in Hz.

    `9·10⁻⁴ [(4.49 x)^(−56) + 0.16 x^(−4.52) + 0.52 + 0.32 x²]` with `x = f / 150 Hz`: initial LIGO as in Sathyaprakash
    and Schutz 2009, table 1. Below 25 Hz it stays as it is there.
    """
    x = frequency.clamp(min=_FLOOR) / 150
    return 9e-4 * ((4.49 * x) ** -56 + 0.16 * x**-4.52 + 0.52 + 0.32 * x.square())


def strain(chirps: Chirps, events: Events, megaparsecs: float | Tensor = 100.0) -> Tensor:
    """The wave `(B, points)` of binaries seen face-on: `4 m^(5/3) (π f)^(2/3) / distance · cos(phase)`.

    It sets in over a tenth of a second, `lasting` before coalescence, and ends beyond the innermost stable orbit.
    """
    mass, time, start = (part.unsqueeze(1) for part in (events.chirp_mass, events.coalescence, events.phase))
    clock = torch.arange(chirps.points, device=mass.device, dtype=mass.dtype) / chirps.rate
    to_go = time - clock  # (B, points)
    there = to_go > 0
    to_go = to_go.where(there, to_go.new_ones(()))
    f, end = frequency(to_go, mass), last_frequency(mass)
    rise = ((chirps.lasting - to_go) / _TAPER).clamp(0, 1)
    fall = ((_BEYOND * end - f) / ((_BEYOND - 1) * end)).clamp(0, 1)
    window = (math.pi / 2 * rise).sin().square() * (math.pi / 2 * fall).sin().square() * there
    m = SUN * mass
    amplitude = 1e21 * 4 * m ** (5 / 3) * (math.pi * f) ** (2 / 3) / (MEGAPARSEC * megaparsecs)
    return amplitude * window * torch.cos(phase(to_go, mass) + start)


def coloured(chirps: Chirps, white: Tensor) -> Tensor:
    """White noise of variance 1, `(..., points)`, as the detector's noise."""
    made: Tensor = torch.fft.irfft(torch.fft.rfft(white) * _amplitudes(chirps, white), chirps.points)
    return made


def whitened(chirps: Chirps, strain: Tensor) -> Tensor:
    """The inverse: what is recorded, `(..., points)`, such that its noise is white and of variance 1."""
    made: Tensor = torch.fft.irfft(torch.fft.rfft(strain) / _amplitudes(chirps, strain), chirps.points)
    return made


def _amplitudes(chirps: Chirps, like: Tensor) -> Tensor:
    """Of the noise at each frequency, relative to white noise of variance 1."""
    return _amplitudes_on(chirps, like.device, like.dtype)


@lru_cache(maxsize=16)
def _amplitudes_on(chirps: Chirps, device: torch.device, dtype: torch.dtype) -> Tensor:
    frequencies = torch.fft.rfftfreq(chirps.points, 1 / chirps.rate, dtype=torch.float64)
    return torch.sqrt(power_spectrum(frequencies) * chirps.rate / 2).to(device, dtype)


def signals(chirps: Chirps, events: Events) -> Tensor:
    """Whitened waves `(B, points)`, as strong as their signal-to-noise ratio says: so long they are, as vectors."""
    waves = whitened(chirps, strain(chirps, events))
    scaled: Tensor = events.snr.unsqueeze(1) * waves / torch.linalg.vector_norm(waves, dim=1, keepdim=True)
    return scaled


def random_events(chirps: Chirps, count: int, device: torch.device | str = "cpu") -> Events:
    """Binaries of all masses, times, phases and strengths."""
    mass, time, start, strength = torch.rand(4, count, device=device)
    (lightest, heaviest), (first, last), (weakest, strongest) = chirps.chirp_mass, chirps.coalescence, chirps.snr
    return Events(
        lightest * (heaviest / lightest) ** mass,
        first + (last - first) * time,
        2 * math.pi * start,
        weakest + (strongest - weakest) * strength,
    )


def recorded(chirps: Chirps, count: int, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Whitened segments `(count, 1, points)` and whether there is a chirp in each, `(count,)`: in every other one."""
    there = torch.arange(count, device=device) % 2
    waves = signals(chirps, random_events(chirps, count, device)) * there.unsqueeze(1)
    return (waves + torch.randn_like(waves)).unsqueeze(1), there


def chirps_source(
    chirps: Chirps | None = None, train: int = 512, validation: int = 2000, test: int = 4000, seed: int = 0
) -> Source:
    """Segments with and without a chirp.

    Args:
        chirps: which; the default is a second at 2048 Hz.
        train: samples that no one looks at; training itself draws new ones at every step.
        validation, test: samples that stay the same.
        seed: of those.
    """
    chirps = chirps or Chirps()
    x, there = drawn(partial(recorded, chirps), train + validation + test, seed)
    axis = Axis("time", "s", 0.0, 1 / chirps.rate)
    return Source(
        "simulated chirps", x, there, (axis,), ("whitened strain",), CLASSES, (),
        in_order(train, validation, test), fresh=partial(recorded, chirps),
    )  # fmt: skip
