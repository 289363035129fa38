"""Showers of cosmic rays on a hexagonal grid of water tanks (S2.8), in batches, on any device.

A parametrised simulation, not one of particles: it has what tells light nuclei from heavy ones at the ground, and what
blurs it. A nucleus of A nucleons and energy E is A showers of energy E / A (superposition): it reaches its maximum
higher up and makes more muons, N ~ A^(1 - β) E^β, with smaller fluctuations. Electrons and photons die out beyond the
maximum, muons do not; muons come early and one by one, electrons and photons late and many at a time.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from vitreous.errors import InputError
from vitreous.settings import Settings

SAMPLES, STEP = 360, 25.0
"""Of a station's trace: how many, and nanoseconds between two."""
NUCLEI = {"proton": 1, "helium": 4, "nitrogen": 14, "iron": 56}
_LIGHT = 0.299792458  # metres a nanosecond
_GROUND = 870.0  # g/cm², depth of the ground below a vertical shower
_SCALE = 8400.0  # metres in which air thins by e
_MUONS = 0.92  # β
_ELONGATION = 58.0  # g/cm² by which the maximum is deeper for ten times the energy a nucleon
_DEEP = 790.0  # g/cm², mean maximum of protons of 10 EeV
_PULSE = 60.0  # nanoseconds in which a tank's light decays
_GRAIN = 0.1  # VEM that a typical electron or photon leaves
_EARLY, _LATE = 0.7, 0.8  # widths of the arrivals of muons and of the rest, in logarithms


@dataclass(frozen=True)
class Array(Settings):
    """The detector."""

    rings: int = 4
    """Of stations around the middle one: 4 are 61 stations."""
    spacing: float = 1500.0
    """Metres between neighbours."""
    threshold: float = 3.0
    """Signal that a station is read from, in VEM: that of a muon that falls straight through its tank."""
    dead: float = 0.03
    """Share of the stations that are out of order."""
    noise: float = 0.015
    """Of a sample, in VEM."""
    clock: float = 12.0
    """Error of a station's clock, in ns."""
    lowest: float = 5.0
    """Energy of a shower at least, in EeV; by its logarithm."""
    highest: float = 100.0
    """And at most."""
    steepest: float = 60.0
    """Zenith angle at most, in degrees."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least(1, "rings")
        self._at_least(0, "noise", "threshold", "clock")
        self._probability("dead")
        if self.spacing <= 0:
            raise InputError(f"spacing: found {self.spacing:g} m, expected more than 0")
        if not 0 < self.lowest < self.highest:
            raise InputError(f"lowest: found {self.lowest:g} to {self.highest:g} EeV, expected a range above 0")
        if not 0 <= self.steepest <= 65:
            raise InputError(
                f"steepest: found {self.steepest:g} degrees, expected 0 to 65, for which the formulas hold"
            )

    def axial(self) -> Tensor:
        """Steps of the stations along the two axes of the grid, 60° apart, `(stations, 2)`."""
        steps = torch.arange(-self.rings, self.rings + 1)
        pairs = torch.cartesian_prod(steps, steps)
        return pairs[pairs.sum(1).abs() <= self.rings]

    def places(self) -> Tensor:
        """Of the stations, `(stations, 2)`, in metres from the middle one."""
        q, r = self.axial().double().T
        return (self.spacing * torch.stack([q + r / 2, r * (math.sqrt(3) / 2)], dim=1)).float()


class Primaries(NamedTuple):
    """What comes in, each `(B,)`."""

    nucleons: Tensor
    energy: Tensor
    """EeV."""
    zenith: Tensor
    """Radians."""
    azimuth: Tensor
    """Radians, where it comes from."""
    core: Tensor
    """`(B, 2)`: metres from the middle station."""
    depth: Tensor
    """Of the maximum, X_max, in g/cm² along the shower."""
    muons: Tensor
    """Their number by that of an average proton shower of 10 EeV."""


class Seen(NamedTuple):
    """What the stations record."""

    traces: Tensor
    """`(B, stations, SAMPLES)` in VEM; zero where nothing is read."""
    start: Tensor
    """`(B, stations)`: nanoseconds when each trace begins, as its clock says, from when the shower hits the ground."""
    read: Tensor
    """`(B, stations)`: whether it is read."""


def mean_depth(nucleons: Tensor, energy: Tensor) -> Tensor:
    """Mean X_max in g/cm²: by the energy a nucleon alone."""
    return _DEEP + _ELONGATION * torch.log10(energy / nucleons / 10)


def draw_primaries(count: int, array: Array, device: torch.device | str = "cpu") -> Primaries:
    """Protons, helium, nitrogen and iron in equal shares, from all directions, about the middle station."""
    kinds = torch.tensor(list(NUCLEI.values()), dtype=torch.float32, device=device)
    nucleons = kinds[torch.randint(len(kinds), (count,), device=device)]
    draw = torch.rand(6, count, device=device)
    energy = array.lowest * (array.highest / array.lowest) ** draw[0]
    zenith = torch.asin(math.sin(math.radians(array.steepest)) * draw[1].sqrt())  # as a flat array is hit
    azimuth = 2 * math.pi * draw[2]
    core = array.spacing / math.sqrt(3) * draw[3].sqrt()[:, None]
    angle = 2 * math.pi * draw[4]
    core = core * torch.stack([angle.cos(), angle.sin()], dim=1)
    width = 60 * nucleons**-0.25  # g/cm²: 60 for protons, 22 for iron
    gumbel = -torch.log(-torch.log(draw[5].clamp(1e-6, 1 - 1e-6)))  # deep showers have a long tail
    depth = mean_depth(nucleons, energy) + width * (gumbel - 0.5772) * (math.sqrt(6) / math.pi)
    spread = 0.16 * nucleons**-0.35  # 16 % for protons, 4 % for iron
    muons = nucleons ** (1 - _MUONS) * (energy / 10) ** _MUONS
    return Primaries(
        nucleons, energy, zenith, azimuth, core, depth, muons * (1 + spread * torch.randn_like(muons)).clamp(min=0.2)
    )


def footprint(primaries: Primaries, array: Array) -> tuple[Tensor, Tensor]:
    """Distances of the stations from the shower's axis and, along it, how much earlier the front passes, in metres."""
    x, y = (array.places().to(primaries.core.device) - primaries.core[:, None]).unbind(-1)  # (B, stations)
    ahead = (x * primaries.azimuth.cos()[:, None] + y * primaries.azimuth.sin()[:, None]) * primaries.zenith.sin()[
        :, None
    ]
    return (x.square() + y.square() - ahead.square()).clamp(min=1).sqrt(), ahead


