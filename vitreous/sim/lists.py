"""Lists of lines as a search for peaks reports them, of random crystals of every system, and the lattices behind them.

What a model learns to index from. Lists are drawn straight from the lines of crystals, without profiles in between, so
that a GPU makes them faster than a model takes them in.
"""

from functools import lru_cache
from math import log, pi

import numpy as np
import torch
from torch import Tensor

from vitreous.data.source import Axis, Source, Target, in_order
from vitreous.nn.peaks import REFERENCE
from vitreous.powder import superbase
from vitreous.powder.cell import reciprocal
from vitreous.powder.lattice import PRIMITIVE
from vitreous.sim import groups
from vitreous.sim.crystals import Lines, random_crystals
from vitreous.sim.drawn import drawn
from vitreous.sim.powder import contaminated, lorentz_polarisation, uniform

LINES = 31
"""Lines of a list at most."""
FEWEST = 8
ROWS = ("1/d", "log intensity", "log unit")

_SHARES = {  # of each system: the fewer its parameters, the more easily it is indexed
    "triclinic": 0.4, "monoclinic": 0.27, "orthorhombic": 0.15, "tetragonal": 0.06, "trigonal": 0.05, "hexagonal": 0.04,
    "cubic": 0.03,
}  # fmt: skip
_REACH = {"triclinic": 0.65, "monoclinic": 0.75}  # 1/Å, where the lists of a system end at the latest
_FARTHEST = 0.917
_WAVELENGTH = 1.540598  # Å, at which angles are blurred
_CANDIDATES = 160  # lines among which those of a list are found
# Ranges from which every list draws.
_THRESHOLD = (2e-3, 5e-2)  # intensity below which lines are not seen, relative to the strongest; by its logarithm
_START = (2.0, 8.0)  # degrees below which nothing was measured
_RESOLUTION = (0.03, 0.15)  # degrees within which lines are one
_ZERO = (-0.05, 0.05)  # degrees, zero shift
_DISPLACEMENT = (-0.03, 0.03)  # degrees at low angle
_ERROR = (0.001, 0.02)  # degrees, standard error of a strong line; by its logarithm
_LOST = (0.0, 0.1)  # share of lines that are not found
_FOREIGN = (0.55, 0.2, 0.15, 0.1)  # how often a list has no, one, two or three lines that are nobody's
_MIXED = 0.4  # share of lists with an impurity phase
_IMPURITY = (2e-3, 5e-2)  # its lines relative to the crystal's; by the logarithm
_SHORT = 0.3  # share of lists that end early


