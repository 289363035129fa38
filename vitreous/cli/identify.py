"""`vitreous identify`: the phases of powder patterns and their amounts, as tables, JSON, a figure or a page."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from vitreous.cli.options import NO_READ_FLAGS, AnodeOption, ReadOption, WavelengthOption

if TYPE_CHECKING:
    from vitreous.powder.identify.answer import Identification
    from vitreous.powder.identify.database import Database
    from vitreous.powder.identify.identification import IdentifyOptions
    from vitreous.powder.identify.pattern_files import FileOptions

_SHOWN_RIVALS = 3  # of a phase
_UNSURE = 0.9  # probability below which the rivals of a phase are shown


def identify(
    files: Annotated[tuple[Path, ...], Positional, arg(metavar="FILE...", help_behavior_hint="")] = (),
    *,
    database: Path,
    series: Annotated[Path | None, arg(metavar="FOLDER")] = None,
    anode: AnodeOption = None,
    wavelength: WavelengthOption = None,
    energy: float | None = None,
    reading: ReadOption = NO_READ_FLAGS,
    elements: Annotated[tuple[str, ...], arg(metavar="ELEMENT...")] = (),
    exclude_elements: Annotated[tuple[str, ...], arg(metavar="ELEMENT...")] = (),
    max_phases: int = 4,
    standard: Annotated[tuple[str, float] | None, arg(metavar="NAME PERCENT")] = None,
    two_theta: Annotated[tuple[float, float] | None, arg(metavar="LOW HIGH")] = None,
    exclude: Annotated[tuple[str, ...], arg(metavar="ANGLE...")] = (),
    index: bool = False,
    out: Path | None = None,
    figure: Path | None = None,
    report: Path | None = None,
) -> None:
    """Find the phases of a powder sample, and how much of each there is.

    First a database, from your own crystal structures or those of a collection; then any number of patterns:

    vitreous powder database cifs/ --out my.db

    vitreous identify mixture.xy --anode Cu --database my.db --figure mixture.png

    The table has the phases found, mass percent with the standard error in brackets, refined cells, and the
    probability that each phase is in the sample. A phase is added while the pattern asks for it, not up to a number.
    What no phase explains is said; --index searches its unit cell.

    If you know the elements, say so. With 20 % of a corundum standard weighed in, the amorphous share follows:

    vitreous identify spiked.xy --anode Cu --database my.db --elements Ca Si Al --standard corundum 20

    Frames of an in-situ experiment, in the order of their names, with one list of phases for all:

    vitreous identify --series frames/ --anode Cu --database my.db --out frames.csv --figure frames.png

    Args:
        files: patterns of any usual format, or folders of patterns.
        database: file made by vitreous powder database.
        series: folder of the frames of a series. A file frames.csv in it with the columns file and, e.g., temperature
            (K) or time (min) gives the axis.
        energy: keV of the photons, instead of a wavelength.
        reading: how files are read.
        elements: each phase has one of these at least, and no others but hydrogen and oxygen.
        exclude_elements: no phase has any of these.
        max_phases: largest number of phases.
        standard: name or formula of an internal standard, and its mass percent of the sample.
        two_theta: first and last angle to use, degrees.
        exclude: angles to leave out, degrees: single lines or ranges, e.g. 26.5 33.1-33.4.
        index: find the unit cell of what remains, if lines are left.
        out: JSON file of everything found; for a series also .csv, one row a phase of a frame.
        figure: file of a figure, for one pattern or a series: .png, .pdf or .svg.
        report: file of an HTML page about the result, for one pattern.
    """
    from vitreous.core.errors import InputError
    from vitreous.insight.style import check_format
    from vitreous.powder.files.reading import ReadOptions
    from vitreous.powder.identify.database import Database
    from vitreous.powder.identify.identification import IdentifyOptions
    from vitreous.powder.identify.pattern_files import FileOptions
    from vitreous.powder.indexing import expand_folders
    from vitreous.powder.known import Known, parse_ranges
    from vitreous.powder.radiation import stated_wavelength

    if figure is not None:
        check_format(figure)
    if standard is not None and not 0 < standard[1] < 100:
        raise InputError(f"standard: found {standard[1]:g} %, expected 0 to 100")
    weighed = None if standard is None else (standard[0], standard[1] / 100)
    options = IdentifyOptions(elements, exclude_elements, max_phases, weighed)
    known = Known(two_theta=two_theta, exclude=parse_ranges(exclude))
    wavelength = stated_wavelength(wavelength, energy, reading.neutrons)
    reads = FileOptions(anode, wavelength, ReadOptions(**vars(reading)), known)
    _check_out(out, is_series=series is not None)
    opened = Database.open(database)
    opened.having((), exclude_elements)
    for symbol in elements:
        opened.having((symbol,))
    if series is not None:
        for name, value in (("files", files), ("standard", standard), ("report", report), ("index", index)):
            if value:
                raise InputError(f"series: found {name} beside it, expected a folder of frames without")
        _identify_series(series, opened, options, reads, out, figure)
        return
    paths = expand_folders(files)
    if not paths:
        folders = " ".join(map(str, files))
        raise InputError(f"files: found none{folders and f' in {folders}'}, expected patterns or folders of patterns")
    for name, path in (("figure", figure), ("report", report)):
        if path is not None and len(paths) != 1:
            raise InputError(f"{name}: found {len(paths)} patterns, expected one")
    found = _identify_each(paths, opened, options, reads, index)
    if figure is not None:
        _save_figure(found[0], figure)
    if report is not None:
        _write_report(found[0], paths[0], options, reads, index, report)
    _write_json([each.to_dict() for each in found], out)
    if len(found) < len(paths):
        raise SystemExit(1)


def _identify_each(
    paths: Sequence[Path], database: "Database", options: "IdentifyOptions", reads: "FileOptions", index: bool
) -> list["Identification"]:
    """Identify and print each file; one that is bad is a line, unless it is the only one."""
    from rich.markup import escape

    from vitreous.cli.output import print_line
    from vitreous.powder.identify.pattern_files import Failure, identify_file, identify_files

    found, results = list["Identification"](), identify_files(paths, database, options, reads)
    if len(paths) == 1:
        results = iter([identify_file(paths[0], database, options, reads)])
    for result in results:
        if isinstance(result, Failure):
            print_line(escape(result.text), soft_wrap=True)
            continue
        if index:
            from vitreous.powder.identify.remainder import with_unknown

            result = with_unknown(result)
        _print_phases(result)
        found.append(result)
    return found


def _print_phases(result: "Identification") -> None:
    from rich.markup import escape

    from vitreous.cli.output import print_line, print_table

    for note in result.pattern.notes:
        print_line(escape(f"{result.pattern.name}: {note}"), soft_wrap=True)
    if result.phases:
        rows = [
            (escape(each.name), escape(each.formula), each.cell_text, each.fraction_text, f"{each.probability:.2f}")
            for each in result.phases
        ]
        title = escape(f"{result.pattern.name}: phases, Rwp {result.rwp:.1%}")
        print_table(title, ("phase", "formula", "refined cell", "mass", "probability"), rows, left=3)
    else:
        print_line(escape(f"{result.pattern.name}: no phase"))
    if result.amorphous is not None:
        print_line(f"amorphous share of the sample: {result.amorphous:.1%}")
    for each in result.phases:
        rivals = each.rivals[:_SHOWN_RIVALS]
        if each.probability < _UNSURE and rivals:
            others = ", ".join(f"{rival.name} {rival.formula} ({rival.probability:.2f})" for rival in rivals)
            print_line(escape(f"in the place of {each.name}: {others}"), soft_wrap=True)
    for text in filter(None, (*result.hints, result.unexplained_text, result.unknown)):
        print_line(escape(text), soft_wrap=True)


def _save_figure(result: "Identification", path: Path) -> None:
    from vitreous.insight.style import save

    save(result.plot(), path)


def _write_report(
    result: "Identification", file: Path, options: "IdentifyOptions", reads: "FileOptions", index: bool, path: Path
) -> None:
    from vitreous.core.atomic import write_atomically
    from vitreous.powder.identify.page import identified_page
    from vitreous.powder.identify.pattern_files import option_words

    words = f"{reads.words}{option_words(options)}{' --index' * index}"
    command = f"vitreous identify {file.name} --database {Path(result.database).name}{words} --report {path.name}"
    write_atomically(path, identified_page(result, command).encode())


def _check_out(out: Path | None, is_series: bool) -> None:
    from vitreous.core.errors import check_choice

    if out is not None:
        check_choice(f"{out}: file type", out.suffix.lower(), (".json", ".csv") if is_series else (".json",))


def _write_json(records: object, out: Path | None) -> None:
    from json import dumps

    from vitreous.core.atomic import write_atomically

    if out is not None:
        write_atomically(out, dumps(records, indent=1, ensure_ascii=False).encode())


def _identify_series(
    folder: Path, database: "Database", options: "IdentifyOptions", reads: "FileOptions", out: Path | None,
    figure: Path | None,
) -> None:  # fmt: skip
    from rich.markup import escape

    from vitreous.cli.output import print_line, print_table
    from vitreous.core.atomic import write_atomically
    from vitreous.core.terminal import track
    from vitreous.insight.style import save
    from vitreous.powder.identify.frames import find_frames
    from vitreous.powder.identify.series import identify_series
    from vitreous.predict import format_records

    result = identify_series(
        find_frames(folder), database, options, reads, lambda items, count, what: track(items, what, count)
    )
    for failure in result.failures:
        print_line(escape(failure.text), soft_wrap=True)
    rows = [
        (escape(each.name), escape(each.formula), f"{len(each.fractions)}", each.range_text) for each in result.phases
    ]
    title = escape(f"{folder.name}: {len(result.frames)} frames")
    print_table(title, ("phase", "formula", "frames", "mass"), rows, left=2)
    for text in result.hints:
        print_line(escape(text), soft_wrap=True)
    if out is not None and out.suffix.lower() == ".csv":
        write_atomically(out, format_records(result.records(), "csv").encode())
    else:
        _write_json(result.to_dict(), out)
    if figure is not None:
        save(result.plot(), figure)
    if result.failures:
        raise SystemExit(1)
