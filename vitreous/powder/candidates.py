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

# Reflections tried for a line, and lines tried.
_SIMPLE = {"cubic": 24, "tetragonal": 24, "hexagonal": 24, "orthorhombic": 20, "monoclinic": 14}
_FIRST = {"cubic": 6, "tetragonal": 6, "hexagonal": 6, "orthorhombic": 5, "monoclinic": 6}
# The same cells with their axes named or turned otherwise: places and signs of the basis' numbers.
_RENAMED: dict[str, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "orthorhombic": [(order, (1, 1, 1)) for order in permutations(range(3))],
    "monoclinic": [(order, (1, 1, 1, sign)) for order in ((0, 1, 2, 3), (2, 1, 0, 3)) for sign in (1, -1)],
}
_SHARE = (0.6, 4.0)  # lines that a cell may have for one that was seen
_VOLUME = (10.0, 15_000.0)  # Å³
_LENGTH = (2.0, 45.0)  # Å


def exhaustive(system: str, centring: str, lines: Observed) -> Tensor:
    """All cells `(C, P)` of a system in which its first lines are simple reflections."""
    basis = reflections(system, centring, (4, 4, 4))
    squares = basis[:, : basis.shape[1] - (system == "monoclinic")]  # without the product hl
    weight = squares.sum(1) + 0.1 * squares.amax(1)
    simple = basis[weight.argsort()][: _SIMPLE[system]]
    parameters = basis.shape[1]
    rows = torch.tensor(list(permutations(range(len(simple)), parameters)))  # (R, P)
    if system in _RENAMED:
        rows = rows[_first_named(simple[rows], system)]
    matrices = simple[rows]  # (R, P, P)
    solvable = torch.linalg.det(matrices).abs() > 0.5
    inverse = torch.linalg.inv(matrices[solvable])
    found = []
    for chosen in combinations(range(min(_FIRST[system], len(lines.q))), parameters):
        x = inverse @ lines.q[list(chosen)]
        found.append(x[_plausible(centring, x, lines)] if system == "monoclinic" else x)
    return _possible(system, torch.cat(found)) if found else simple.new_zeros(0, parameters)


def _first_named(matrices: Tensor, system: str) -> Tensor:
    """Which sets of reflections `(R, P, P)` are not those of another with the axes renamed: the first of each."""
    weights = torch.rand(matrices.shape[1:], dtype=matrices.dtype, generator=torch.Generator().manual_seed(1))
    keys = [
        ((matrices[:, :, list(order)] * matrices.new_tensor(sign)) * weights).sum((1, 2))
        for order, sign in _RENAMED[system]
    ]
    return keys[0] <= torch.stack(keys).amin(0) + 1e-9


def _plausible(centring: str, x: Tensor, lines: Observed) -> Tensor:
    """Whether monoclinic cells have about as many lines as were seen: their volumes say."""
    a, b, c, e = x.unbind(1)
    squared = b * (a * c - e.square() / 4)  # of the reciprocal volume
    alike = 2 if centring == "P" else 4  # of half the sphere: coinciding or extinct
    count = 2 * torch.pi / 3 * lines.q[-1] ** 1.5 / squared.clamp(min=1e-12).sqrt() / alike
    share = count / len(lines.q)
    return (squared > 0) & (a > 0) & (b > 0) & (c > 0) & (share > _SHARE[0]) & (share < _SHARE[1])


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
