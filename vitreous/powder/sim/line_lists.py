"""Simulated lists of lines of random crystals of every system, and the lattices behind them.

Training data for a model that proposes lattices. The lists are made directly from the lines of crystals, without
profiles, so that a GPU makes them faster than a model uses them. They are as dirty as those of laboratories: errors,
zero shift, displacement, missing lines, up to 40 % foreign ones, with and without intensities.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

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
ROWS = ("1/d", "log intensity", "log unit", "sin θ")
"""Rows of a list; the last one tells by how much a shift of the angles moves each line."""

_SHARES = {  # of each system: fewer parameters are easier to index
    "triclinic": 0.4, "monoclinic": 0.27, "orthorhombic": 0.15, "tetragonal": 0.06, "trigonal": 0.05, "hexagonal": 0.04,
    "cubic": 0.03,
}  # fmt: skip
_S_MAX = {"triclinic": 0.65, "monoclinic": 0.75}  # 1/Å, largest 1/d of a list
_S_MAX_OTHERS = 0.917
_CANDIDATES = 160  # lines from which those of a list are selected
_MAX_FOREIGN = 12
_ROUNDED = 0.01  # degrees: digits of a rounded list
_FAINTEST = 1e-4  # of the strongest line

SHIFTS = (Target("zero", "°/Å"), Target("displacement", "°/Å"))
"""Shifts of a list in degrees per ångström of the wavelength; the displacement's falls as cos θ."""


@dataclass(frozen=True)
class ListEffects:
    """Imperfections of a list of lines; ranges are drawn for every list.

    Angles are for copper radiation. At other wavelengths they are in proportion to the wavelength, as the angles of the
    lines nearly are.
    """

    threshold: Range = (2e-3, 5e-2)
    """Smallest visible intensity, relative to the strongest line; drawn by its logarithm."""
    start: Range = (2.0, 8.0)
    """Degrees at which the measurement starts."""
    resolution: Range = (0.03, 0.15)
    """Degrees: lines nearer than this are merged."""
    zero: Range = (0.01, 0.12)
    """Standard deviation of the zero shift in degrees; drawn by its logarithm."""
    displacement: Range = (0.001, 0.05)
    """Standard deviation of the shift by a displaced sample at low angle in degrees; drawn by its logarithm."""
    error: Range = (0.001, 0.03)
    """Standard error of a strong line in degrees; drawn by its logarithm."""
    rounded: float = 0.2
    """Share of lists whose angles are rounded to 0.01°."""
    lost: Range = (0.0, 0.25)
    """Share of lines that are missing."""
    clean: float = 0.35
    """Share of lists without foreign lines; the others have up to"""
    foreign: float = 0.4
    """this share of them."""
    mixed: float = 0.4
    """Share of lists with an impurity phase."""
    impurity: Range = (2e-3, 0.1)
    """Lines of the impurity relative to those of the crystal; drawn by the logarithm."""
    short: float = 0.3
    """Share of shortened lists."""
    bare: float = 0.5
    """Share of lists without intensities."""
    wavelength: Range = (0.4, 2.0)
    """Ångström; drawn by its logarithm for those lists that are not of copper radiation."""
    copper: float = 0.6
    """Share of lists of copper radiation."""


def random_lists(count: int, device: Device = "cpu", effects: ListEffects | None = None) -> tuple[Tensor, Tensor]:
    """Lists `(count, 4, MAX_LINES)` with the rows `ROWS`, and what is behind them `(count, 8)`.

    That is the reciprocal lattice, described by `superbase_lengths` in units of the square of the list's own unit, 1/d
    of its 20th line, or of its last one if it has fewer; then the two `SHIFTS`.
    """
    ends = np.round(np.cumsum(list(_SHARES.values())) * count).astype(int)
    counts = zip(_SHARES, np.diff(ends, prepend=0).tolist(), strict=True)
    parts = [random_lists_of_system(system, n, device, effects) for system, n in counts if n]
    order = torch.randperm(count, device=device)
    lists, units, inverse, shifts = (torch.cat([part[i] for part in parts])[order] for i in range(4))
    return lists, torch.cat([superbase_lengths(inverse) / units.square()[:, None], shifts], dim=1)


