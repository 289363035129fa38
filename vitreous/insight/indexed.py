"""An indexed powder pattern as one HTML page: its cells, how sure they are, and the fit of the whole pattern."""

from collections.abc import Sequence

from vitreous.insight.fit import fit_figure
from vitreous.page import Section, Table, page, percent
from vitreous.powder.cell import with_error
from vitreous.powder.rank import Solution
from vitreous.powder.refine import Fit

_LABELS = ("a (Å)", "b (Å)", "c (Å)", "α (°)", "β (°)", "γ (°)")


def indexed_page(name: str, solutions: Sequence[Solution], fit: Fit | None, hints: Sequence[str], command: str) -> str:
    """The page.

    Args:
        name: of the pattern.
        solutions: its cells, best first.
        fit: of the best, if it was trusted.
        hints: what to look at.
        command: that makes the page.
    """
    sections = [Section("Cells", " ".join(f"{hint}." for hint in hints), tables=[_cells(solutions)])]
    if fit is not None:
        text = (
            f"Cell, zero shift, widths and background were refined on the whole pattern (Rwp {percent(fit.rwp)}), each "
            "line with an intensity of its own. Standard errors are in the last digits."
        )
        drawn = ("Observed, calculated, and what is left", fit_figure(fit))
        sections.append(Section("Fit", text, [drawn], [_refined(fit)]))
    sections.append(Section("What the numbers mean", _MEANING))
    sections.append(Section("To make this page", code=command))
    return page(name, "A unit cell from a powder pattern.", _numbers(solutions), sections)


_MEANING = (
    "M20 is de Wolff's figure of merit: how much nearer the lines are to calculated ones than by chance. Above 10 a "
    "cell is worth a look, above 30 it is rarely wrong. F20 is Smith and Snyder's, in 1/°. The probability is "
    "calibrated on simulated patterns: of the cells that are given 80 %, about 80 % are right."
)


def _numbers(solutions: Sequence[Solution]) -> list[tuple[str, str]]:
    if not solutions:
        return [("cells", "none")]
    best = solutions[0]
    return [
        ("lattice", f"{best.system} {best.centring}"), ("probability", percent(best.probability)),
        ("M20", f"{best.m20:.0f}"), ("lines explained", f"{best.indexed} of {best.lines}"),
    ]  # fmt: skip


def _cells(solutions: Sequence[Solution]) -> Table:
    rows = [
        [
            f"{s.system} {s.centring}", *(f"{v:.4f}" for v in s.conventional[:3]),
            *(f"{v:.2f}" for v in s.conventional[3:]), f"{s.volume:.1f}", f"{s.m20:.1f}", f"{s.f20:.1f}",
            f"{s.indexed}/{s.lines}", percent(s.probability),
        ]
        for s in solutions
    ]  # fmt: skip
    return Table(
        ("lattice", *_LABELS, "V (Å³)", "M20", "F20", "lines", "probability"), rows, "Unit cells, likeliest first"
    )


def _refined(fit: Fit) -> Table:
    rows = [
        [label, with_error(value, error)] for label, value, error in zip(_LABELS, fit.cell, fit.errors, strict=True)
    ]
    return Table(("parameter", "value"), rows, "The refined cell")
