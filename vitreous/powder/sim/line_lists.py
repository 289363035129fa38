"""Simulated lists of peaks of random crystals of every system, and the lattices behind them.

Training data for a model that proposes lattices. The lists are made directly from the lines of crystals, without
profiles, so that a GPU makes them faster than a model uses them.
"""

from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import torch
from torch import Tensor

from vitreous.data.simulated import fixed_samples
from vitreous.data.source import Axis, Source, Target, consecutive_parts
from vitreous.nn.tokens.lines import REFERENCE
from vitreous.powder.bragg import s_from_two_theta, two_theta_from_s
from vitreous.powder.cell import reciprocal_metric
from vitreous.powder.lattice import PRIMITIVE
from vitreous.powder.radiation import CU_KALPHA1
from vitreous.powder.reduction import LENGTH_NAMES, superbase_lengths
from vitreous.powder.sim import space_groups
from vitreous.powder.sim.crystals import Device, Lines, random_crystals
from vitreous.powder.sim.effects import Range
from vitreous.powder.sim.measurement import add_impurity, log_uniform, lorentz_polarisation, uniform

MAX_LINES = 31
"""Largest number of lines of a list."""
MIN_LINES = 8
"""Smallest number of lines of a shortened list."""
ROWS = ("1/d", "log intensity", "log unit")
"""Rows of a list."""

_SHARES = {  # of each system: fewer parameters are easier to index
    "triclinic": 0.4, "monoclinic": 0.27, "orthorhombic": 0.15, "tetragonal": 0.06, "trigonal": 0.05, "hexagonal": 0.04,
    "cubic": 0.03,
}  # fmt: skip
_S_MAX = {"triclinic": 0.65, "monoclinic": 0.75}  # 1/Å, largest 1/d of a list
_S_MAX_OTHERS = 0.917
_CANDIDATES = 160  # lines from which those of a list are selected
_MAX_FOREIGN = 3


@dataclass(frozen=True)
class ListEffects:
    """Imperfections of a list of peaks; ranges are drawn for every list."""

    threshold: Range = (2e-3, 5e-2)
    """Smallest visible intensity, relative to the strongest line; drawn by its logarithm."""
    start: Range = (2.0, 8.0)
    """Degrees at which the measurement starts."""
    resolution: Range = (0.03, 0.15)
    """Degrees: lines nearer than this are merged."""
    zero: Range = (-0.05, 0.05)
    """Zero shift in degrees."""
    displacement: Range = (-0.03, 0.03)
    """Shift by a displaced sample at low angle in degrees."""
    error: Range = (0.001, 0.02)
    """Standard error of a strong line in degrees; drawn by its logarithm."""
    lost: Range = (0.0, 0.1)
    """Share of lines that are missing."""
    foreign: tuple[float, ...] = (0.55, 0.2, 0.15, 0.1)
    """Probabilities of zero to three lines that do not belong to the crystal."""
    mixed: float = 0.4
    """Share of lists with an impurity phase."""
    impurity: Range = (2e-3, 5e-2)
    """Lines of the impurity relative to those of the crystal; drawn by the logarithm."""
    short: float = 0.3
    """Share of shortened lists."""


def random_lists(count: int, device: Device = "cpu", effects: ListEffects | None = None) -> tuple[Tensor, Tensor]:
    """Lists `(count, 3, MAX_LINES)` with the rows `ROWS`, and the reciprocal lattices behind them `(count, 6)`.

    The unit of length of each list is 1/d of its 20th line, or of its last one if it has fewer. A lattice is described
    by `superbase_lengths`, divided by the square of the unit.
    """
    ends = np.round(np.cumsum(list(_SHARES.values())) * count).astype(int)
    counts = zip(_SHARES, np.diff(ends, prepend=0).tolist(), strict=True)
    parts = [random_lists_of_system(system, n, device, effects) for system, n in counts if n]
    order = torch.randperm(count, device=device)
    x, unit, inverse = (torch.cat([part[i] for part in parts])[order] for i in range(3))
    return x, superbase_lengths(inverse) / unit.square()[:, None]


