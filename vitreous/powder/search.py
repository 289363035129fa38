"""The search: candidate lattices of every crystal system that explain the observed lines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vitreous.core.errors import check_choice
from vitreous.powder.lattice import distinct, niggli, primitive
from vitreous.powder.merit import evidence, unexplained_lines
from vitreous.powder.observed_lines import ObservedLines, refine_on_lines
from vitreous.powder.reciprocal import cell_from_reciprocal, lowest_reflections, reflections_in_range
from vitreous.powder.trial_cells import is_plausible_size, reduce_metrics, trial_cells
from vitreous.powder.tuning import SEARCH_TUNING, SearchTuning, TrialEffort

LATTICES = {  # centrings of the lattices of each crystal system; hexagonal includes trigonal
    "cubic": "PIF", "hexagonal": "PR", "tetragonal": "PI", "orthorhombic": "PCIF", "monoclinic": "PC", "triclinic": "P",
}  # fmt: skip
SYSTEMS = ("cubic", "hexagonal", "trigonal", "tetragonal", "orthorhombic", "monoclinic", "triclinic")
_SLOW = ("triclinic", "monoclinic")
_QUICK = tuple(system for system in LATTICES if system not in _SLOW)
# Systems and efforts, each only if the earlier ones leave a doubt. The proposals of the model come after the first.
_STEPS = (
    (_QUICK, 0), (("triclinic",), 0), (("monoclinic",), 0), (("triclinic",), 1), (_QUICK, 2), (("monoclinic",), 2),
    (("triclinic",), 2),
)  # fmt: skip
_CHUNK = 2048


def lattice_systems(systems: Sequence[str]) -> tuple[str, ...]:
    """Crystal systems as keys of `LATTICES`: lattices of trigonal crystals are among the hexagonal ones."""
    for system in systems:
        check_choice("system", system, SYSTEMS)
    return tuple(dict.fromkeys("hexagonal" if system == "trigonal" else system for system in systems))


def allow_rhombohedral(systems: Sequence[str]) -> bool:
    """Whether rhombohedral lattices are among those of the crystal systems: of `hexagonal` alone, they are not."""
    return "trigonal" in systems or set(LATTICES) <= set(systems)


@dataclass(frozen=True)
class Candidate:
    """A lattice that explains the lines."""

    system: str
    centring: str
    x: Tensor  # (P,), free parameters of the reciprocal metric
    zero: float  # zero shift in degrees
    evidence: float  # see `merit.evidence`


def find_candidates(
    every: ObservedLines, systems: Sequence[str], propose: Callable[[], tuple[Tensor, Tensor]] | None,
    tuning: SearchTuning,
) -> list[Candidate]:  # fmt: skip
    """The best candidates of every lattice; slow systems are searched only if the others leave a doubt.

    The first of the lines are searched; all of them decide whether there is a doubt. Then the strong lines are searched
    alone, if intensities are known: those of the larger part of a mixture. `propose` returns triclinic reciprocal
    metrics `(C, 6)` and zero shifts `(C,)` of a trained model.
    """
    candidates, settled = _find_among(every, systems, propose, tuning)
    has_strong = bool(every.foreign.max() > every.foreign.min())
    for factor in tuning.mixture_odds if has_strong and not settled else ():
        strong = every.with_foreign_odds(factor)
        if float((1 - strong.foreign).sum()) > tuning.fewest_lines:
            more, settled = _find_among(strong, systems, propose, tuning)
            lines = every.with_own(tuning.deciding_lines)
            candidates += [_with_evidence(candidate, lines, tuning) for candidate in more]
        if settled:
            break
    return candidates


def _find_among(
    every: ObservedLines, systems: Sequence[str], propose: Callable[[], tuple[Tensor, Tensor]] | None,
    tuning: SearchTuning,
) -> tuple[list[Candidate], bool]:  # fmt: skip
    """The best candidates of every lattice, and whether one of them is beyond doubt."""
    lines = every.with_own(tuning.deciding_lines)
    candidates: list[Candidate] = []
    for step, (group, effort) in enumerate(_STEPS):
        for system in group:
            if system in systems:
                candidates += _search_system(system, tuning.efforts[effort], lines, tuning)
        settled = _is_settled(candidates, lines, every, tuning)
        if step == 0 and "triclinic" in systems and propose is not None and not settled:
            candidates += candidates_from_proposals(*propose(), lines, tuning)
            settled = _is_settled(candidates, lines, every, tuning)
        if settled:
            return candidates, True
    return candidates, False


def _with_evidence(candidate: Candidate, lines: ObservedLines, tuning: SearchTuning) -> Candidate:
    """A candidate with its evidence for other lines."""
    x, zero = candidate.x[None], candidate.x.new_tensor([candidate.zero])
    basis = reflections_in_range(candidate.system, candidate.centring, x, lines, tuning.highest_index)
    return replace(candidate, evidence=float(evidence(candidate.system, lines, basis, x, zero, tuning)[0]))


def _search_system(system: str, effort: TrialEffort, lines: ObservedLines, tuning: SearchTuning) -> list[Candidate]:
    candidates = []
    for centring in LATTICES[system]:
        x, zero = trial_cells(system, centring, lines, effort, tuning)
        candidates += _refine_and_select(system, centring, x, zero, lines, tuning)
    return candidates


def candidates_from_proposals(
    x: Tensor, zero: Tensor, lines: ObservedLines, tuning: SearchTuning = SEARCH_TUNING
) -> list[Candidate]:
    """The best candidates from approximate triclinic metrics `(C, 6)` and zero shifts `(C,)`."""
    plausible = is_plausible_size("triclinic", x, tuning)
    x, zero = reduce_metrics(x[plausible]), zero[plausible]
    if not len(x):
        return []
    basis = lowest_reflections("triclinic", "P", x, lines, tuning.all_reflections)[: tuning.simple_reflections]
    few = lines.with_own(tuning.coarse_lines)
    x, zero = refine_on_lines(few, basis, x, rounds=5, start=7, zero=zero, tuning=tuning)
    good = is_plausible_size("triclinic", x, tuning)
    return _refine_and_select("triclinic", "P", reduce_metrics(x[good]), zero[good], lines, tuning)


def _is_settled(candidates: list[Candidate], lines: ObservedLines, every: ObservedLines, tuning: SearchTuning) -> bool:
    """Whether the best candidate is beyond doubt."""
    if not candidates:
        return False
    best = max(candidates, key=lambda candidate: candidate.evidence)
    q = reflections_in_range(best.system, best.centring, best.x[None], lines, tuning.highest_index) @ best.x
    own, count = 1 - lines.foreign, len(lines.q)
    if int((q <= lines.q[-1]).sum()) > tuning.densest * count:
        return False
    left = float(own[unexplained_lines(lines, q, best.zero, tuning.unexplained_errors)].sum())
    if best.evidence > tuning.ample_evidence and left < tuning.ample_left * float(own.sum()):
        return left_share(best, every, tuning) < tuning.ample_left
    enough = float(own.sum()) >= tuning.deciding_lines - 1
    return enough and best.evidence > tuning.sure_evidence * count and left < tuning.most_left


def left_share(candidate: Candidate, lines: ObservedLines, tuning: SearchTuning) -> float:
    """The share of the crystal's own lines that a candidate leaves unexplained."""
    x = candidate.x[None]
    q = reflections_in_range(candidate.system, candidate.centring, x, lines, tuning.highest_index) @ candidate.x
    own = 1 - lines.foreign
    return float(own[unexplained_lines(lines, q, candidate.zero, tuning.unexplained_errors)].sum() / own.sum())


