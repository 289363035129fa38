"""Where the search begins: every cell that the first lines can mean.

As many of the first lines as a system has free parameters, each taken for every simple reflection, give all cells there
are; for triclinic cells, see `zones`. They are scored at once by how many of their simple lines were seen, for a few
zero shifts, since a cell from a few lines carries the shift to all the others.
"""

from functools import lru_cache
from itertools import permutations

import torch
from torch import Tensor

from vitreous.powder.lattice import niggli
from vitreous.powder.search import Map, Observed, basis_of, cell_of, reflections
from vitreous.powder.zones import zones

# Reflections tried for a line, and lines tried.
_SIMPLE = {"cubic": 24, "tetragonal": 36, "hexagonal": 36, "orthorhombic": 20, "monoclinic": 14}
_FIRST = {"cubic": 6, "tetragonal": 5, "hexagonal": 5, "orthorhombic": 5, "monoclinic": 6}
_LAST = 14  # lines tried as the last with the lowest others: where one axis is short, the first lines lie in a plane
_SCORED = 40  # reflections, the simplest ones, by which a cell is scored
_WEIGHTS = {  # of the basis' numbers, by which reflections are the simpler: c may be long
    "cubic": (1.0,), "tetragonal": (1.0, 0.2), "hexagonal": (1.0, 0.15), "orthorhombic": (1.0, 1.0, 1.0),
    "monoclinic": (1.0, 1.0, 1.0, 0.0),
}  # fmt: skip
# The same cells with their axes named or turned otherwise: places and signs of the basis' numbers.
_RENAMED: dict[str, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "orthorhombic": [(order, (1, 1, 1)) for order in permutations(range(3))],
    "monoclinic": [(order, (1, 1, 1, sign)) for order in ((0, 1, 2, 3), (2, 1, 0, 3)) for sign in (1, -1)],
}
_ZEROS = (-0.06, -0.04, -0.02, 0.0, 0.02, 0.04, 0.06)  # degrees
_OWN = 0.6  # probability of being the crystal's that the lines tried have at least
_SHARE = (0.6, 5.0)  # lines that a cell may have for one that was seen
_VOLUME = (10.0, 15_000.0)  # Å³
_LENGTH = (2.0, 45.0)  # Å
_CHUNK = 16_384


def exhaustive(system: str, centring: str, lines: Observed, keep: int) -> tuple[Tensor, Tensor]:
    """The best cells `(C, P)` of a system in which its first lines are simple reflections, and zero shifts `(C,)`."""
    scored, inverse = _simple(system, centring)
    choices = _choices(system, torch.nonzero(1 - lines.foreign >= _OWN)[:_LAST, 0], inverse.shape[1])
    found = []
    for zero in _ZEROS if len(choices) else ():
        shifted = lines.shifted(zero)
        x = torch.einsum("rij,cj->rci", inverse, shifted.q[choices]).flatten(0, 1)
        x = x[_plausible(system, centring, x, lines)]
        found.append((x, *_scores(x, scored, Map.of(shifted), zero)))
    if not found:
        return scored.new_zeros(0, inverse.shape[1]), scored.new_zeros(0)
    return _best(system, found, keep)


def _choices(system: str, own: Tensor, parameters: int) -> Tensor:
    """Which lines are tried together, `(n, P)`."""
    first = torch.combinations(own[: _FIRST[system]], parameters)
    if parameters < 3:
        return first
    lowest = torch.combinations(own[:parameters], parameters - 1)
    later = own[_FIRST[system] :]
    pairs = torch.cartesian_prod(torch.arange(len(lowest)), torch.arange(len(later)))
    return torch.cat([first, torch.cat([lowest[pairs[:, 0]], later[pairs[:, 1], None]], dim=1)])


def triclinic(lines: Observed, keep: int, angles: int) -> tuple[Tensor, Tensor]:
    """The best triclinic cells `(C, 6)` by `zones`, in Niggli's basis, and their zero shifts `(C,)`."""
    found = []
    for zero in _ZEROS:
        x, scores = zones(lines, zero, keep, angles)
        found.append((x.double(), scores, torch.full_like(scores, zero).double()))
    x, zeros = _best("triclinic", found, keep)
    return reduced(x), zeros


