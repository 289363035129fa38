"""How patterns, unit cells and results of indexing look in a notebook: one line of text, or tables in HTML."""

from html import escape
from typing import TYPE_CHECKING

from vitreous.insight.html_page import Table, percent, render_table
from vitreous.powder.cell import COLUMNS, cell_line, refined_parameters, volumes, with_error

if TYPE_CHECKING:
    from vitreous.powder.pattern import Pattern
    from vitreous.powder.solution import IndexResult, Solution

_SHOWN_CELLS = 5


def pattern_line(pattern: "Pattern") -> str:
    """A pattern in one line."""
    angles = f"{pattern.two_theta[0]:g} to {pattern.two_theta[-1]:g}°"
    radiation = pattern.radiation or "radiation"
    wavelength = "wavelength unknown" if pattern.wavelength is None else f"{radiation} of {pattern.wavelength:g} Å"
    return f"<Pattern {pattern.name}: {len(pattern.two_theta)} points, {angles}, {wavelength}>"


def solution_line(solution: "Solution") -> str:
    """A unit cell in one line."""
    if solution.fit is None:
        cell = cell_line(solution.conventional)
    else:
        cell = refined_parameters(solution.fit.cell, solution.fit.errors)
    lattice = f"{solution.crystal_system} {solution.centring}"
    return f"<Solution {lattice}: {cell}, probability {solution.probability:.3f}>"


def result_line(result: "IndexResult") -> str:
    """The result of indexing in one line."""
    if result.best is None:
        return f"<IndexResult {result.name}: {result.error or 'no cell'}>"
    cells = f"{len(result.solutions)} cell{'s' * (len(result.solutions) > 1)}"
    return f"<IndexResult {result.name}: {cells}, first {solution_line(result.best)}>"


def solution_html(solution: "Solution") -> str:
    """A unit cell as a table with standard errors, and what supports it."""
    errors = solution.errors or (0.0,) * 6
    values = [with_error(value, error) for value, error in zip(solution.refined, errors, strict=True)]
    volume = f"{float(volumes([solution.refined])[0]):.2f}"
    lattice = f"{solution.crystal_system} {solution.centring}"
    table = Table((*COLUMNS, "V (Å³)"), [[*values, volume]], f"{lattice}, probability {solution.probability:.3f}")
    lines = [solution.why]
    if solution.fit is not None:
        lines.append(f"refined on the whole pattern, Rwp {percent(solution.fit.rwp)}; {solution.fit.shifts}")
    if solution.symbols:
        lines.append(f"extinction symbol {solution.space_groups}")
    if solution.doubts:
        lines.append(f"against it: {solution.doubts}")
    return render_table(table) + "".join(f"<p>{escape(line)}</p>" for line in lines)


def result_html(result: "IndexResult") -> str:
    """The cells as a table, the first of them in full, the second phase and the remarks."""
    remarks = [*result.remarks, *filter(None, [result.error, result.unexplained_text])]
    notes = "".join(f"<p>{escape(f'{result.name}: {remark}')}</p>" for remark in remarks)
    if result.best is None:
        return notes or f"<p>{escape(result.name)}: no cell</p>"
    rows = [
        [
            f"{each.crystal_system} {each.centring}", cell_line(each.conventional), f"{each.volume:.1f}",
            f"{each.m20:.1f}", f"{each.indexed} of {each.lines}", f"{each.probability:.3f}",
        ]
        for each in result.solutions[:_SHOWN_CELLS]
    ]  # fmt: skip
    headings = ("lattice", "cell", "V (Å³)", "M20", "lines", "probability")
    second = "" if result.second is None else f"<p>Second phase:</p>{solution_html(result.second)}"
    cells = render_table(Table(headings, rows, f"{result.name}: unit cells, likeliest first"))
    return notes + solution_html(result.best) + second + cells
