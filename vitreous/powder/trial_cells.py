"""Trial cells: every cell in which the first observed lines are simple reflections.

As many lines as a system has free parameters, each assigned to every simple reflection, give all possible cells;
triclinic cells come from `zones`. Each is scored by how many of its simple lines were observed, for a few zero shifts,
because a cell from a few lines carries their shift to all other lines.
"""

from functools import lru_cache
from itertools import permutations

import torch
from torch import Tensor

from vitreous.powder.lattice import niggli
from vitreous.powder.merit import LineMap
from vitreous.powder.observed_lines import ObservedLines
from vitreous.powder.reciprocal import cell_from_reciprocal, metric_from_cell, reflection_basis
from vitreous.powder.tuning import SEARCH_TUNING, SearchTuning, TrialReflections
from vitreous.powder.zones import zone_cells

# Equivalent cells with renamed or reversed axes: order and signs of the metric's free parameters.
_RENAMED: dict[str, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "orthorhombic": [(order, (1, 1, 1)) for order in permutations(range(3))],
    "monoclinic": [(order, (1, 1, 1, sign)) for order in ((0, 1, 2, 3), (2, 1, 0, 3)) for sign in (1, -1)],
}
_CHUNK = 16_384


def trial_cells(
    system: str, centring: str, lines: ObservedLines, tuning: SearchTuning = SEARCH_TUNING
) -> tuple[Tensor, Tensor]:
    """The best trial cells of a lattice other than triclinic: metric parameters `(C, P)` and zero shifts `(C,)`."""
    trial: TrialReflections = getattr(tuning, system)
    scored, inverse = _simple_reflections(system, centring, trial, tuning.scored_reflections)
    own = torch.nonzero(1 - lines.foreign >= tuning.least_own)[: tuning.last_line, 0]
    choices = _line_choices(trial.first_lines, own, inverse.shape[1])
    parts = []
    for zero in tuning.zero_shifts if len(choices) else ():
        shifted = lines.without_zero_shift(zero)
        x = torch.einsum("rij,cj->rci", inverse, shifted.q[choices]).flatten(0, 1)
        x = x[_plausible(system, centring, x, lines, tuning)]
        line_map = LineMap.from_lines(shifted)
        scores = torch.cat([line_map.score(part @ scored.T) for part in x.float().split(_CHUNK)])
        parts.append((x, scores, x.new_full((len(x),), zero)))
    if not parts:
        return scored.new_zeros(0, inverse.shape[1]), scored.new_zeros(0)
    return _best(system, parts, tuning.promising, tuning)


def triclinic_trial_cells(
    lines: ObservedLines, most: int, angles: int, tuning: SearchTuning = SEARCH_TUNING
) -> tuple[Tensor, Tensor]:
    """The best triclinic trial cells `(C, 6)` by `zones`, Niggli-reduced, and their zero shifts `(C,)`.

    `angles` is the number of angles tried for each pair of lines.
    """
    parts = []
    for zero in tuning.zero_shifts:
        x, scores = zone_cells(lines, zero, most, angles, tuning)
        parts.append((x.double(), scores, torch.full_like(scores, zero).double()))
    x, zeros = _best("triclinic", parts, most, tuning)
    return reduce_metrics(x), zeros


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
    keys = [
        ((matrices[:, :, list(order)] * matrices.new_tensor(sign)) * weights).sum((1, 2))
        for order, sign in _RENAMED[system]
    ]
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
