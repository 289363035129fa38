"""`vitreous index`: unit cells of powder patterns as tables, JSON, a figure or a page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import Positional, arg

from vitreous.cli.index_batch import index_to_table, refuse_options
from vitreous.cli.options import NO_READ_FLAGS, AnodeOption, ReadOption, WavelengthOption

if TYPE_CHECKING:
    from vitreous.powder.indexing import IndexOptions
    from vitreous.powder.solution import IndexResult, Solution

_CELL = ("a (Å)", "b", "c", "α (°)", "β", "γ")


def index(
    files: Annotated[tuple[Path, ...], Positional, arg(metavar="FILE...")],
    *,
    anode: AnodeOption = None,
    wavelength: WavelengthOption = None,
    peaks: bool = False,
    energy: float | None = None,
    reading: ReadOption = NO_READ_FLAGS,
    system: Annotated[tuple[str, ...], arg(metavar="SYSTEM...")] = (),
    volume: Annotated[tuple[float, float] | None, arg(metavar="LOW HIGH")] = None,
    two_theta: Annotated[tuple[float, float] | None, arg(metavar="LOW HIGH")] = None,
    exclude: Annotated[tuple[str, ...], arg(metavar="ANGLE...")] = (),
    zero: float | None = None,
    standard: Annotated[str | None, arg(metavar="Si|LaB6|Al2O3|CeO2|FILE.cif")] = None,
    cell: Annotated[tuple[str, ...], arg(metavar="A B C ALPHA BETA GAMMA")] = (),
    formula: str | None = None,
    density: float | None = None,
    most: int = 5,
    symmetry: bool = False,
    phases: Literal[1, 2] = 2,
    figure: Path | None = None,
    report: Path | None = None,
    cif: Path | None = None,
    project: Annotated[tuple[Path, ...], arg(metavar="FILE...")] = (),
    lines: Path | None = None,
    json: bool = False,
    out: Path | None = None,
    shard: Annotated[str | None, arg(metavar="I/N")] = None,
    jobs: int = 0,
) -> None:
    """Find the unit cell of powder patterns.

    Files are measured patterns of any usual format, or folders of them. Every crystal system is searched; the best
    cell is refined on the whole pattern.

    Args:
        files: patterns, or folders of patterns.
        peaks: the files are peak lists: 2θ in degrees (or d, Q, … by a heading), and intensity if known, one per row.
        energy: keV of the photons, instead of a wavelength.
        reading: how files are read.
        system: search these only: cubic, hexagonal, trigonal (primitive hexagonal and rhombohedral lattices),
            tetragonal, orthorhombic, monoclinic, triclinic.
        volume: smallest and largest volume of the cell, Å³.
        two_theta: first and last angle to use, degrees.
        exclude: angles to leave out, degrees: single lines or ranges, e.g. 26.5 33.1-33.4.
        zero: known zero shift of the diffractometer, degrees: the angles are corrected by it, and none is fitted.
        standard: a standard in the sample: its lines calibrate the angles and are left out.
        cell: refine and judge this cell, Å and degrees, and search no other one. Fewer numbers are enough: a for a
            cubic cell, a b c for an orthorhombic one, a b c beta for a monoclinic one, with --system a c for others.
        formula: chemical formula, e.g. Na2S2O3.5H2O: cells with a possible number of formula units are more probable.
        density: g/cm³, with a formula.
        most: largest number of cells to show.
        symmetry: also say what the whole profile tells about crystal system and space group; where no cell is likely,
            this is always said.
        phases: 2 looks for a second phase where the first cell leaves lines unexplained, 1 does not.
        figure: file of a figure of the fit, for one pattern: .png, .pdf or .svg.
        report: file of an HTML page about the result, for one pattern.
        cif: CIF file of the first cell, for one pattern: cell, space group, reflections and profile of the fit.
        project: starts of a Pawley or Le Bail fit of one pattern, with the files beside them that the program needs:
            FullProf .pcr, TOPAS .inp, GSAS-II .instprm, Jana .m50.
        lines: CSV file of the lines of one pattern: indices, observed and calculated angle, intensity, foreign or not,
            and number of the phase.
        json: print JSON instead of a table.
        out: table of many patterns, .csv, .jsonl or .parquet: a row for each file, which is kept when the command is
            stopped. The same command continues.
        shard: with out, index part I of N parts of the files, for a job of an array; a last command without it joins
            the parts.
        jobs: with out, number of processes; 0 is one on each core.
    """
    from dataclasses import replace
    from json import dumps

    from vitreous.core.errors import InputError
    from vitreous.core.terminal import track
    from vitreous.powder.files.reading import ReadOptions
    from vitreous.powder.indexing import IndexOptions, expand_folders, index_file, index_files
    from vitreous.powder.known import Known, parse_ranges
    from vitreous.powder.known_cell import parse_cell
    from vitreous.powder.radiation import stated_wavelength
    from vitreous.powder.search import LATTICES

    if figure is not None:
        from vitreous.insight.style import check_format

        check_format(figure)
    paths = expand_folders(files)
    if not paths:
        folders = " ".join(map(str, files))
        raise InputError(f"files: found none{folders and f' in {folders}'}, expected patterns or folders of patterns")
    if out is not None:
        single = {"figure": figure, "report": report, "cif": cif, "project": project, "lines": lines, "json": json}
        refuse_options(single, "found with out, expected without it")
    else:
        refuse_options({"shard": shard, "jobs": jobs}, "found without out, expected with it")
    for name, path in (("figure", figure), ("report", report), ("cif", cif), ("lines", lines)):
        if path is not None and len(paths) != 1:
            raise InputError(f"{name}: found {len(paths)} patterns, expected one")
    if project:
        _check_projects(project, paths, peaks)
    wavelength = stated_wavelength(wavelength, energy, reading.neutrons)
    stated = parse_cell(cell, system) if cell else None
    known = Known(volume, two_theta, parse_ranges(exclude), zero, standard, stated, density, formula)
    options = IndexOptions(anode, wavelength, peaks, system or tuple(LATTICES), most, symmetry=symmetry, known=known)
    options = replace(options, reading=ReadOptions(**vars(reading)), phases=phases)
    if out is not None:
        index_to_table(paths, out, options, shard, jobs)
        return
    if len(paths) == 1:
        results = [index_file(paths[0], options)]
    else:
        results = index_files(paths, options, None if json else lambda items, count: track(items, "indexing", count))
    outputs = {"figure": figure, "report": report, "cif": cif, "lines": lines}
    _write_files(results[0], paths[0], options, outputs, project)
    if json:
        print(dumps([result.to_dict() for result in results], indent=1))
    elif len(results) == 1:
        _print_solutions(results[0])
    else:
        _print_best(results)


def _write_files(
    result: "IndexResult", file: Path, options: "IndexOptions", outputs: Mapping[str, Path | None],
    projects: Sequence[Path],
) -> None:  # fmt: skip
    """Write the files that the user asked for, by the name of the option, and the projects."""
    from vitreous.core.atomic import write_atomically

    if (figure := outputs["figure"]) is not None:
        _save_figure(result, figure)
    if (report := outputs["report"]) is not None:
        _write_report(result, file, options, report)
    if (cif := outputs["cif"]) is not None:
        write_atomically(cif, _first(result).to_cif(profile=True).encode())
    if projects:
        _write_projects(result, projects)
    if (lines := outputs["lines"]) is not None:
        from vitreous.predict import format_records

        _first(result)
        records = [line.to_dict() for line in result.indexed_lines()]
        write_atomically(lines, format_records(records, "csv").encode())


def _check_projects(projects: Sequence[Path], files: Sequence[Path], peaks: bool) -> None:
    from vitreous.core.errors import InputError
    from vitreous.powder.projects import check_projects

    if len(files) != 1 or peaks:
        found = "a peak list" if peaks else f"{len(files)} patterns"
        raise InputError(f"project: found {found}, expected one pattern")
    check_projects(projects, files)


def _write_projects(result: "IndexResult", projects: Sequence[Path]) -> None:
    from vitreous.core.errors import InputError
    from vitreous.powder.projects import write_project

    if result.best is None or result.fit is None:
        raise InputError(f"{result.name}: found no likely cell, expected one to write projects from")
    for path in projects:
        write_project(result.best, path, result.pattern, result.second)


def _first(result: "IndexResult") -> "Solution":
    from vitreous.core.errors import InputError

    if result.best is None:
        raise InputError(f"{result.name}: found no cell, expected one to write")
    return result.best


def _save_figure(result: "IndexResult", path: Path) -> None:
    from vitreous.core.errors import InputError
    from vitreous.insight.style import save

    if result.best is None or result.fit is None:
        raise InputError(f"{result.name}: found no likely cell, expected one to draw its fit")
    save(result.plot(result.name), path)


def _write_report(result: "IndexResult", file: Path, options: "IndexOptions", path: Path) -> None:
    from vitreous.core.atomic import write_atomically
    from vitreous.powder.page import indexed_page

    flags = {"anode": options.anode, "wavelength": options.wavelength}
    words = "".join(f" --{name} {value}" for name, value in flags.items() if value) + " --peaks" * options.peaks
    words += options.reading.words + options.known.words
    command = f"vitreous index {file.name}{words} --report {path.name}"
    write_atomically(path, indexed_page(result, command).encode())


def _print_solutions(result: "IndexResult") -> None:
    from vitreous.cli.output import print_line, print_table
    from vitreous.powder.cell import cell_columns, refined_parameters

    for remark in result.remarks:
        print_line(f"{result.name}: {remark}", soft_wrap=True)
    if result.calibration is not None:
        print_line(result.calibration.text, soft_wrap=True)
    if not result.solutions:
        return
    headings = ("lattice", *_CELL, "V (Å³)", "M20", "F20", "lines", "zero (°)", "prob.")
    rows = []
    for s in result.solutions:
        merits = f"{s.volume:.1f}", f"{s.m20:.1f}", f"{s.f20:.1f}", f"{s.indexed}/{s.lines}"
        cell = cell_columns(s.conventional)
        rows.append((f"{s.system} {s.centring}", *cell, *merits, f"{s.zero:.3f}", f"{s.probability:.3f}"))
    print_table(f"{result.name}: unit cells, likeliest first", headings, rows, no_wrap=1)
    if result.solutions[0].formula_units is not None:
        units = ", ".join(f"{s.formula_units:.2f}" for s in result.solutions)
        print_line(f"formula units in the cells: {units}")
    if result.fit is not None:
        text = refined_parameters(result.fit.cell, result.fit.errors)
        print_line(f"refined on the whole pattern (Rwp {result.fit.rwp:.1%}): {text}")
        print_line(f"shifts of the lines: {result.fit.shifts}")
    if (best := result.best) is not None and best.symbols:
        print_line(f"extinction symbol {best.space_groups}", soft_wrap=True)
    for text in filter(None, (result.phases_text, result.unexplained_text)):
        print_line(text, soft_wrap=True)


def _print_best(results: Sequence["IndexResult"]) -> None:
    from vitreous.cli.output import print_line, print_table
    from vitreous.powder.cell import cell_columns

    rows = []
    for result in results:
        for remark in (result.error, *(f"{result.name}: {hint}" for hint in result.hints)):
            if remark is not None:
                print_line(remark, soft_wrap=True)
        if (best := result.best) is None:
            rows.append([result.name, "none"])
        else:
            cell = cell_columns(best.refined, angle_digits=3)
            lattice, merits = f"{best.system} {best.centring}", (f"{best.m20:.1f}", f"{best.probability:.3f}")
            rows.append([result.name, lattice, *cell, *merits])
        if (second := result.second) is not None:
            cell = cell_columns(second.refined, angle_digits=3)
            merits = f"{second.m20:.1f}", f"{second.probability:.3f}"
            rows.append(["  second phase", f"{second.system} {second.centring}", *cell, *merits])
    headings = ("file", "lattice", *_CELL, "M20", "probability")
    print_table("The likeliest cell of each pattern", headings, rows, left=2)
