"""Where the search begins: every cell that the first lines can mean, or many cells like real ones.

Up to three free parameters, as many of the first lines as there are parameters, each taken for every simple
reflection, give all cells there are. Beyond that, cells are drawn with the statistics of real ones, at the scale at
which they have about as many lines as were seen.
"""

from itertools import combinations, permutations

import torch
from torch import Tensor

from vitreous.powder.search import Observed, basis_of, cell_of, reflections
from vitreous.sim.crystals import random_cells

_SIMPLE = {"cubic": 24, "tetragonal": 24, "hexagonal": 24, "orthorhombic": 20}  # reflections tried for a line
_FIRST = {"cubic": 6, "tetragonal": 6, "hexagonal": 6, "orthorhombic": 5}  # lines tried
_VOLUME = (10.0, 15_000.0)  # Å³
_LENGTH = (2.0, 45.0)  # Å


def exhaustive(system: str, centring: str, lines: Observed) -> Tensor:
    """All cells `(C, P)` of a system in which its first lines are simple reflections."""
    basis = reflections(system, centring, (4, 4, 4))
    weight = basis.sum(1) + 0.1 * basis.amax(1)
    simple = basis[weight.argsort()][: _SIMPLE[system]]
    parameters = basis.shape[1]
    rows = torch.tensor(list(permutations(range(len(simple)), parameters)))  # (R, P)
    if system == "orthorhombic":
        rows = rows[_ordered_axes(simple[rows])]
    matrices = simple[rows]  # (R, P, P)
    solvable = torch.linalg.det(matrices).abs() > 0.5
    inverse = torch.linalg.inv(matrices[solvable])
    found = []
    for chosen in combinations(range(min(_FIRST[system], len(lines.q))), parameters):
        found.append(inverse @ lines.q[list(chosen)])
    return _possible(system, torch.cat(found))


def _ordered_axes(matrices: Tensor) -> Tensor:
    """Which sets of reflections are not those of another with the axes renamed: the one of six that comes first."""
    digits = torch.tensor([1e4, 1e2, 1.0], dtype=matrices.dtype)
    powers = torch.tensor([1e12, 1e6, 1.0], dtype=matrices.dtype)
    keys = torch.stack([(matrices[:, :, list(p)] @ digits) @ powers for p in permutations(range(3))], dim=1)
    return keys[:, 0] <= keys.amin(1)


def sampled(system: str, centring: str, lines: Observed, count: int, seen: tuple[float, float] = (0.9, 2.5)) -> Tensor:
    """Cells `(C, P)` like real ones, scaled so that they have 0.9 to 2.5 times as many lines as were seen."""
    cells = random_cells(system, count).double()
    x = basis_of(system, cells)
    basis = reflections(system, centring, (4, 4, 6))
    ratio = torch.empty(count, dtype=torch.float64).uniform_(*seen)
    want = (ratio * len(lines.q)).round().long().clamp(1, len(basis) - 1)
    at = torch.empty_like(ratio)
    for part in torch.arange(count).split(4096):  # Q of the line that is to be the last
        at[part] = (x[part] @ basis.T).sort(dim=1).values.gather(1, want[part, None])[:, 0]
    return _possible(system, x * (lines.q[-1] / at)[:, None])


def around(system: str, cells: Tensor, lengths: float, angles: float, count: int) -> Tensor:
    """Cells `(C, P)` about the given ones `(n, 6)`, `count` of each, with deviations relative and in degrees."""
    deviation = torch.randn(len(cells), count, 6, dtype=torch.float64)
    deviation[:, 0] = 0
    scale = torch.exp(lengths * deviation[..., :3])
    moved = torch.cat([cells[:, None, :3] * scale, cells[:, None, 3:] + angles * deviation[..., 3:]], dim=2)
    return _possible(system, basis_of(system, moved.flatten(0, 1)))


def _possible(system: str, x: Tensor) -> Tensor:
    """Those that are cells, and of a size that crystals have."""
    x = x[x.isfinite().all(1)]
    cell = cell_of(system, x)
    lengths = cell[:, :3]
    cosines = torch.deg2rad(cell[:, 3:]).cos()
    shape = 1 - cosines.square().sum(1) + 2 * cosines.prod(1)
    volume = lengths.prod(1) * shape.clamp(min=0).sqrt()
    good = (lengths > _LENGTH[0]).all(1) & (lengths < _LENGTH[1]).all(1)
    return x[good & (volume > _VOLUME[0]) & (volume < _VOLUME[1])]
