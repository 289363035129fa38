"""`vitreous index --out`: a table of many patterns, and a summary of it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vitreous.powder.batch import BatchSummary
    from vitreous.powder.indexing import IndexOptions


def index_to_table(files: "Sequence[Path]", out: Path, options: "IndexOptions", shard: str | None, jobs: int) -> None:
    """Index files, print the summary, and end with code 1 if a file failed."""
    from vitreous.core.terminal import track_rate
    from vitreous.powder.batch import WHOLE, Shard, index_batch

    part = WHOLE if shard is None else Shard.parse(shard)
    summary = index_batch(files, out, options, part, jobs, lambda rows, count: track_rate(rows, "indexing", count))
    _print_summary(summary, f"{out}" if part == WHOLE else f"shard {part} of {out}")
    if summary.failed:
        sys.exit(1)


def refuse_options(values: "Mapping[str, object]", reason: str) -> None:
    """Raise `InputError` for the first option that is set."""
    from vitreous.core.errors import InputError

    for name, value in values.items():
        if value:
            raise InputError(f"{name}: {reason}")


def _print_summary(summary: "BatchSummary", title: str) -> None:
    from vitreous.cli.output import print_line, print_table
    from vitreous.powder.batch.summary import FAILED, NO_CELL, PROBABILITIES
    from vitreous.powder.search import LATTICES

    names = [name for name, _ in summary.counts if name not in (*LATTICES, NO_CELL, FAILED)]
    rows = []
    for name in (*LATTICES, *sorted(set(names)), NO_CELL, FAILED):
        counts = [summary.counts[name, lowest] for lowest in PROBABILITIES]
        if sum(counts):
            shown = [str(count) for count in counts] if name not in (NO_CELL, FAILED) else [""] * len(counts)
            rows.append([name, *shown, str(sum(counts))])
    rows.append(["all", *[""] * len(PROBABILITIES), str(summary.total)])
    high, middle, _ = PROBABILITIES
    headings = ("system", f"probability ≥ {high:g}", f"{middle:g} to {high:g}", f"below {middle:g}", "patterns")
    print_table(title, headings, rows)
    print_line(f"{summary.indexed} indexed now, {summary.skipped} finished before, {summary.failed} failed")
