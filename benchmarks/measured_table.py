"""Measured patterns: the lattice, Bravais lattice, probability, time and standard errors of `vitreous index`.

    python -m benchmarks.measured_table                      # every pattern, minutes
    python -m benchmarks.measured_table --names quartz nacl  # those whose names contain one of the words

The patterns and their cells are in the folders `powder` and `measured/single` of the data folder (setting
VITREOUS_DATA). A lattice is right if some basis of it has all six parameters within 1 % of the true Niggli cell, which
for some patterns is that of another sample. Pulls are deviations of the refined cell from the true one, in standard
errors, where crystal system and centring are right.
"""

import itertools
import statistics
import time
from typing import NamedTuple

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.index_table import off
from benchmarks.refinement_pulls import Case, measured_cases
from vitreous.powder.cell import cell_line, free_indices
from vitreous.powder.indexing import IndexOptions, index_pattern
from vitreous.powder.lattice import niggli, primitive
from vitreous.powder.solution import Solution

_SAME = 0.01  # relative
_SURE = 0.5  # probability above which an answer is one that users rely on


class Answer(NamedTuple):
    """What the program answered to one pattern."""

    case: Case
    solutions: list[Solution]
    rank: int | None  # of the true lattice
    seconds: float

    @property
    def best(self) -> Solution | None:
        """The first solution."""
        return self.solutions[0] if self.solutions else None

    @property
    def is_right(self) -> bool:
        """Whether the first lattice is the true one."""
        return self.rank == 1

    @property
    def is_right_bravais(self) -> bool:
        """Whether crystal system and centring are right, too."""
        best, case = self.best, self.case
        if not self.is_right or best is None:
            return False
        true_system = "hexagonal" if case.system == "trigonal" else case.system
        return best.system == true_system and _centring(best.centring) == _centring(case.centring)

    @property
    def pulls(self) -> NDArray[np.float64]:
        """Deviations of the refined parameters in standard errors; none if the Bravais lattice is wrong."""
        if self.best is None or self.best.fit is None or not self.is_right_bravais:
            return np.zeros(0)
        free, cell, errors = free_indices(self.case.system), np.array(self.best.fit.cell), self.best.fit.errors
        for order in itertools.permutations(range(3)):  # the axes may have other names
            renamed = [*order, *(3 + place for place in order)]
            if np.abs(cell[renamed] / self.case.cell - 1).max() < _SAME:
                return (cell[renamed] - self.case.cell)[free] / np.array(errors)[renamed][free]
        return np.zeros(0)


def _centring(letter: str) -> str:
    """One letter for the settings of a lattice with one face centred."""
    return "C" if letter in "AB" else letter


def answer(case: Case) -> Answer:
    """Index one pattern."""
    truth = niggli(primitive(case.cell[None], case.centring))[0]
    start = time.perf_counter()
    solutions = index_pattern(case.pattern, IndexOptions(most=10, hints=False)).solutions
    seconds = time.perf_counter() - start
    right = [bool(off(np.array(solution.cell), truth).max() <= _SAME) for solution in solutions]
    rank = right.index(True) + 1 if True in right else None
    return Answer(case, solutions, rank, seconds)


def show(answers: list[Answer]) -> None:
    """Print a row for each pattern and the counts below."""
    console = Console(width=170)
    table = Table(title="Measured patterns")
    for heading in ("pattern", "true lattice", "answer", "rank", "prob.", "seconds", "pulls"):
        table.add_column(heading, justify="right" if heading in ("rank", "prob.", "seconds") else "left")
    for each in answers:
        case, best = each.case, each.best
        text = "none" if best is None else f"{best.crystal_system} {best.centring} {cell_line(best.conventional)}"
        mark = "" if each.is_right_bravais else "≠ " if each.is_right else "✗ "
        probability = "" if best is None else f"{best.probability:.2f}"
        pulls = " ".join(f"{pull:+.1f}" for pull in each.pulls)
        truth = f"{case.system} {case.centring}"
        table.add_row(
            case.name, truth, mark + text, str(each.rank or "-"), probability, f"{each.seconds:.1f}", pulls
        )  # fmt: skip
    console.print(table)
    right, bravais = (sum(getattr(each, name) for each in answers) for name in ("is_right", "is_right_bravais"))
    sure = [each for each in answers if each.best is not None and each.best.probability > _SURE]
    wrong, doubted = sum(not each.is_right for each in sure), right - sum(each.is_right for each in sure)
    pulls = np.abs(np.concatenate([each.pulls for each in answers]))
    console.print(f"{len(answers)} patterns: {right} right lattices, {bravais} of them with the right Bravais lattice")
    console.print(f"{wrong} wrong answers above {_SURE}, {doubted} right ones below")
    console.print(f"median {statistics.median(each.seconds for each in answers):.2f} s")
    if len(pulls):
        console.print(f"{np.mean(pulls < 3):.1%} of {len(pulls)} parameters within three standard errors")


def main(names: tuple[str, ...] = ()) -> None:
    """Index measured patterns and print the table.

    Args:
        names: words of which a pattern's name contains one; all patterns if there are none.
    """
    torch.set_num_threads(1)
    cases = [case for case in measured_cases(10) if not names or any(word in case.name for word in names)]
    show([answer(case) for case in track(cases, "indexing")])


if __name__ == "__main__":
    tyro.cli(main)
