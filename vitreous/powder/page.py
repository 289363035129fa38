"""The result of indexing as one HTML page: unit cells, their probabilities, and the fit of the whole pattern."""

from collections.abc import Sequence

from vitreous.insight.html_page import Section, Table, percent, render_page
from vitreous.powder.cell import COLUMNS, cell_columns, with_error
from vitreous.powder.figures.fit import phases_figure
from vitreous.powder.solution import IndexResult, Solution

_MEANING = (
    "M20 is de Wolff's figure of merit: how much nearer the lines are to calculated ones than by chance. Above 10 a "
    "cell is worth a look, above 30 it is rarely wrong. F20 is Smith and Snyder's, in 1/°. The probability is "
    "calibrated on simulated and measured patterns, also poor ones and mixtures: about 80 % of the cells with a "
    "probability of 80 % are right."
)
_ABSENCES = (
    "An extinction symbol says which reflections are absent. Its probability is that of the whole pattern, in which "
    "reflections overlap; absences cannot tell apart the space groups of one symbol."
)
_SHARES = (
    "Both cells were refined together, with the same shifts and profile. The lines that one of them leaves gave the "
    "other. A phase's share is that of the areas of its lines, without any correction. It is not a share of the mass, "
    "because phases scatter differently."
)


def indexed_page(result: IndexResult, command: str) -> str:
    """The HTML page of a result, with the command that writes the page."""
    solutions, fit = result.solutions, result.fit
    calibration = [] if result.calibration is None else [result.calibration.text]
    remarks = [*calibration, *result.remarks, *([result.unexplained_text] if result.unexplained_text else [])]
    sections = [Section("Cells", " ".join(f"{remark}." for remark in remarks), tables=[_cells(solutions)])]
    if result.second is not None:
        sections.append(Section("Phases", _SHARES, tables=[_phases(result.phases)]))
    if fit is not None:
        text = (
            f"Cell, zero shift, widths and background were refined on the whole pattern (Rwp {percent(fit.rwp)}), with "
            "a free intensity for each line. Standard errors are in parentheses, in units of the last digit. Shifts of "
            f"the lines: {fit.shifts}."
        )
        figure = ("Observed and calculated pattern, and their difference", phases_figure(result.phases))
        rows = [list(row) for row in zip(COLUMNS, map(with_error, fit.cell, fit.errors), strict=True)]
        sections.append(Section("Fit", text, [figure], [Table(("parameter", "value"), rows, "The refined cell")]))
    if solutions and solutions[0].symbols:
        sections.append(Section("Space group", _ABSENCES, tables=[_symbols(solutions[0])]))
    sections.append(Section("What the numbers mean", _MEANING))
    sections.append(Section("To make this page", code=command))
    summary, best = [("cells", "none")], result.best
    if best is not None:
        summary = [("lattice", f"{best.system} {best.centring}"), ("probability", percent(best.probability))]
        summary += [("radiation", f"{best.radiation}, {best.wavelength:g} Å")] if best.radiation else []
        summary += [] if best.formula_units is None else [("formula units", f"{best.formula_units:.2f}")]
        summary += [("M20", f"{best.m20:.0f}"), ("lines explained", f"{best.indexed} of {best.lines}")]
    return render_page(result.name, "A unit cell from a powder pattern.", summary, sections)


def _symbols(solution: Solution) -> Table:
    rows = [
        [
            each.symbol, percent(each.probability), str(each.absences),
            ", ".join(f"{group.name} ({percent(group.share)})" for group in each.groups),
        ]
        for each in solution.symbols[:5]
    ]  # fmt: skip
    headings = ("symbol", "probability", "absent lines", "space groups, and how often crystals have them")
    return Table(headings, rows, "Extinction symbols, likeliest first")


def _phases(phases: Sequence[Solution]) -> Table:
    rows = []
    for phase in phases:
        assert phase.fit is not None
        cell = [with_error(*pair) for pair in zip(phase.fit.cell, phase.fit.errors, strict=True)]
        rows.append([f"{phase.system} {phase.centring}", percent(phase.fit.share), *cell, percent(phase.probability)])
    headings = ("lattice", "share of the intensity", *COLUMNS, "probability")
    return Table(headings, rows, "The phases as refined, and the probability of each given the other")


def _cells(solutions: Sequence[Solution]) -> Table:
    rows = [
        [
            f"{s.system} {s.centring}", *cell_columns(s.conventional), f"{s.volume:.1f}", f"{s.m20:.1f}",
            f"{s.f20:.1f}", f"{s.indexed}/{s.lines}", percent(s.probability),
        ]
        for s in solutions
    ]  # fmt: skip
    headings = ("lattice", *COLUMNS, "V (Å³)", "M20", "F20", "lines", "probability")
    return Table(headings, rows, "Unit cells, likeliest first")
