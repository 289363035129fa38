"""Cosmic-ray showers on a hexagonal array of water tanks (S2.8), in batches, on any device.

A parametrised simulation without single particles of the shower. It models the differences between light and heavy
nuclei at the ground, and what blurs them. By superposition, a nucleus of A nucleons and energy E acts as A showers of
energy E / A: its maximum is higher up, and it makes more muons, N ~ A^(1 - β) E^β, with smaller fluctuations. Electrons
and photons die out beyond the maximum, muons do not. Muons arrive early and one by one, electrons and photons late and
many at a time. Models see showers as sets of stations or as maps on the hexagonal grid.
"""

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.core.errors import InputError, check_choice
from vitreous.core.settings import Settings
from vitreous.data.simulated import fixed_samples
from vitreous.data.source import Axis, Source, Target, consecutive_parts

SAMPLES, STEP = 360, 25.0
"""Samples of a station's trace, and their spacing in nanoseconds."""
NUCLEI = {"proton": 1, "helium": 4, "nitrogen": 14, "iron": 56}
COORDINATES = ("x (stations)", "y (stations)", "start (µs)", "ln signal")
TARGETS = (Target("ln A"), Target("X_max", "g/cm²"))
_CHUNK = 500  # showers simulated at a time on a CPU
_SAMPLE_NAMES = tuple(f"sample {i}" for i in range(SAMPLES))
_LIGHT = 0.299792458  # metres per nanosecond
_GROUND = 870.0  # g/cm², depth of the ground for a vertical shower
_SCALE_HEIGHT = 8400.0  # metres over which the air pressure falls by e
_MUON_POWER = 0.92  # β
_ELONGATION = 58.0  # g/cm² of depth for each factor of ten in energy per nucleon
_PROTON_DEPTH = 790.0  # g/cm², mean maximum of protons of 10 EeV
_PULSE = 60.0  # nanoseconds, decay time of the light in a tank
_ELECTRON_SIGNAL = 0.1  # VEM of a typical electron or photon
_MUON_WIDTH, _ELECTRON_WIDTH = 0.7, 0.8  # log-normal widths of the arrival times


@dataclass(frozen=True)
class Array(Settings):
    """The detector and the range of showers.

    Args:
        rings: rings of stations around the central one; 4 rings have 61 stations.
        spacing: metres between neighbouring stations.
        threshold: least signal of a station that is read, in VEM (signal of a vertical muon).
        dead: fraction of stations out of order.
        noise: of a sample, in VEM.
        clock: standard error of a station's clock, in ns.
        lowest, highest: range of the energy of a shower, in EeV; uniform in the logarithm.
        steepest: largest zenith angle, in degrees.
    """

    rings: int = 4
    spacing: float = 1500.0
    threshold: float = 3.0
    dead: float = 0.03
    noise: float = 0.015
    clock: float = 12.0
    lowest: float = 5.0
    highest: float = 100.0
    steepest: float = 60.0

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
            raise InputError(f"steepest: found {self.steepest:g} degrees, expected 0 to 65, where the formulas hold")

    def axial(self) -> Tensor:
        """Axial coordinates of the stations `(stations, 2)`: steps along two axes of the grid, 60° apart."""
        steps = torch.arange(-self.rings, self.rings + 1)
        pairs = torch.cartesian_prod(steps, steps)
        return pairs[pairs.sum(1).abs() <= self.rings]

    def positions(self) -> Tensor:
        """Positions of the stations `(stations, 2)`, in metres from the central one."""
        q, r = self.axial().double().T
        return (self.spacing * torch.stack([q + r / 2, r * (math.sqrt(3) / 2)], dim=1)).float()


class Primaries(NamedTuple):
    """Primary particles and their showers, each `(B,)`."""

    nucleons: Tensor
    energy: Tensor  # EeV
    zenith: Tensor  # radians
    azimuth: Tensor  # radians, direction of origin
    core: Tensor  # (B, 2): impact point, metres from the central station
    depth: Tensor  # of the maximum, X_max, in g/cm² along the shower
    muons: Tensor  # their number, relative to an average proton shower of 10 EeV


class Recording(NamedTuple):
    """The data of all stations."""

    traces: Tensor  # (B, stations, SAMPLES) in VEM; zero for stations that are not read
    start: Tensor  # (B, stations): start of each trace by its clock, in ns after the core reaches the ground
    read: Tensor  # (B, stations): whether the station is read


def mean_depth(nucleons: Tensor, energy: Tensor) -> Tensor:
    """Mean X_max in g/cm², which depends on the energy per nucleon."""
    return _PROTON_DEPTH + _ELONGATION * torch.log10(energy / nucleons / 10)