class RandomLists(NamedTuple):
    """Lists of one crystal system."""

    lists: Tensor  # (count, 4, MAX_LINES), with the rows `ROWS`
    units: Tensor  # (count,), 1/Å
    inverse: Tensor  # (count, 3, 3), metrics of the primitive reciprocal lattices, 1/Å²
    shifts: Tensor  # (count, 2), see `SHIFTS`


def random_lists_of_system(
    system: str, count: int, device: Device = "cpu", effects: ListEffects | None = None
) -> RandomLists:
    """Lists of random crystals of one system."""
    effects = effects or ListEffects()
    crystals = random_crystals(system, count, _S_MAX.get(system, _S_MAX_OTHERS), device)
    base = _primitive_bases(torch.device(device))[crystals.group]
    inverse = base @ reciprocal_metric(crystals.cell) @ base.mT
    device = crystals.lines.s.device
    share = log_uniform(effects.impurity, count, device)
    lines = add_impurity(crystals.lines, torch.where(torch.rand_like(share) < effects.mixed, share, 0.0))
    other = log_uniform(effects.wavelength, count, device)
    wavelength = torch.where(torch.rand_like(share) < effects.copper, CU_KALPHA1, other)
    angle, intensity = _visible_lines(lines, wavelength, effects)
    reported = _reported_lines(angle, intensity, wavelength, effects)
    return RandomLists(*as_lists(reported.s, reported.intensity, wavelength), inverse, reported.shifts)


@lru_cache(maxsize=4)
def _primitive_bases(device: torch.device) -> Tensor:
    """Transformations of the reciprocal basis to a primitive one, by space group number: `(231, 3, 3)`."""
    direct = [np.array(PRIMITIVE[space_groups.centring(n) if n else "P"], np.float64) for n in range(231)]
    return torch.as_tensor(np.linalg.inv(np.stack(direct)).transpose(0, 2, 1).astype(np.float32), device=device)


def _visible_lines(lines: Lines, wavelength: Tensor, effects: ListEffects) -> tuple[Tensor, Tensor]:
    """Lines above the threshold: ascending angles `(B, n)`, infinite beyond the last, and relative intensities."""
    count, device = lines.count, lines.s.device
    angle = two_theta_from_s(lines.s, wavelength[lines.owner])
    intensity = lines.intensity * lorentz_polarisation(angle)
    start = uniform(effects.start, count, device) * wavelength / CU_KALPHA1
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


class _Reported(NamedTuple):
    """What a list says."""

    s: Tensor  # (B, n), 1/d in 1/Å, ascending
    intensity: Tensor  # (B, n), relative; 0 beyond the last line
    shifts: Tensor  # (B, 2), see `SHIFTS`


def _reported_lines(angle: Tensor, intensity: Tensor, wavelength: Tensor, effects: ListEffects) -> _Reported:
    """Lines merged, shifted, some missing, some foreign, perhaps without intensities."""
    count, device = len(angle), angle.device
    size = (wavelength / CU_KALPHA1)[:, None]
    angle, intensity = _merge_lines(angle, intensity, uniform(effects.resolution, count, device)[:, None] * size)
    lost = torch.rand_like(angle) < uniform(effects.lost, count, device)[:, None]
    angle, order = angle.masked_fill(lost, torch.inf).sort(dim=1)
    angle, intensity = _with_foreign_lines(angle[:, :MAX_LINES], intensity.gather(1, order)[:, :MAX_LINES], effects)
    bare = torch.rand(count, 1, device=device) < effects.bare
    strength = torch.where(bare, 1.0, intensity.clamp(min=1e-3)).pow(-0.25)
    error = log_uniform(effects.error, count, device)[:, None] * size * strength
    shifts = torch.stack([
        log_uniform(spread, count, device) * torch.randn(count, device=device) / CU_KALPHA1
        for spread in (effects.zero, effects.displacement)
    ], dim=1)  # fmt: skip
    shift = wavelength[:, None] * (shifts[:, :1] + shifts[:, 1:] * torch.deg2rad(angle.clamp(max=179) / 2).cos())
    angle = angle + shift + error * torch.randn_like(angle)
    rounded = torch.rand(count, 1, device=device) < effects.rounded
    angle = torch.where(rounded & angle.isfinite(), (angle / _ROUNDED).round() * _ROUNDED, angle)
    angle, order = angle.sort(dim=1)
    angle, intensity = angle[:, :MAX_LINES], intensity.gather(1, order)[:, :MAX_LINES]
    ends = torch.randint(MIN_LINES, MAX_LINES + 1, (count, 1), device=device)
    ends = torch.where(torch.rand(count, 1, device=device) < effects.short, ends, MAX_LINES)
    present = angle.isfinite() & (torch.arange(MAX_LINES, device=device) < ends)
    intensity = torch.where(bare, 1.0, intensity.clamp(min=_FAINTEST))
    s = s_from_two_theta(angle.clamp(0.1, 179.0), wavelength[:, None])
    return _Reported(s, torch.where(present, intensity, 0.0), shifts)


