"""The command `vitreous index`: unit cells of powder patterns as tables, JSON, a figure or a page."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

if TYPE_CHECKING:
    from vitreous.powder.indexing import IndexOptions
    from vitreous.powder.solution import IndexResult

_HEADINGS = ("a (Å)", "b", "c", "α (°)", "β", "γ")


def index(
    files: Annotated[tuple[Path, ...], Positional, arg(metavar="FILE...")],
    *,
    anode: str | None = None,
    wavelength: float | None = None,
    peaks: bool = False,
    system: Annotated[tuple[str, ...], arg(metavar="SYSTEM...")] = (),
    most: int = 5,
    figure: Path | None = None,
    report: Path | None = None,
    json: bool = False,
) -> None:
    """Find the unit cell of powder patterns.

    Files are measured patterns of any usual format, or folders of them. Every crystal system is searched; the best
    cell is refined on the whole pattern.

    Args:
        files: patterns, or folders of patterns.
        anode: anode of the X-ray tube, e.g. Cu; replaces the radiation that the files state.
        wavelength: ångström; replaces the wavelength that the files state.
        peaks: the files are peak lists: 2θ in degrees, and intensity if known, one line per row.
        system: search these only: cubic, hexagonal (and trigonal), tetragonal, orthorhombic, monoclinic, triclinic.
        most: largest number of cells to show.
        figure: file of a figure of the fit, for one pattern: .png, .pdf or .svg.
        report: file of an HTML page about the result, for one pattern.
        json: print JSON instead of a table.
    """
    from vitreous.core.errors import InputError
    from vitreous.insight.style import check_format
    from vitreous.powder.indexing import IndexOptions, expand_folders, index_file, index_files
    from vitreous.powder.search import LATTICES

    if figure is not None:
        check_format(figure)
    paths = expand_folders(files)
    for name, path in (("figure", figure), ("report", report)):
        if path is not None and len(paths) != 1:
            raise InputError(f"{name}: found {len(paths)} patterns, expected one")
    options = IndexOptions(anode, wavelength, peaks, system or tuple(LATTICES), most)
    if len(paths) == 1:
        results = [index_file(paths[0], options)]
    else:
        results = index_files(paths, options, None if json else _track)
    if figure is not None:
        _save_figure(results[0], figure)
    if report is not None:
        _write_report(results[0], paths[0], options, report)
    _print(results, json)


def _track(results: Iterable["IndexResult"], count: int) -> Iterable["IndexResult"]:
    from vitreous.core.terminal import track

    return track(results, "indexing", count)


def _save_figure(result: "IndexResult", path: Path) -> None:
    from vitreous.core.errors import InputError
    from vitreous.insight.style import save

    if result.best is None or result.fit is None:
        raise InputError(f"{result.name}: found no likely cell, expected one to draw its fit")
    save(result.best.plot(result.name), path)


def _write_report(result: "IndexResult", file: Path, options: "IndexOptions", path: Path) -> None:
    from vitreous.core.atomic import write_atomically
    from vitreous.powder.page import indexed_page

    flags = {"anode": options.anode, "wavelength": options.wavelength}
    words = "".join(f" --{name} {value}" for name, value in flags.items() if value) + " --peaks" * options.peaks
    command = f"vitreous index {file.name}{words} --report {path.name}"
    write_atomically(path, indexed_page(result, command).encode())


def _print(results: Sequence["IndexResult"], as_json: bool) -> None:
    if as_json:
        import json

        print(json.dumps([result.to_dict() for result in results], indent=1))
    elif len(results) == 1:
        _print_solutions(results[0])
    else:
        _print_best(results)


def _print_solutions(result: "IndexResult") -> None:
    from rich.table import Table

    from vitreous.core.terminal import console
    from vitreous.powder.cell import cell_columns, refined_parameters

    for hint in result.hints:
        console().print(f"{result.name}: {hint}", highlight=False, soft_wrap=True)
    if not result.solutions:
        return
    table = Table(title=f"{result.name}: unit cells, likeliest first")
    for heading in ("lattice", *_HEADINGS, "V (Å³)", "M20", "F20", "lines", "zero (°)", "prob."):
        table.add_column(heading, justify="left" if heading == "lattice" else "right", no_wrap=heading == "lattice")
    for s in result.solutions:
        table.add_row(
            f"{s.system} {s.centring}", *cell_columns(s.conventional), f"{s.volume:.1f}", f"{s.m20:.1f}",
            f"{s.f20:.1f}", f"{s.indexed}/{s.lines}", f"{s.zero:.3f}", f"{s.probability:.3f}",
        )  # fmt: skip
    console().print(table)
    if result.fit is not None:
        text = refined_parameters(result.fit.cell, result.fit.errors)
        console().print(f"refined on the whole pattern (Rwp {result.fit.rwp:.1%}): {text}", highlight=False)


def _print_best(results: Sequence["IndexResult"]) -> None:
    from rich.table import Table

    from vitreous.core.terminal import console
    from vitreous.powder.cell import cell_columns

    table = Table(title="The likeliest cell of each pattern")
    for heading in ("file", "lattice", *_HEADINGS, "M20", "probability"):
        table.add_column(heading, justify="left" if heading in ("file", "lattice") else "right")
    for result in results:
        for remark in (result.error, *(f"{result.name}: {hint}" for hint in result.hints)):
            if remark is not None:
                console().print(remark, highlight=False, soft_wrap=True)
        best = result.best
        if best is None:
            table.add_row(result.name, "none")
            continue
        cell = cell_columns(best.refined, angle_digits=3)
        table.add_row(
            result.name, f"{best.system} {best.centring}", *cell, f"{best.m20:.1f}", f"{best.probability:.3f}"
        )
    console().print(table)
