"""A cell that the user states: refined in the symmetries and centrings that it may have, and judged; no search."""

from collections.abc import Sequence

import numpy as np
import torch

from vitreous.core.errors import InputError
from vitreous.powder.bravais import Bravais, bravais, bravais_options
from vitreous.powder.cell import cell_line, check_cell
from vitreous.powder.lattice import niggli, primitive, same_lattice
from vitreous.powder.merit import evidence
from vitreous.powder.observed_lines import ObservedLines, refine_on_lines
from vitreous.powder.pattern import Pattern
from vitreous.powder.peaks import Peaks
from vitreous.powder.probability import with_probabilities
from vitreous.powder.ranking import Ranking
from vitreous.powder.reciprocal import cell_from_reciprocal, metric_from_cell, reflections_in_range
from vitreous.powder.search import Candidate
from vitreous.powder.solution import Solution
from vitreous.powder.tuning import SearchTuning
from vitreous.powder.whole_pattern import Describe, refine_best

_CENTRINGS = {  # of a cell whose own metric has this symmetry
    "cubic": "PIF", "tetragonal": "PIF", "hexagonal": "PR", "orthorhombic": "PABCIF", "monoclinic": "PABCI",
}  # fmt: skip
_STRAIN = 3e-3  # relative: symmetries that the stated cell nearly has
_NEAR = 0.02  # relative: how far a refinement may lead from the stated cell
_SCALES = (-0.006, -0.003, 0.0, 0.003, 0.006)  # relative changes of lengths from which the cell is refined
_SHIFTS = (-0.06, 0.0, 0.06)  # degrees: zero shifts from which it is refined
_RIVALS = 20  # related lattices that count in the probability
_AXES = {"tetragonal": (90.0, 90.0, 90.0), "hexagonal": (90.0, 90.0, 120.0), "trigonal": (90.0, 90.0, 120.0)}


def parse_cell(words: Sequence[str], systems: Sequence[str] = ()) -> tuple[float, ...]:
    """A cell from words or from one text with commas: a b c (Å) α β γ (°).

    Fewer numbers are enough where they say all: one for a cubic cell, a b c for an orthorhombic one, a b c β for a
    monoclinic one, and a c for a tetragonal, hexagonal or trigonal one, if that is the only one of `systems`.
    """
    parts = [part for word in words for part in word.replace(",", " ").split()]
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        found = f"found {' '.join(parts)[:100]!r}"
        raise InputError(f"cell: {found}, expected numbers: a b c (Å) alpha beta gamma (°)") from None
    if len(numbers) == 1:
        numbers = [*numbers * 3, 90.0, 90.0, 90.0]
    elif len(numbers) == 2:
        named = {system for system in systems if system in _AXES}
        if len(named) != 1 or len(set(systems)) != 1:
            raise InputError("cell: found 2 numbers, expected system tetragonal, hexagonal or trigonal with them")
        numbers = [numbers[0], *numbers, *_AXES[named.pop()]]
    elif len(numbers) == 3:
        numbers = [*numbers, 90.0, 90.0, 90.0]
    elif len(numbers) == 4:
        numbers = [*numbers[:3], 90.0, numbers[3], 90.0]
    check_cell(numbers)
    return tuple(numbers)


def lattices_of(cell: Sequence[float]) -> list[tuple[str, np.ndarray]]:
    """Centrings that a cell may have by the symmetry of its metric, and their reduced primitive cells `(6,)`."""
    own = bravais(cell, _STRAIN)
    hexagonal_axes = own.system == "hexagonal" and abs(cell[5] - 120) < 1
    centrings = _CENTRINGS.get(own.system, "P") if own.centring == "P" else "P"
    if own.system == "hexagonal" and not hexagonal_axes:
        centrings = "P"
    lattices = {centring: niggli(primitive(np.array([tuple(cell)]), centring))[0] for centring in centrings}
    return list(lattices.items())


def judge_cell(ranking: Ranking, cell: Sequence[float]) -> list[Solution]:
    """The lattices of a stated cell, the most evident first, then related lattices, which count in its probability.

    A lattice that the lines lead away from is described as it was stated.
    """
    allowed = [option for _, reduced in lattices_of(cell) for option in _allowed(ranking, reduced)[:1]]
    if not allowed:
        raise InputError(f"cell: found {cell_line(cell)}, which is not {' or '.join(ranking.systems)}")
    candidates = [_candidate(option, ranking.lines, ranking.tuning) for option in allowed]
    solutions = ranking.rank(candidates, _RIVALS)
    own = [each for each in solutions if is_stated(each, cell)]
    for option in allowed:
        reduced = niggli(primitive(option.conventional[None], option.centring))[0]
        if not any(same_lattice(each.cell, reduced, _NEAR) for each in own):
            described = ranking.describe(option, 0.0)
            own += [] if described is None else [described]
    own.sort(key=lambda solution: -solution.evidence)
    rivals = [each for each in solutions if not is_stated(each, cell)]
    return with_probabilities([*own, *rivals], ranking.tuning)


def is_stated(solution: Solution, cell: Sequence[float]) -> bool:
    """Whether a solution has one of the lattices of a stated cell."""
    return any(same_lattice(solution.cell, reduced, _NEAR) for _, reduced in lattices_of(cell))


def refine_stated(
    pattern: Pattern, solutions: Sequence[Solution], peaks: Peaks, describe: Describe, cell: Sequence[float],
    tuning: SearchTuning,
) -> list[Solution]:  # fmt: skip
    """The solutions of `judge_cell`, the first one refined on the whole pattern and judged among the others.

    The pattern may show that the cell has another centring than the lines say.
    """

    def describe_stated(lattice: Bravais, zero: float) -> Solution | None:
        solution = describe(lattice, zero)
        return solution if solution is not None and is_stated(solution, cell) else None

    first = refine_best(pattern, solutions[:1], peaks, describe_stated, tuning)[0]
    others = [each for each in solutions if not same_lattice(each.cell, first.cell, tuning.same_lattice)]
    return with_probabilities([first, *others], tuning)


def _allowed(ranking: Ranking, reduced: np.ndarray) -> list[Bravais]:
    return [option for option in bravais_options(reduced, _STRAIN) if ranking.allows(option)]


def _candidate(option: Bravais, lines: ObservedLines, tuning: SearchTuning) -> Candidate:
    """A lattice refined on the lines from several scales and zero shifts."""
    system = "hexagonal" if option.system == "trigonal" else option.system
    exact = metric_from_cell(system, torch.as_tensor(option.conventional)[None])
    scales = exact.new_tensor([(1 + scale) ** -2 for scale in _SCALES])
    zeros = exact.new_tensor(_SHIFTS)
    start = (scales[:, None] * exact).repeat_interleave(len(zeros), 0)  # (S Z, P)
    shift = zeros.repeat(len(scales))
    basis = reflections_in_range(system, option.centring, start, lines, tuning.highest_index)
    x, zero = refine_on_lines(lines, basis, start, zero=shift, tuning=tuning)
    lengths = cell_from_reciprocal(system, x)[:, :3]
    moved = (lengths / torch.as_tensor(option.conventional[:3]) - 1).abs().amax(1)
    near = moved < _NEAR  # false for an invalid cell
    x, zero = torch.cat([x[near], start]), torch.cat([zero[near], shift])
    scores = evidence(system, lines, basis, x, zero, tuning)
    best = int(scores.argmax())
    return Candidate(system, option.centring, x[best], float(zero[best]), float(scores[best]))
