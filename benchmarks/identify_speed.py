"""Time and answers of `vitreous identify` against databases of growing size.

    python -m benchmarks.identify_speed --database minerals.db --sizes 5000 25000 100000

A larger database has the entries of the smaller one and copies of them whose cells are stretched by 2 to 40 %, with the
same embeddings (which makes it harder for the embedding). Patterns: the round-robin mixtures and the 8-minute scans of
`measured/mixtures` in the data folder (setting VITREOUS_DATA). Columns: seconds of one core, median and longest; for
how many patterns the phases above 2 % of the mass are those that the smallest database gives.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from vitreous.data.builtin import data_folder
from vitreous.powder.files import read_pattern
from vitreous.powder.identify.database import FIXED, RAGGED, Database
from vitreous.powder.identify.identification import identify_pattern
from vitreous.powder.pattern import Pattern
from vitreous.powder.radiation import CU_KALPHA1, CU_KALPHA2

_CLEAR = 0.02  # of the mass


def enlarged(database: Database, size: int) -> Database:
    """A database of about this size: the entries, and copies with stretched cells."""
    copies = max(1, round(size / database.count))
    stretch = np.concatenate([[1.0], np.linspace(1.02, 1.4, copies - 1)]) if copies > 1 else np.ones(1)
    arrays = dict(database.arrays)
    for name in (*FIXED, *RAGGED):
        values = np.asarray(database.arrays[name])
        arrays[name] = np.concatenate([_stretched(name, values, float(factor)) for factor in stretch])
    metadata = {"embedding": database.model, "builder": database.builder}
    return Database(database.path, arrays, metadata)


def _stretched(name: str, values: np.ndarray, factor: float) -> np.ndarray:
    if name in ("cell", "reduced"):
        return np.concatenate([values[:, :3] * factor, values[:, 3:]], axis=1)
    power = {"volume": 3, "line_s": -1, "strongest": -1}.get(name, 0)
    return (values * factor**power).astype(values.dtype)


def patterns(count: int) -> Iterator[Pattern]:
    """Measured mixtures."""
    folder = data_folder() / "measured" / "mixtures"
    for path in (*sorted(folder.glob("cpd_1?.xy.gz")), *sorted(folder.glob("*8min.xrdml"))[: max(0, count - 4)]):
        yield replace(read_pattern(path), wavelength=CU_KALPHA1, wavelength2=CU_KALPHA2, ratio=0.5)


def main(database: Path, sizes: tuple[int, ...] = (5000, 25_000, 100_000), count: int = 10) -> None:
    """Print the table.

    Args:
        database: of minerals, made by vitreous powder database.
        sizes: numbers of entries.
        count: patterns, at least four.
    """
    torch.set_num_threads(1)
    small = Database.open(database)
    chosen = list(patterns(count))
    identify_pattern(chosen[0], small)  # loads what is loaded once
    first: list[set[str]] = []
    table = Table(title=f"vitreous identify, {len(chosen)} patterns, one core")
    for heading in ("entries", "seconds, median", "longest", "same phases"):
        table.add_column(heading, justify="right")
    for size in sizes:
        large = enlarged(small, size)
        seconds, found = [], []
        for pattern in track(chosen, f"{large.count} entries"):
            started = time.process_time()
            answer = identify_pattern(pattern, large)
            seconds.append(time.process_time() - started)
            found.append({phase.name for phase in answer.phases if (phase.fraction or 0) > _CLEAR})
        first = first or found
        same = sum(one == other for one, other in zip(first, found, strict=True))
        cells = (f"{large.count:,}", f"{np.median(seconds):.1f}", f"{max(seconds):.1f}", f"{same} of {len(chosen)}")
        table.add_row(*cells)
    Console().print(table)


if __name__ == "__main__":
    tyro.cli(main)