def signals(primaries: Primaries, distance: Tensor) -> tuple[Tensor, Tensor]:
    """Mean signals of electrons and photons and of muons at distances `(B, stations)`, both in VEM.

    The electromagnetic one falls as Nishimura, Kamata and Greisen have it and dies out beyond X_max; the muonic one is
    flatter (Greisen). At 1,000 m a vertical proton shower of 10 EeV leaves some 45 VEM, a third of them by muons.
    """
    slant = _GROUND / primaries.zenith.cos()
    past = (slant - primaries.depth)[:, None]  # g/cm² from the maximum to the ground
    r = distance.clamp(min=100) / 1000
    beyond = past.clamp(min=-200) / 260
    age = torch.exp(-beyond) * (1 + beyond)
    electrons = 32 * (primaries.energy / 10)[:, None] * age * r**-2.3 * ((r + 0.7) / 1.7) ** -2.3
    worn = torch.exp(-(slant - _GROUND) / 1300)[:, None]
    muons = 15 * primaries.muons[:, None] * worn * r**-0.75 * ((r + 0.32) / 1.32) ** -2.5
    return electrons, muons


def front(primaries: Primaries, distance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of the shower's front: its delay behind a plane, and mean arrivals of muons and of the rest after it, in ns."""
    slant, cos = _GROUND / primaries.zenith.cos(), primaries.zenith.cos()
    past = (slant - primaries.depth).clamp(min=50)
    height = (-_SCALE * torch.log((primaries.depth * cos / _GROUND).clamp(0.05, 0.95)) / cos)[
        :, None
    ]  # metres to X_max
    delay = (torch.hypot(height, distance) - height) / _LIGHT
    muon = 60 + 0.35 * delay
    return delay, muon, muon + 0.18 * distance * torch.exp(-past / 500)[:, None]


def uncertainty(muon: Tensor, signal: Tensor, array: Array) -> Tensor:
    """Of the time when a trace begins, in ns: the clock's, and what few particles leave open of where the front is.

    As in Bonifazi, Letessier-Selvon and Santos 2008: of n particles half come within T₅₀, so that the first one is
    2 T₅₀ / n √((n − 1) / (n + 1)) from where it is expected.

    Args:
        muon: mean arrival of muons after the front, in ns.
        signal: in VEM, of a particle one.
    """
    half = math.exp(-(_EARLY**2) / 2) * muon  # the median of a log-normal distribution
    n = signal.clamp(min=1)
    return torch.hypot(2 * half / n * ((n - 1) / (n + 1)).sqrt(), torch.full_like(half, array.clock))


def observe(primaries: Primaries, array: Array) -> Seen:
    """Traces of all stations."""
    distance, ahead = footprint(primaries, array)
    electrons, muons = signals(primaries, distance)
    delay, muon_time, electron_time = front(primaries, distance)
    early = torch.poisson(muons[..., None] * _arrivals(muon_time, _EARLY))
    late = torch.poisson(electrons[..., None] / _GRAIN * _arrivals(electron_time, _LATE)) * _GRAIN
    traces = (early + late) @ _light(distance.device)
    traces = traces + array.noise * torch.randn_like(traces)
    works = torch.rand_like(distance) >= array.dead
    total = traces.sum(-1)
    read = works & (total > array.threshold)
    start = delay - ahead / _LIGHT + uncertainty(muon_time, total, array) * torch.randn_like(delay)
    return Seen(traces * read[..., None], start * read, read)


@lru_cache(maxsize=16)
def _light(device: torch.device) -> Tensor:
    """Shares of a particle's light in each sample, `(SAMPLES, SAMPLES)`, by the sample that it arrives in."""
    after = torch.arange(SAMPLES, device=device) - torch.arange(SAMPLES, device=device)[:, None]
    pulse = torch.exp(after * (-STEP / _PULSE)).where((after >= 0) & (after < 6 * _PULSE / STEP), 0.0)
    return pulse / pulse[0].sum()


def _arrivals(mean: Tensor, width: float) -> Tensor:
    """Shares of the particles in each sample `(B, stations, SAMPLES)`: log-normal about the mean arrival, in ns."""
    edges = torch.arange(SAMPLES + 1, device=mean.device) * STEP
    middle = torch.log(mean)[..., None] - width**2 / 2
    before: Tensor = torch.special.ndtr((edges.clamp(min=1e-3).log() - middle) / width)
    return before.diff(dim=-1)
