"""The search: candidate lattices of every crystal system that explain the observed lines."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vitreous.powder.lattice import distinct, niggli, primitive
from vitreous.powder.merit import evidence, unexplained_lines
from vitreous.powder.observed_lines import ObservedLines, refine_on_lines
from vitreous.powder.reciprocal import cell_from_reciprocal, lowest_reflections, reflections_in_range
from vitreous.powder.trial_cells import is_plausible_size, reduce_metrics, trial_cells
from vitreous.powder.tuning import SEARCH_TUNING, SearchTuning, TrialEffort

LATTICES = {  # centrings of the lattices of each crystal system; hexagonal includes trigonal
    "cubic": "PIF", "hexagonal": "PR", "tetragonal": "PI", "orthorhombic": "PCIF", "monoclinic": "PC", "triclinic": "P",
}  # fmt: skip
_SLOW = ("triclinic", "monoclinic")
_QUICK = tuple(system for system in LATTICES if system not in _SLOW)
# Systems and efforts, each only if the earlier ones leave a doubt. The proposals of the model come after the first.
_STEPS = (
    (_QUICK, 0), (("triclinic",), 0), (("monoclinic",), 0), (("triclinic",), 1), (_QUICK, 2), (("monoclinic",), 2),
    (("triclinic",), 2),
)  # fmt: skip
_CHUNK = 2048


@dataclass(frozen=True)
class Candidate:
    """A lattice that explains the lines."""

    system: str
    centring: str
    x: Tensor  # (P,), free parameters of the reciprocal metric
    zero: float  # zero shift in degrees
    evidence: float  # see `merit.evidence`


def find_candidates(
    lines: ObservedLines, systems: Sequence[str], propose: Callable[[], Tensor] | None, tuning: SearchTuning
) -> list[Candidate]:
    """The best candidates of every lattice; slow systems are searched only if the others leave a doubt.

    `propose` returns triclinic reciprocal metrics `(C, 6)` of a trained model.
    """
    candidates: list[Candidate] = []
    for step, (group, effort) in enumerate(_STEPS):
        for system in group:
            if system in systems:
                candidates += _search_system(system, tuning.efforts[effort], lines, tuning)
        if step == 0 and "triclinic" in systems and propose is not None and not _is_settled(candidates, lines, tuning):
            candidates += candidates_from_proposals(propose(), lines, tuning)
        if _is_settled(candidates, lines, tuning):
            break
    return candidates


def _search_system(system: str, effort: TrialEffort, lines: ObservedLines, tuning: SearchTuning) -> list[Candidate]:
    candidates = []
    for centring in LATTICES[system]:
        x, zero = trial_cells(system, centring, lines, effort, tuning)
        candidates += _refine_and_select(system, centring, x, zero, lines, tuning)
    return candidates


def candidates_from_proposals(x: Tensor, lines: ObservedLines, tuning: SearchTuning = SEARCH_TUNING) -> list[Candidate]:
    """The best candidates from approximate triclinic metrics `(C, 6)`."""
    x = reduce_metrics(x[is_plausible_size("triclinic", x, tuning)])
    if not len(x):
        return []
    basis = lowest_reflections("triclinic", "P", x, lines, tuning.all_reflections)[: tuning.simple_reflections]
    x, zero = refine_on_lines(lines.with_own(tuning.coarse_lines), basis, x, rounds=5, start=7, tuning=tuning)
    good = is_plausible_size("triclinic", x, tuning)
    return _refine_and_select("triclinic", "P", reduce_metrics(x[good]), zero[good], lines, tuning)


def _is_settled(candidates: list[Candidate], lines: ObservedLines, tuning: SearchTuning) -> bool:
    """Whether the best candidate is beyond doubt."""
    if not candidates or float((1 - lines.foreign).sum()) < tuning.deciding_lines - 1:
        return False
    best = max(candidates, key=lambda candidate: candidate.evidence)
    q = reflections_in_range(best.system, best.centring, best.x[None], lines, tuning.highest_index) @ best.x
    possible = int((q <= lines.q[-1]).sum())
    unexplained = unexplained_lines(lines, q, best.zero, tuning.unexplained_errors)
    left, count = float((1 - lines.foreign)[unexplained].sum()), len(lines.q)
    certain = best.evidence > tuning.sure_evidence * count
    return certain and possible <= tuning.densest * count and left < tuning.most_left


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
