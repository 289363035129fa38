"""Trial cells: every cell in which the first observed lines are simple reflections.

As many lines as a system has free parameters, each assigned to every simple reflection, give all possible cells. Each
is scored by how many of its simple lines were observed, for a few zero shifts, because a cell from a few lines carries
their shift to all other lines.

Triclinic cells come from Ito's zones: three lines for a*, b* and c*, and other lines for the angles between them. 1/d²
of h and k in the plane of two reciprocal vectors is h²A + k²B + hkR. A third line, taken for the sum or the difference
of the two vectors, gives |R|. A choice with a missing or a foreign line fails, but a lattice has many bases.
"""

import math
from functools import lru_cache
from itertools import permutations, product

import torch
from torch import Tensor

from vitreous.powder.lattice import niggli
from vitreous.powder.merit import LineMap
from vitreous.powder.observed_lines import ObservedLines
from vitreous.powder.reciprocal import cell_from_reciprocal, metric_from_cell, reflection_basis
from vitreous.powder.tuning import SEARCH_TUNING, SearchTuning, TrialEffort, TrialReflections

# Equivalent cells with renamed or reversed axes: order and signs of the metric's free parameters.
_RENAMED: dict[str, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "orthorhombic": [(order, (1, 1, 1)) for order in permutations(range(3))],
    "monoclinic": [(order, (1, 1, 1, sign)) for order in ((0, 1, 2, 3), (2, 1, 0, 3)) for sign in (1, -1)],
}
_CHUNK = 16_384


