"""Lines and tables on the terminal."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from vitreous.core.terminal import console
from vitreous.run.folder import read_result

Rows = Iterable[Iterable[str]]


def print_line(text: str, soft_wrap: bool = False) -> None:
    """Print text without colours for numbers and paths; `soft_wrap` leaves long lines to the terminal."""
    console().print(text, highlight=False, soft_wrap=soft_wrap)


def make_table(
    title: str, headings: Iterable[str], rows: Rows, left: int = 1, no_wrap: int = 0, caption: str | None = None
) -> Table:
    """A table whose first `left` columns are aligned left, the others right; the first `no_wrap` are never wrapped."""
    table = Table(title=title, caption=caption)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < left else "right", no_wrap=number < no_wrap)
    for row in rows:
        table.add_row(*row)
    return table


def print_table(*content: Any, **layout: Any) -> None:
    """Print a table that `make_table` makes."""
    console().print(make_table(*content, **layout))


def print_run(out: Path, result: Mapping[str, Any]) -> None:
    """Print the scores of a run that has just ended, and where it is."""
    print_results([out])
    print_line(f"{result['steps']} steps, {result['seconds']:.0f} s; the run is in {out}")


def print_results(runs: Sequence[Path]) -> None:
    """Print one table of all runs: their size, time and scores on the test part."""
    results = {str(run): read_result(run) for run in runs}
    part = {run: "test" if "test" in result else "validation" for run, result in results.items()}
    names = dict.fromkeys(name for run, result in results.items() for name in result.get(part[run], {}))
    title = f"Scores on the {' or '.join(dict.fromkeys(part.values()))} part"
    formats = {"parameters": ",", "steps": ",", "seconds": ".0f"} | dict.fromkeys(main_scores(names), ".4g")
    rows = [["run", *formats]]
    for run, result in results.items():
        values = result | result.get(part[run], {})
        rows.append([run, *(f"{values[name]:{form}}" if name in values else "" for name, form in formats.items())])
    table, transposed = (make_table(title, first, others) for first, *others in (rows, zip(*rows, strict=True)))
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
