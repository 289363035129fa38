"""Tables of runs on the terminal."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from vitreous.core.terminal import console
from vitreous.run.folder import read_result


def print_run(out: Path, result: Mapping[str, Any]) -> None:
    """Print the scores of a run that has just ended, and where it is."""
    print_results([out])
    console().print(f"{result['steps']} steps, {result['seconds']:.0f} s; the run is in {out}", highlight=False)


def print_results(runs: Sequence[Path]) -> None:
    """Print one table of all runs: their size, time and scores on the test part."""
    results = {str(run): read_result(run) for run in runs}
    part = {run: "test" if "test" in result else "validation" for run, result in results.items()}
    names = dict.fromkeys(name for run, result in results.items() for name in result.get(part[run], {}))
    scores = main_scores(names)
    title = f"Scores on the {' or '.join(dict.fromkeys(part.values()))} part"
    formats = {"parameters": ",", "steps": ",", "seconds": ".0f"} | dict.fromkeys(scores, ".4g")
    rows = [["run", *formats]]
    for run, result in results.items():
        values = result | result.get(part[run], {})
        rows.append([run, *(f"{values[name]:{form}}" if name in values else "" for name, form in formats.items())])
    table, transposed = _table(title, rows), _table(title, [*zip(*rows, strict=True)])
    fits = _width(table) <= max(console().width, _width(transposed))
    console().print(table if fits else transposed)


def main_scores(names: Iterable[str]) -> list[str]:
    """The scores to show: with several targets, all of them would not fit on a screen."""
    names = [name for name in names if name not in ("loss", "rmse_scaled")]
    if not any("/" in name for name in names):
        return names
    return [name for name in names if name.startswith("mae/") or name in ("r2", "coverage90")]


def _width(table: Table) -> int:
    """Width of a table with unlimited room."""
    return console().measure(table, options=console().options.update_width(1 << 20)).maximum


def _table(title: str, rows: Sequence[Sequence[str]]) -> Table:
    """A table of a row of headings and rows of numbers, each after its name."""
    table = Table(title=title)
    for heading in rows[0]:
        table.add_column(heading, justify="right" if table.columns else "left")
    for row in rows[1:]:
        table.add_row(*row)
    return table