def draw_primaries(count: int, array: Array, device: torch.device | str = "cpu") -> Primaries:
    """Random protons, helium, nitrogen and iron in equal shares, from all directions, near the central station."""
    kinds = torch.tensor(list(NUCLEI.values()), dtype=torch.float32, device=device)
    nucleons = kinds[torch.randint(len(kinds), (count,), device=device)]
    draw = torch.rand(6, count, device=device)
    energy = array.lowest * (array.highest / array.lowest) ** draw[0]
    zenith = torch.asin(math.sin(math.radians(array.steepest)) * draw[1].sqrt())  # for a flat array
    azimuth = 2 * math.pi * draw[2]
    angle = 2 * math.pi * draw[4]
    core = array.spacing / math.sqrt(3) * draw[3].sqrt()[:, None] * torch.stack([angle.cos(), angle.sin()], dim=1)
    width = 60 * nucleons**-0.25  # g/cm²: 60 for protons, 22 for iron
    gumbel = -torch.log(-torch.log(draw[5].clamp(1e-6, 1 - 1e-6)))  # deep showers have a long tail
    depth = mean_depth(nucleons, energy) + width * (gumbel - 0.5772) * (math.sqrt(6) / math.pi)
    spread = 0.16 * nucleons**-0.35  # 16 % for protons, 4 % for iron
    muons = nucleons ** (1 - _MUON_POWER) * (energy / 10) ** _MUON_POWER
    muons = muons * (1 + spread * torch.randn_like(muons)).clamp(min=0.2)
    return Primaries(nucleons, energy, zenith, azimuth, core, depth, muons)


def shower_geometry(primaries: Primaries, array: Array) -> tuple[Tensor, Tensor]:
    """Distance of each station from the shower axis, and its distance ahead along the axis, in metres."""
    x, y = (array.positions().to(primaries.core.device) - primaries.core[:, None]).unbind(-1)  # (B, stations)
    azimuth, zenith = primaries.azimuth[:, None], primaries.zenith[:, None]
    ahead = (x * azimuth.cos() + y * azimuth.sin()) * zenith.sin()
    return (x.square() + y.square() - ahead.square()).clamp(min=1).sqrt(), ahead


def mean_signals(primaries: Primaries, distance: Tensor) -> tuple[Tensor, Tensor]:
    """Mean electromagnetic and muonic signals at distances `(B, stations)` from the axis, both in VEM.

    The electromagnetic signal falls with distance as in Nishimura, Kamata and Greisen, and dies out beyond X_max. The
    muonic signal is flatter (Greisen). At 1,000 m a vertical proton shower of 10 EeV leaves about 45 VEM, a third of
    them from muons.
    """
    slant = _GROUND / primaries.zenith.cos()
    past = (slant - primaries.depth)[:, None]  # g/cm² from the maximum to the ground
    r = distance.clamp(min=100) / 1000
    beyond = past.clamp(min=-200) / 260
    age = torch.exp(-beyond) * (1 + beyond)
    electrons = 32 * (primaries.energy / 10)[:, None] * age * r**-2.3 * ((r + 0.7) / 1.7) ** -2.3
    attenuation = torch.exp(-(slant - _GROUND) / 1300)[:, None]
    muons = 15 * primaries.muons[:, None] * attenuation * r**-0.75 * ((r + 0.32) / 1.32) ** -2.5
    return electrons, muons