def _with_foreign_lines(angle: Tensor, intensity: Tensor, effects: ListEffects) -> tuple[Tensor, Tensor]:
    """Lines `(B, n)` and foreign ones `(B, _MAX_FOREIGN)` among the first, anywhere or as dense as of another crystal.

    `angle` is ascending and infinite beyond the last line.
    """
    count, device = len(angle), angle.device
    share = uniform((0.0, effects.foreign), count, device)
    share = torch.where(torch.rand_like(share) < effects.clean, 0.0, share)
    own = angle.isfinite().sum(1)
    number = (share * own).round().long()[:, None]
    last = angle.gather(1, (own[:, None] - number - 1).clamp(min=0))
    first = 0.7 * angle[:, :1]
    place = torch.rand(count, _MAX_FOREIGN, device=device)
    crystal = torch.rand(count, 1, device=device) < 0.5  # the number of reflections up to 1/d is in proportion to 1/d³
    foreign = torch.where(crystal, last * place.pow(1 / 3), first + (last - first) * place)
    none = (torch.arange(_MAX_FOREIGN, device=device) >= number) | (foreign < first) | ~last.isfinite()
    strength = log_uniform((effects.threshold[0], 0.5), _MAX_FOREIGN * count, device).view(count, _MAX_FOREIGN)
    return torch.cat([angle, foreign.masked_fill(none, torch.inf)], dim=1), torch.cat([intensity, strength], dim=1)


def _merge_lines(angle: Tensor, intensity: Tensor, resolution: Tensor) -> tuple[Tensor, Tensor]:
    """Lines nearer than the resolution `(B, 1)` become one at their centre of gravity."""
    apart = torch.ones_like(angle, dtype=torch.bool)
    apart[:, 1:] = ~(angle[:, 1:] - angle[:, :-1] < resolution)  # also for inf - inf
    group = apart.cumsum(1) - 1
    total = torch.zeros_like(intensity).scatter_add(1, group, intensity)
    moment = torch.zeros_like(intensity).scatter_add(1, group, intensity * angle.clamp(max=180))
    return torch.where(total > 0, moment / total.clamp(min=1e-12), torch.inf), total


def as_lists(s: Tensor, intensity: Tensor, wavelength: Tensor) -> tuple[Tensor, Tensor]:
    """Lists `(B, 4, MAX_LINES)` and their units `(B,)` from ascending 1/d `(B, n)`, n up to MAX_LINES.

    Intensities `(B, n)` are relative to the strongest of the pattern, 1 if unknown; 0 where there is no line.
    Wavelengths `(B,)` are in ångström.
    """
    present = intensity > 0
    last = present.sum(1, keepdim=True) - 1
    unit = s.gather(1, last.clamp(0, REFERENCE - 1))
    sine = s * wavelength[:, None] / 2
    rows = torch.stack([s / unit, intensity.clamp(min=_FAINTEST).log(), unit.log().expand_as(s), sine], dim=1)
    rows = torch.where(present[:, None], rows, 0.0)
    return torch.nn.functional.pad(rows, (0, MAX_LINES - s.shape[1])), unit[:, 0]


def list_source(train: int = 4096, validation: int = 2048, test: int = 2048) -> Source:
    """Lists of lines, the reciprocal lattices and the shifts behind them; training draws new ones at every step."""
    x, y = fixed_samples(random_lists, train + validation + test, seed=20242)
    targets = (*(Target(f"q{name}", "", log=True) for name in LENGTH_NAMES), *SHIFTS)
    return Source(
        "simulated lists of lines", x, y, (Axis("line", ""),), ROWS, (), targets,
        consecutive_parts(train, validation, test), fresh=random_lists,
    )  # fmt: skip