def _half(most: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Indices up to `most`, one of each h and -h."""
    return [h for h in product(*(range(-m, m + 1) for m in most)) if h > (0,) * len(most)]


_PLANE = torch.tensor([(h * h, k * k, h * k) for h, k in _half((3, 2)) if h and k and math.gcd(h, k) == 1]).float()
_SPACE = torch.tensor([(h * h, k * k, m * m, k * m, h * m, h * k) for h, k, m in _half((3, 2, 1))]).float()


def trial_cells(
    system: str, centring: str, lines: ObservedLines, effort: TrialEffort, tuning: SearchTuning = SEARCH_TUNING
) -> tuple[Tensor, Tensor]:
    """The best trial cells of a lattice: metric parameters `(C, P)` and zero shifts `(C,)`."""
    if system == "triclinic":
        return _triclinic_trial_cells(lines, effort, tuning)
    trial: TrialReflections = getattr(tuning, system)
    scored, inverse = _simple_reflections(system, centring, trial, tuning.scored_reflections)
    own = torch.nonzero(1 - lines.foreign >= tuning.least_own)[: tuning.last_line, 0]
    choices = _line_choices(trial.first_lines + effort.more_lines, own, inverse.shape[1])
    parts = []
    for zero in effort.zero_shifts if len(choices) else ():
        shifted, line_map = _shifted(lines, zero)
        x = torch.einsum("rij,cj->rci", inverse, shifted.q[choices]).flatten(0, 1)
        x = x[_plausible(system, centring, x, lines, tuning)]
        scores = torch.cat([line_map.score(part @ scored.T) for part in x.float().split(_CHUNK)])
        parts.append((x, scores, x.new_full((len(x),), zero)))
    if not parts:
        return scored.new_zeros(0, inverse.shape[1]), scored.new_zeros(0)
    return _best(system, parts, effort.cells, tuning)


def _triclinic_trial_cells(lines: ObservedLines, effort: TrialEffort, tuning: SearchTuning) -> tuple[Tensor, Tensor]:
    """The best triclinic trial cells `(C, 6)`, Niggli-reduced, and their zero shifts `(C,)`."""
    parts = []
    for zero in effort.zero_shifts:
        x, scores = _zone_cells(*_shifted(lines, zero), effort.zone_cells, effort.zone_angles, tuning)
        parts.append((x.double(), scores, torch.full_like(scores, zero).double()))
    x, zeros = _best("triclinic", parts, effort.zone_cells, tuning)
    return reduce_metrics(x), zeros


@lru_cache(maxsize=16)
def _shifted(lines: ObservedLines, zero: float) -> tuple[ObservedLines, LineMap]:
    """The lines without a zero shift, and their map; all lattices are searched with the same ones."""
    shifted = lines.without_zero_shift(zero)
    return shifted, LineMap.from_lines(shifted)


def _line_choices(first_lines: int, own: Tensor, parameters: int) -> Tensor:
    """Sets of lines that are tried together, `(n, P)`."""
    first = torch.combinations(own[:first_lines], parameters)
    if parameters < 3:
        return first
    lowest = torch.combinations(own[:parameters], parameters - 1)
    later = own[first_lines:]
    pairs = torch.cartesian_prod(torch.arange(len(lowest)), torch.arange(len(later)))
    return torch.cat([first, torch.cat([lowest[pairs[:, 0]], later[pairs[:, 1], None]], dim=1)])


def _best(
    system: str, parts: list[tuple[Tensor, Tensor, Tensor]], most: int, tuning: SearchTuning
) -> tuple[Tensor, Tensor]:
    x, scores, zero = (torch.cat(columns) for columns in zip(*parts, strict=True))
    best = scores.topk(min(4 * most, len(scores))).indices
    best = best[is_plausible_size(system, x[best], tuning)][:most]
    return x[best], zero[best]


@lru_cache(maxsize=32)
def _simple_reflections(system: str, centring: str, trial: TrialReflections, scored: int) -> tuple[Tensor, Tensor]:
    """Reflections `(H, P)` float32 that score a cell, and matrices `(R, P, P)` from lines to metric parameters."""
    basis = reflection_basis(system, centring, (4, 4, 9))
    basis = basis[(basis @ basis.new_tensor(trial.weights) + 1e-3 * basis.sum(1)).argsort()]
    simple = basis[: trial.simple]
    rows = torch.tensor(list(permutations(range(len(simple)), basis.shape[1])))
    if system in _RENAMED:
        rows = rows[_first_of_renamed(simple[rows], system)]
    matrices = simple[rows]
    inverse: Tensor = torch.linalg.inv(matrices[torch.linalg.det(matrices).abs() > 0.5])
    return basis[:scored].float(), inverse


def _first_of_renamed(matrices: Tensor, system: str) -> Tensor:
    """Which sets of reflections `(R, P, P)` are the first among those that differ only in the names of the axes."""
    weights = torch.rand(matrices.shape[1:], dtype=matrices.dtype, generator=torch.Generator().manual_seed(1))
    renamed = (matrices[:, :, list(order)] * matrices.new_tensor(sign) for order, sign in _RENAMED[system])
    keys = [(other * weights).sum((1, 2)) for other in renamed]
    return keys[0] <= torch.stack(keys).amin(0) + 1e-9


def _plausible(system: str, centring: str, x: Tensor, lines: ObservedLines, tuning: SearchTuning) -> Tensor:
    """Whether metrics are valid; with three or more parameters, also whether their density of lines is plausible."""
    if x.shape[1] < 3:
        return (x > 0).all(1)
    a, b, c = x[:, :3].unbind(1)
    squared = b * (a * c - (x[:, 3].square() / 4 if system == "monoclinic" else 0))  # of the reciprocal volume
    alike = (2 if system == "monoclinic" else 4) * {"P": 1, "F": 4}.get(centring, 2)  # coinciding or extinct
    count = 2 * torch.pi / 3 * lines.q[-1] ** 1.5 / squared.clamp(min=1e-12).sqrt() / alike
    share = count / (1 - lines.foreign).sum()
    low, high = tuning.lines_per_observed
    return (squared > 0) & (x[:, :3] > 0).all(1) & (share > low) & (share < high)


def _zone_cells(
    lines: ObservedLines, line_map: LineMap, most: int, angles: int, tuning: SearchTuning
) -> tuple[Tensor, Tensor]:
    """The best reciprocal metrics `(C, 6)` and their scores `(C,)`."""
    q = lines.q[1 - lines.foreign >= tuning.least_own].float()
    used = min(tuning.zone_last, len(q))
    if used < 3:
        return q.new_zeros(0, 6), q.new_zeros(0)
    products, valid = _angle_products(q, used, angles, line_map)  # (pairs, angles)
    number = torch.zeros(used, used, dtype=torch.long)
    number[tuple(torch.combinations(torch.arange(used), 2).T)] = torch.arange(len(products))
    triples = torch.combinations(torch.arange(used), 3)
    triples = triples[(triples[:, 2] < tuning.zone_first) | (triples[:, 1] < tuning.zone_lowest)]
    ab, ac, bc = (number[triples[:, i], triples[:, j]] for i, j in ((0, 1), (0, 2), (1, 2)))
    good = valid[ab][:, :, None, None] & valid[ac][:, None, :, None] & valid[bc][:, None, None, :]
    t, i, j, k = good.nonzero(as_tuple=True)
    abc = q[triples[t]]
    x = torch.cat([abc, torch.stack([products[bc[t], k], products[ac[t], j], products[ab[t], i]], dim=1)], dim=1)
    x = torch.cat([x, x * x.new_tensor([1, 1, 1, -1, 1, 1])])  # axes can be reversed so that only one sign matters
    x = x[_plausible_zones(x, lines, tuning.zone_lines_per_observed)]
    if not len(x):
        return x, x.new_zeros(0)
    scores = torch.cat([line_map.score(part @ _SPACE.T) for part in x.split(_CHUNK)])
    best = scores.topk(min(most, len(x)))
    return x[best.indices], best.values


def _angle_products(q: Tensor, used: int, count: int, line_map: LineMap) -> tuple[Tensor, Tensor]:
    """The best |R| for each pair of the first lines, `(pairs, angles)`, and whether each is possible."""
    i, j = torch.combinations(torch.arange(used), 2).T
    a, b = q[i, None], q[j, None]
    r = (q - a - b).abs()  # (pairs, lines)
    plane = torch.stack([a.expand_as(r), b.expand_as(r), r], dim=2) @ _PLANE.T
    possible = r < 0.98 * 2 * (a * b).sqrt()
    pair = torch.arange(len(i))
    possible[pair, i] = possible[pair, j] = False
    scores = torch.where(possible, line_map.score(plane.flatten(0, 1)).view(r.shape), -torch.inf)
    best = scores.topk(min(count, len(q)), dim=1)
    return r.gather(1, best.indices), best.values.isfinite()


def _plausible_zones(x: Tensor, lines: ObservedLines, per_observed: tuple[float, float]) -> Tensor:
    a, b, c, d, e, f = x.unbind(1)
    squared = a * b * c + (d * e * f - a * d * d - b * e * e - c * f * f) / 4  # of the reciprocal volume
    possible = 2 * math.pi / 3 * float(lines.q[-1]) ** 1.5 / squared.clamp(min=1e-12).sqrt()
    share = possible / float((1 - lines.foreign).sum())
    good: Tensor = (squared > 0) & (share > per_observed[0]) & (share < per_observed[1])
    return good


def reduce_metrics(x: Tensor) -> Tensor:
    """Triclinic reciprocal metrics `(C, 6)` in the Niggli-reduced basis of the same lattices."""
    return metric_from_cell("triclinic", torch.as_tensor(niggli(cell_from_reciprocal("triclinic", x).numpy())))


def is_plausible_size(system: str, x: Tensor, tuning: SearchTuning = SEARCH_TUNING) -> Tensor:
    """Whether metrics `(C, P)` are valid cells with plausible lengths and volumes, `(C,)`."""
    cell = cell_from_reciprocal(system, x)
    lengths = cell[:, :3]
    cosines = torch.deg2rad(cell[:, 3:]).cos()
    shape = 1 - cosines.square().sum(1) + 2 * cosines.prod(1)
    volume = lengths.prod(1) * shape.clamp(min=0).sqrt()
    good = (lengths > tuning.length[0]).all(1) & (lengths < tuning.length[1]).all(1)
    return good & (volume > tuning.volume[0]) & (volume < tuning.volume[1])
