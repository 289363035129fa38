"""How often the transformer that begins `vitreous index` proposes the true lattice of a dirty list of lines.

    python -m benchmarks.proposals                                # the model of the package, minutes
    python -m benchmarks.proposals --models runs/old runs/new     # other runs of the recipe powder-index beside it

The lists are those of `benchmarks/dirty_lists.py`. The first N proposals are refined on the lines. A lattice is
proposed if one of the five best refined ones has all six parameters within 1 % of the true Niggli cell.
"""

from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.dirty_lists import SYSTEMS, Case, simulate_list
from benchmarks.index_table import off
from vitreous.powder.line_list import check_lines
from vitreous.powder.observed_lines import ObservedLines, observe_lines
from vitreous.powder.proposals import propose, proposer
from vitreous.powder.radiation import CU_KALPHA1
from vitreous.powder.reciprocal import cell_from_reciprocal
from vitreous.powder.search import candidates_from_proposals
from vitreous.powder.tuning import SEARCH_TUNING
from vitreous.run.load import load
from vitreous.run.predictor import Predictor

_SAME = 0.01  # relative


def is_proposed(model: Predictor, lines: ObservedLines, strength: torch.Tensor, truth: np.ndarray, count: int) -> bool:
    """Whether the true Niggli cell is among the best lattices from the first `count` proposals."""
    proposals = propose(lines, strength, CU_KALPHA1, count, model=model)
    candidates = candidates_from_proposals(*proposals, lines)
    cells = [cell_from_reciprocal("triclinic", each.x[None])[0].numpy() for each in candidates]
    return any(off(cell, truth).max() <= _SAME for cell in cells)


def main(
    models: tuple[Path, ...] = (), lists: int = 24, counts: tuple[int, ...] = (100, 1000, 3000),
    foreign: tuple[int, ...] = (0, 3, 6, 8), intensities: tuple[bool, ...] = (False, True),
) -> None:  # fmt: skip
    """Print the share of lists whose lattice is proposed.

    Args:
        models: run folders to compare with the model of the package.
        lists: number for each system, number of foreign lines and kind of list.
        counts: numbers of proposals.
        foreign: numbers of foreign lines among the 20.
        intensities: lists without and with intensities.
    """
    torch.set_num_threads(1)
    loaded = {**{str(path): load(path) for path in models}, "package": proposer()}
    cases = [Case(s, k, i, n) for i in intensities for k in foreign for s in SYSTEMS for n in range(lists)]
    hits: dict[tuple[Case, str, int], bool] = {}
    for case in track(cases, "proposing"):
        dirty = simulate_list(case)
        checked = check_lines(dirty.two_theta, dirty.intensity, None, CU_KALPHA1, SEARCH_TUNING)
        lines = observe_lines(checked.two_theta, checked.error, CU_KALPHA1, checked.intensity)
        heights = np.ones(len(lines.q)) if checked.intensity is None else checked.intensity
        for name, model in loaded.items():
            for count in counts:
                hits[case, name, count] = is_proposed(model, lines, torch.as_tensor(heights), dirty.truth, count)
    table = Table(title="Share of lists whose lattice is among the first N proposals")
    for heading in ("intensities", "foreign", "system", *(f"{name} {n}" for n in counts for name in loaded)):
        table.add_column(heading, justify="left" if heading in ("intensities", "system") else "right")
    groups: dict[tuple[bool, int, str], list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.intensities, case.foreign, case.system].append(case)
    for (with_heights, k, system), members in groups.items():
        shares = (np.mean([hits[case, name, n] for case in members]) for n in counts for name in loaded)
        table.add_row("yes" if with_heights else "no", str(k), system, *(f"{share:.0%}" for share in shares))
    Console(width=140).print(table)


if __name__ == "__main__":
    tyro.cli(main)