def random_lists(count: int, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Lists `(count, 3, LINES)` in the rows of `ROWS`, and the reciprocal lattices behind them `(count, 6)`.

    Both are in units of the list's own: 1/d of its 20th line, or of its last. A lattice is described as in
    `superbase.lengths`, divided by the square of the unit.
    """
    parts = [_of_system(system, n, device) for system, n in _numbers(count).items() if n]
    order = torch.randperm(count, device=device)
    x, unit, inverse = (torch.cat([part[i] for part in parts])[order] for i in range(3))
    return x, superbase.lengths(inverse) / unit.square()[:, None]


def _numbers(count: int) -> dict[str, int]:
    """How many of a batch are of each system."""
    ends = np.round(np.cumsum(list(_SHARES.values())) * count).astype(int)
    return dict(zip(_SHARES, np.diff(ends, prepend=0).tolist(), strict=True))


def _of_system(system: str, count: int, device: torch.device | str) -> tuple[Tensor, Tensor, Tensor]:
    """Lists, their units and the metrics of the primitive reciprocal lattices `(count, 3, 3)`."""
    crystals = random_crystals(system, count, _REACH.get(system, _FARTHEST), device)
    base = _primitive(torch.device(device))[crystals.group]
    inverse = base @ reciprocal(crystals.cell) @ base.mT
    angle, intensity = _packed(_mixed(crystals.lines))
    s, seen = _reported(angle, intensity)
    return *as_lists(s, seen), inverse


@lru_cache(maxsize=4)
def _primitive(device: torch.device) -> Tensor:
    """Rows that make the reciprocal basis of each space group, by its number, primitive: `(231, 3, 3)`."""
    direct = [np.array(PRIMITIVE[groups.centring(n) if n else "P"], np.float64) for n in range(231)]
    return torch.as_tensor(np.linalg.inv(np.stack(direct)).transpose(0, 2, 1).astype(np.float32), device=device)


def _uniform(limits: tuple[float, float], count: int, device: torch.device) -> Tensor:
    return uniform(limits, count, device)[:, None]


def _logarithmic(limits: tuple[float, float], count: int, device: torch.device) -> Tensor:
    return _uniform((log(limits[0]), log(limits[1])), count, device).exp()


def _mixed(lines: Lines) -> Lines:
    """Some crystals with the lines of another one."""
    share = _logarithmic(_IMPURITY, lines.count, lines.s.device)[:, 0]
    return contaminated(lines, torch.where(torch.rand_like(share) < _MIXED, share, 0.0))


def _packed(lines: Lines) -> tuple[Tensor, Tensor]:
    """Lines that are seen: angles `(B, n)`, rising, infinite where there are no more, and relative intensities."""
    count, device = lines.count, lines.s.device
    angle = torch.rad2deg(2 * torch.arcsin(lines.s * (_WAVELENGTH / 2)))
    intensity = lines.intensity * lorentz_polarisation(angle)
    start = _uniform(_START, count, device)[:, 0]
    intensity = torch.where(angle > start[lines.owner], intensity, 0.0)
    top = intensity.new_zeros(count).scatter_reduce(0, lines.owner, intensity, "amax")
    share = intensity / top.clamp(min=1e-12)[lines.owner]
    seen = share > _logarithmic(_THRESHOLD, count, device)[:, 0][lines.owner]
    angle, share, owner = angle[seen], share[seen], lines.owner[seen]
    order = (angle + 1000.0 * owner.double()).argsort()
    angle, share, owner = angle[order], share[order], owner[order]
    starts = torch.searchsorted(owner, torch.arange(count, device=device))
    place = torch.arange(len(owner), device=device) - starts[owner]
    kept = place < _CANDIDATES
    where = (owner[kept], place[kept])
    angles = angle.new_full((count, _CANDIDATES), torch.inf).index_put(where, angle[kept])
    return angles, angle.new_zeros(count, _CANDIDATES).index_put(where, share[kept])


def _reported(angle: Tensor, intensity: Tensor) -> tuple[Tensor, Tensor]:
    """1/d `(B, n)`, rising, and intensities, 0 where there are no more: merged, blurred, some lost, some foreign."""
    count, device = len(angle), angle.device
    angle, intensity = _merged(angle, intensity, _uniform(_RESOLUTION, count, device))
    lost = torch.rand_like(angle) < _uniform(_LOST, count, device)
    angle = angle.masked_fill(lost, torch.inf)
    last = angle.masked_fill(angle.isinf(), 0).amax(1, keepdim=True)
    foreign = torch.rand(count, 3, device=device) * last
    number = torch.multinomial(torch.tensor(_FOREIGN, device=device), count, replacement=True)
    none = (torch.arange(3, device=device) >= number[:, None]) | (foreign < _START[0])
    angle = torch.cat([angle, foreign.masked_fill(none, torch.inf)], dim=1)
    weak = _logarithmic(_THRESHOLD, 3 * count, device).view(count, 3)
    intensity = torch.cat([intensity, weak], dim=1)
    theta = torch.deg2rad(angle.clamp(max=179)) / 2
    error = _logarithmic(_ERROR, count, device) * intensity.clamp(min=1e-3).pow(-0.25)
    shift = _uniform(_ZERO, count, device) + _uniform(_DISPLACEMENT, count, device) * theta.cos()
    angle, order = (angle + shift + error * torch.randn_like(angle)).sort(dim=1)
    angle, intensity = angle[:, :LINES], intensity.gather(1, order)[:, :LINES]
    ends = torch.randint(FEWEST, LINES + 1, (count, 1), device=device)
    ends = torch.where(torch.rand(count, 1, device=device) < _SHORT, ends, LINES)
    there = angle.isfinite() & (torch.arange(LINES, device=device) < ends)
    s = torch.sin(angle.clamp(0.1, 179.0) * (pi / 360)) * (2 / _WAVELENGTH)
    return s, torch.where(there, intensity, 0.0)


def _merged(angle: Tensor, intensity: Tensor, resolution: Tensor) -> tuple[Tensor, Tensor]:
    """Lines nearer than the resolution `(B, 1)` as one, at their centre of gravity."""
    apart = torch.ones_like(angle, dtype=torch.bool)
    apart[:, 1:] = ~(angle[:, 1:] - angle[:, :-1] < resolution)  # inf - inf, too
    group = apart.cumsum(1) - 1
    total = torch.zeros_like(intensity).scatter_add(1, group, intensity)
    moment = torch.zeros_like(intensity).scatter_add(1, group, intensity * angle.clamp(max=180))
    return torch.where(total > 0, moment / total.clamp(min=1e-12), torch.inf), total


def as_lists(s: Tensor, intensity: Tensor) -> tuple[Tensor, Tensor]:
    """Lists `(B, 3, LINES)` and their units `(B,)`, from 1/d `(B, n)`, rising, n up to LINES, and intensities.

    Intensities are relative to a pattern's strongest, and 0 where there is no line.
    """
    there = intensity > 0
    last = there.sum(1, keepdim=True) - 1
    unit = s.gather(1, last.clamp(0, REFERENCE - 1))
    rows = torch.stack([s / unit, intensity.clamp(min=1e-4).log(), unit.log().expand_as(s)], dim=1)
    rows = torch.where(there[:, None], rows, 0.0)
    return torch.nn.functional.pad(rows, (0, LINES - s.shape[1])), unit[:, 0]


def list_source(train: int = 4096, validation: int = 2048, test: int = 2048) -> Source:
    """Lists of lines and the reciprocal lattices behind them; training draws new ones at every step."""
    x, y = drawn(random_lists, train + validation + test, seed=20242)
    targets = tuple(Target(f"q{name}", "", log=True) for name in superbase.NAMES)
    return Source(
        "simulated lists of lines", x, y, (Axis("line", ""),), ROWS, (), targets,
        in_order(train, validation, test), fresh=random_lists,
    )  # fmt: skip