def _refine_and_select(
    system: str, centring: str, x: Tensor, zero: Tensor, lines: ObservedLines, tuning: SearchTuning
) -> list[Candidate]:
    """The best distinct lattices among metrics `(C, P)`, refined on few lines and then on all lines."""
    if not len(x):
        return []
    basis = lowest_reflections(system, centring, x, lines, tuning.all_reflections)
    simple, quick = basis[: tuning.simple_reflections], tuning.quick_errors
    if len(x) > tuning.promising:
        blurred = replace(lines, sigma=torch.hypot(lines.sigma, tuning.reach * lines.slope))
        parts = zip(x.split(_CHUNK), zero.split(_CHUNK), strict=True)
        scores = torch.cat([evidence(system, blurred, simple, *part, tuning, quick) for part in parts])
        best = scores.topk(tuning.promising).indices
        x, zero = x[best], zero[best]
    few, coarse = lines.with_own(tuning.coarse_lines), tuning.coarse_lines
    x, zero = refine_on_lines(few, simple, x, 4, coarse, zero, tuning.reach, tuning)
    scores = evidence(system, lines, simple, x, zero, tuning, quick)
    best = scores.topk(min(tuning.refined, len(x))).indices
    x, zero = refine_on_lines(lines, basis, x[best], 6, coarse, zero[best], tuning.reach, tuning)
    scores = evidence(system, lines, basis, x, zero, tuning)
    best = scores.topk(min(8 * tuning.best, len(x))).indices
    best = best[scores[best] > -1e8]
    if not len(best):
        return []
    cells = niggli(primitive(cell_from_reciprocal(system, x[best]).numpy(), centring))
    selected = best[torch.as_tensor(distinct(cells, tuning.same_lattice)[: tuning.best])]
    return [Candidate(system, centring, x[i], float(zero[i]), float(scores[i])) for i in selected]