def random_lists_of_system(
    system: str, count: int, device: Device = "cpu", effects: ListEffects | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Lists, their units in 1/Å `(count,)` and the metrics of the primitive reciprocal lattices `(count, 3, 3)`."""
    effects = effects or ListEffects()
    crystals = random_crystals(system, count, _S_MAX.get(system, _S_MAX_OTHERS), device)
    base = _primitive_bases(torch.device(device))[crystals.group]
    inverse = base @ reciprocal_metric(crystals.cell) @ base.mT
    share = log_uniform(effects.impurity, count, crystals.lines.s.device)
    lines = add_impurity(crystals.lines, torch.where(torch.rand_like(share) < effects.mixed, share, 0.0))
    angle, intensity = _visible_lines(lines, effects)
    return *as_lists(*_reported_lines(angle, intensity, effects)), inverse


@lru_cache(maxsize=4)
def _primitive_bases(device: torch.device) -> Tensor:
    """Transformations of the reciprocal basis to a primitive one, by space group number: `(231, 3, 3)`."""
    direct = [np.array(PRIMITIVE[space_groups.centring(n) if n else "P"], np.float64) for n in range(231)]
    return torch.as_tensor(np.linalg.inv(np.stack(direct)).transpose(0, 2, 1).astype(np.float32), device=device)


def _visible_lines(lines: Lines, effects: ListEffects) -> tuple[Tensor, Tensor]:
    """Lines above the threshold: ascending angles `(B, n)`, infinite beyond the last, and relative intensities."""
    count, device = lines.count, lines.s.device
    angle = two_theta_from_s(lines.s, CU_KALPHA1)
    intensity = lines.intensity * lorentz_polarisation(angle)
    start = uniform(effects.start, count, device)
    intensity = torch.where(angle > start[lines.owner], intensity, 0.0)
    strongest = intensity.new_zeros(count).scatter_reduce(0, lines.owner, intensity, "amax")
    share = intensity / strongest.clamp(min=1e-12)[lines.owner]
    visible = share > log_uniform(effects.threshold, count, device)[lines.owner]
    angle, share, owner = angle[visible], share[visible], lines.owner[visible]
    order = (angle + 1000.0 * owner.double()).argsort()
    angle, share, owner = angle[order], share[order], owner[order]
    starts = torch.searchsorted(owner, torch.arange(count, device=device))
    place = torch.arange(len(owner), device=device) - starts[owner]
    first = place < _CANDIDATES
    where = (owner[first], place[first])
    angles = angle.new_full((count, _CANDIDATES), torch.inf).index_put(where, angle[first])
    return angles, angle.new_zeros(count, _CANDIDATES).index_put(where, share[first])


def _reported_lines(angle: Tensor, intensity: Tensor, effects: ListEffects) -> tuple[Tensor, Tensor]:
    """Ascending 1/d `(B, n)` and intensities, 0 beyond the last: merged, shifted, some missing, some foreign."""
    count, device = len(angle), angle.device
    draw = partial(uniform, count=count, device=device)
    angle, intensity = _merge_lines(angle, intensity, draw(effects.resolution)[:, None])
    lost = torch.rand_like(angle) < draw(effects.lost)[:, None]
    angle = angle.masked_fill(lost, torch.inf)
    last = angle.masked_fill(angle.isinf(), 0).amax(1, keepdim=True)
    foreign = torch.rand(count, _MAX_FOREIGN, device=device) * last
    number = torch.multinomial(torch.tensor(effects.foreign, device=device), count, replacement=True)
    none = (torch.arange(_MAX_FOREIGN, device=device) >= number[:, None]) | (foreign < effects.start[0])
    angle = torch.cat([angle, foreign.masked_fill(none, torch.inf)], dim=1)
    weak = log_uniform(effects.threshold, _MAX_FOREIGN * count, device).view(count, _MAX_FOREIGN)
    intensity = torch.cat([intensity, weak], dim=1)
    theta = torch.deg2rad(angle.clamp(max=179)) / 2
    error = log_uniform(effects.error, count, device)[:, None] * intensity.clamp(min=1e-3).pow(-0.25)
    shift = draw(effects.zero)[:, None] + draw(effects.displacement)[:, None] * theta.cos()
    angle, order = (angle + shift + error * torch.randn_like(angle)).sort(dim=1)
    angle, intensity = angle[:, :MAX_LINES], intensity.gather(1, order)[:, :MAX_LINES]
    ends = torch.randint(MIN_LINES, MAX_LINES + 1, (count, 1), device=device)
    ends = torch.where(torch.rand(count, 1, device=device) < effects.short, ends, MAX_LINES)
    present = angle.isfinite() & (torch.arange(MAX_LINES, device=device) < ends)
    return s_from_two_theta(angle.clamp(0.1, 179.0), CU_KALPHA1), torch.where(present, intensity, 0.0)


def _merge_lines(angle: Tensor, intensity: Tensor, resolution: Tensor) -> tuple[Tensor, Tensor]:
    """Lines nearer than the resolution `(B, 1)` become one at their centre of gravity."""
    apart = torch.ones_like(angle, dtype=torch.bool)
    apart[:, 1:] = ~(angle[:, 1:] - angle[:, :-1] < resolution)  # also for inf - inf
    group = apart.cumsum(1) - 1
    total = torch.zeros_like(intensity).scatter_add(1, group, intensity)
    moment = torch.zeros_like(intensity).scatter_add(1, group, intensity * angle.clamp(max=180))
    return torch.where(total > 0, moment / total.clamp(min=1e-12), torch.inf), total


def as_lists(s: Tensor, intensity: Tensor) -> tuple[Tensor, Tensor]:
    """Lists `(B, 3, MAX_LINES)` and their units `(B,)` from ascending 1/d `(B, n)`, n up to MAX_LINES.

    Intensities `(B, n)` are relative to the strongest of the pattern; 0 where there is no line.
    """
    present = intensity > 0
    last = present.sum(1, keepdim=True) - 1
    unit = s.gather(1, last.clamp(0, REFERENCE - 1))
    rows = torch.stack([s / unit, intensity.clamp(min=1e-4).log(), unit.log().expand_as(s)], dim=1)
    rows = torch.where(present[:, None], rows, 0.0)
    return torch.nn.functional.pad(rows, (0, MAX_LINES - s.shape[1])), unit[:, 0]


def list_source(train: int = 4096, validation: int = 2048, test: int = 2048) -> Source:
    """Lists of lines and the reciprocal lattices behind them; training draws new ones at every step."""
    x, y = fixed_samples(random_lists, train + validation + test, seed=20242)
    targets = tuple(Target(f"q{name}", "", log=True) for name in LENGTH_NAMES)
    return Source(
        "simulated lists of lines", x, y, (Axis("line", ""),), ROWS, (), targets,
        consecutive_parts(train, validation, test), fresh=random_lists,
    )  # fmt: skip