def front_times(primaries: Primaries, distance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Delay of the shower front behind a plane, and mean arrival of muons and electrons after the front, in ns."""
    slant, cos = _GROUND / primaries.zenith.cos(), primaries.zenith.cos()
    past = (slant - primaries.depth).clamp(min=50)
    height = -_SCALE_HEIGHT * torch.log((primaries.depth * cos / _GROUND).clamp(0.05, 0.95)) / cos  # metres to X_max
    delay = (torch.hypot(height[:, None], distance) - height[:, None]) / _LIGHT
    muon_time = 60 + 0.35 * delay
    return delay, muon_time, muon_time + 0.18 * distance * torch.exp(-past / 500)[:, None]


def start_error(muon_time: Tensor, signal: Tensor, array: Array) -> Tensor:
    """Standard error of the start of a trace, in ns, from the clock and from the finite number of particles.

    As in Bonifazi, Letessier-Selvon and Santos 2008: if half of n particles arrive within T₅₀, the arrival of the first
    one has the error 2 T₅₀ / n √((n − 1) / (n + 1)). `muon_time` is the mean arrival of muons after the front, in ns,
    and `signal` is in VEM, about 1 per particle.
    """
    half = math.exp(-(_MUON_WIDTH**2) / 2) * muon_time  # the median of a log-normal distribution
    n = signal.clamp(min=1)
    return torch.hypot(2 * half / n * ((n - 1) / (n + 1)).sqrt(), torch.full_like(half, array.clock))


def observe(primaries: Primaries, array: Array) -> Recording:
    """Simulate the data of all stations."""
    distance, ahead = shower_geometry(primaries, array)
    electrons, muons = mean_signals(primaries, distance)
    delay, muon_time, electron_time = front_times(primaries, distance)
    muon_light = torch.poisson(muons[..., None] * _arrival_shares(muon_time, _MUON_WIDTH))
    electron_shares = _arrival_shares(electron_time, _ELECTRON_WIDTH)
    electron_light = torch.poisson(electrons[..., None] / _ELECTRON_SIGNAL * electron_shares) * _ELECTRON_SIGNAL
    traces = (muon_light + electron_light) @ _pulses(distance.device)
    traces = traces + array.noise * torch.randn_like(traces)
    works, total = torch.rand_like(distance) >= array.dead, traces.sum(-1)
    read = works & (total > array.threshold)
    start = delay - ahead / _LIGHT + start_error(muon_time, total, array) * torch.randn_like(delay)
    return Recording(traces * read[..., None], start * read, read)


@lru_cache(maxsize=16)
def _pulses(device: torch.device) -> Tensor:
    """Fraction of a particle's light in each sample, `(SAMPLES, SAMPLES)`, by the sample of its arrival."""
    after = torch.arange(SAMPLES, device=device) - torch.arange(SAMPLES, device=device)[:, None]
    pulse = torch.exp(after * (-STEP / _PULSE)).where((after >= 0) & (after < 6 * _PULSE / STEP), 0.0)
    return pulse / pulse[0].sum()


def _arrival_shares(mean: Tensor, width: float) -> Tensor:
    """Fraction of particles in each sample `(B, stations, SAMPLES)`: log-normal with this mean arrival, in ns."""
    edges = torch.arange(SAMPLES + 1, device=mean.device) * STEP
    middle = torch.log(mean)[..., None] - width**2 / 2
    before: Tensor = torch.special.ndtr((edges.clamp(min=1e-3).log() - middle) / width)
    return before.diff(dim=-1)


def station_features(recording: Recording, array: Array) -> tuple[Tensor, Tensor]:
    """Trace `(B, stations, SAMPLES)` and `COORDINATES` `(B, stations, 4)` of each station that is read.

    Traces are logarithms of the signal. Positions are relative to the station with the largest signal, in units of the
    spacing, and times relative to the start of its trace.
    """
    total = recording.traces.sum(-1)
    hottest = total.argmax(1, keepdim=True)
    positions = array.positions().to(total.device) / array.spacing
    relative = positions - positions[hottest]  # (B, stations, 2)
    start = (recording.start - recording.start.gather(1, hottest)) / 1000
    coords = torch.cat([relative, torch.stack([start, total.clamp(min=1e-3).log()], dim=-1)], dim=-1)
    coords[..., :2] += 1e-6  # an element of zeros would count as missing
    return torch.log1p(recording.traces.clamp(min=0) * 10) / 2, coords * recording.read[..., None]


def to_set(recording: Recording, array: Array) -> Tensor:
    """Packed sets `(B, SAMPLES + 4, stations)`."""
    return torch.cat(station_features(recording, array), dim=-1).mT.contiguous()


def to_grid(recording: Recording, array: Array) -> Tensor:
    """Maps `(B, SAMPLES + 2, 2 rings + 1, 2 rings + 1)` in axial coordinates: traces, start and signal."""
    traces, coords = station_features(recording, array)
    values = torch.cat([traces, coords[..., 2:]], dim=-1).mT
    side = 2 * array.rings + 1
    q, r = (array.axial() + array.rings).T.to(values.device)
    out = values.new_zeros(*values.shape[:2], side, side)
    out[:, :, q, r] = values
    return out


def simulate_showers(
    array: Array, layout: str, count: int, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Showers in a layout, and the values of `TARGETS` `(B, 2)`."""
    primaries = draw_primaries(count, array, device)
    x = LAYOUTS[layout](observe(primaries, array), array)
    return x, torch.stack([primaries.nucleons.log(), primaries.depth], dim=1)


LAYOUTS = {"set": to_set, "grid": to_grid}


def shower_source(
    layout: str = "set", array: Array | None = None, train: int = 200, validation: int = 1500, test: int = 3000
) -> Source:
    """Showers in the layout `set` or `grid`, in parts of so many samples, the same for both.

    The part `train` only sets the scaling; training itself draws new samples at every step. Fixed samples are stored in
    half precision, which is finer than the resolution of the stations.
    """
    check_choice("layout", layout, LAYOUTS)
    simulate = partial(simulate_showers, array or Array(), layout)

    def simulate_half(count: int) -> tuple[Tensor, Tensor]:
        x, y = simulate(count)
        return x.half(), y

    x, y = fixed_samples(simulate_half, train + validation + test, 20248, _CHUNK)
    names = (*_SAMPLE_NAMES, *(COORDINATES if layout == "set" else COORDINATES[2:]))
    axes = (Axis("station"),) if layout == "set" else (Axis("q", "stations"), Axis("r", "stations"))
    parts = consecutive_parts(train, validation, test)
    return Source(f"showers, {layout}", x, y, axes, names, (), TARGETS, parts, fresh=simulate)


def merit_factor(estimate: NDArray[Any], truth: NDArray[Any]) -> float:
    """Merit factor of an estimate of ln A, the separation of protons and iron: |μ₁ − μ₂| / √(σ₁² + σ₂²)."""
    light, heavy = (estimate[np.isclose(truth, np.log(a), atol=1e-3)] for a in (1, 56))
    return float(abs(light.mean() - heavy.mean()) / np.sqrt(light.var() + heavy.var()))