def _scores(x: Tensor, scored: Tensor, seen: Map, zero: float) -> tuple[Tensor, Tensor]:
    parts = [seen.score(part @ scored.T) for part in x.float().split(_CHUNK)]
    return torch.cat(parts), x.new_full((len(x),), zero)


def _best(system: str, found: list[tuple[Tensor, Tensor, Tensor]], keep: int) -> tuple[Tensor, Tensor]:
    x, scores, zero = (torch.cat(parts) for parts in zip(*found, strict=True))
    best = scores.topk(min(4 * keep, len(scores))).indices
    best = best[possible(system, x[best])][:keep]
    return x[best], zero[best]


@lru_cache(maxsize=32)
def _simple(system: str, centring: str) -> tuple[Tensor, Tensor]:
    """Reflections by which cells are scored `(H, P)` float32, and what gives cells from lines `(R, P, P)`."""
    basis = reflections(system, centring, (4, 4, 9))
    basis = basis[(basis @ basis.new_tensor(_WEIGHTS[system]) + 1e-3 * basis.sum(1)).argsort()]
    simple = basis[: _SIMPLE[system]]
    rows = torch.tensor(list(permutations(range(len(simple)), basis.shape[1])))
    if system in _RENAMED:
        rows = rows[_first_named(simple[rows], system)]
    matrices = simple[rows]
    inverse: Tensor = torch.linalg.inv(matrices[torch.linalg.det(matrices).abs() > 0.5])
    return basis[:_SCORED].float(), inverse


def _first_named(matrices: Tensor, system: str) -> Tensor:
    """Which sets of reflections `(R, P, P)` are not those of another with the axes renamed: the first of each."""
    weights = torch.rand(matrices.shape[1:], dtype=matrices.dtype, generator=torch.Generator().manual_seed(1))
    keys = [
        ((matrices[:, :, list(order)] * matrices.new_tensor(sign)) * weights).sum((1, 2))
        for order, sign in _RENAMED[system]
    ]
    return keys[0] <= torch.stack(keys).amin(0) + 1e-9


def _plausible(system: str, centring: str, x: Tensor, lines: Observed) -> Tensor:
    """Whether cells are such; with three axes, also have about as many lines as were seen: their volumes say."""
    if x.shape[1] < 3:
        return (x > 0).all(1)
    a, b, c = x[:, :3].unbind(1)
    squared = b * (a * c - (x[:, 3].square() / 4 if system == "monoclinic" else 0))  # of the reciprocal volume
    alike = (2 if system == "monoclinic" else 4) * {"P": 1, "F": 4}.get(centring, 2)  # coinciding or extinct
    count = 2 * torch.pi / 3 * lines.q[-1] ** 1.5 / squared.clamp(min=1e-12).sqrt() / alike
    share = count / (1 - lines.foreign).sum()
    return (squared > 0) & (x[:, :3] > 0).all(1) & (share > _SHARE[0]) & (share < _SHARE[1])


def reduced(x: Tensor) -> Tensor:
    """Triclinic reciprocal metrics `(C, 6)` of the same lattices in Niggli's basis."""
    return basis_of("triclinic", torch.as_tensor(niggli(cell_of("triclinic", x).numpy())))


def possible(system: str, x: Tensor) -> Tensor:
    """Which of the metrics `(C, P)` are cells, of a size that crystals have."""
    cell = cell_of(system, x)
    lengths = cell[:, :3]
    cosines = torch.deg2rad(cell[:, 3:]).cos()
    shape = 1 - cosines.square().sum(1) + 2 * cosines.prod(1)
    volume = lengths.prod(1) * shape.clamp(min=0).sqrt()
    good = (lengths > _LENGTH[0]).all(1) & (lengths < _LENGTH[1]).all(1)
    return good & (volume > _VOLUME[0]) & (volume < _VOLUME[1])
