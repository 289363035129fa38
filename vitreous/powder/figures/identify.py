"""The figure of an identification: the measured pattern, the share of each phase, and what is left."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitreous.insight.style import figure
from vitreous.powder.bragg import second_wavelength
from vitreous.powder.pattern import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from vitreous.powder.identify.answer import Identification, IdentifiedPhase

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B", "#7F7F7F")
"""Of the phases; those who see few colours tell them apart, too."""
_UNEXPLAINED = "#C00000"
_FAINTEST = 0.002  # of a phase's strongest line: fainter ones have no tick
_SECOND_REACH = 0.25  # of the distance between Kα1 and Kα2: a maximum so near to a line's Kα2 is no line
_ROW_HEIGHT = 0.16  # inches, of the ticks of one phase
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def draw_identification(identification: "Identification") -> "Figure":
    """Draw measured points, the sum and each phase above the background, ticks of each phase, and the difference.

    Intensities are drawn along their square root, so that lines of minor phases can be seen.
    """
    phases, curves = identification.phases, identification.curves
    ticks = max(1, len(phases)) * _ROW_HEIGHT
    with figure(10, 5.2 + ticks) as drawing:
        main, rows, rest = drawing.subplots(3, 1, sharex=True, height_ratios=(3.9, ticks, 0.9))
        x = curves.two_theta
        main.plot(x, curves.observed, ".", ms=2.5, color="0.55", label="measured", zorder=2, rasterized=True)
        for number, phase in enumerate(phases):
            colour = colour_of(number)
            top = curves.background + curves.parts[number]
            main.fill_between(x, curves.background, top, color=colour, alpha=0.45, lw=0, zorder=3 - 0.01 * number)
            main.plot(x, top, lw=1, color=colour, zorder=5 - 0.01 * number, label=phase_label(phase))
            marks = line_positions(x, curves.parts[number], _wavelength_ratio(identification))
            rows.vlines(marks, -number - 0.4, -number + 0.4, color=colour, lw=0.8)
        main.plot(x, curves.calculated, lw=0.6, color="0.1", label="sum", zorder=4)
        _mark_unexplained(main, identification)
        rest.plot(x, curves.observed - curves.calculated, lw=0.6, color="0.3")
        rest.axhline(0, lw=0.5, color="0.7")
        _finish((main, rows, rest), identification)
    return drawing


def colour_of(number: int) -> str:
    """The colour of a phase by its place."""
    return COLOURS[number % len(COLOURS)]


def phase_label(phase: "IdentifiedPhase") -> str:
    """Name, formula and mass percent of a phase."""
    return f"{named(phase.name, phase.formula)}, {phase.fraction_text}"


def named(name: str, formula: str) -> str:
    """A name with its formula, unless the formula is the name."""
    written = subscripts(formula)
    return written if name == formula or not name else f"{name} {written}".strip()


def subscripts(formula: str) -> str:
    """A formula with small digits; one with fractions, such as Fe0.95O, as it is."""
    return formula if "." in formula or " " in formula else formula.translate(_SUBSCRIPTS)


def line_positions(x: Floats, part: Floats, wavelength_ratio: float = 0.0) -> Floats:
    """Where a phase has lines: the maxima of its curve but for those of Kα2, in degrees."""
    inner = part[1:-1]
    peaks: NDArray[np.int64] = 1 + np.flatnonzero(
        (inner > part[:-2]) & (inner >= part[2:]) & (inner > _FAINTEST * part.max(initial=0.0))
    )
    angles = x[peaks]
    if not wavelength_ratio or not len(angles):
        return angles
    second = second_wavelength(angles, wavelength_ratio)
    distance = np.abs(angles[:, None] - second)  # (maximum, whose Kα2)
    weaker = part[peaks][:, None] < part[peaks]
    of_second = (distance < _SECOND_REACH * (second - angles)) & weaker
    return np.asarray(angles[~of_second.any(axis=1)])


def _wavelength_ratio(identification: "Identification") -> float:
    pattern = identification.pattern
    if not pattern.wavelength or not pattern.wavelength2 or not pattern.ratio:
        return 0.0
    return pattern.wavelength2 / pattern.wavelength


def _mark_unexplained(axes: Any, identification: "Identification") -> None:
    curves = identification.curves
    angles = np.array([line.two_theta for line in identification.unexplained])
    if not len(angles):
        return
    reach = max(2, len(curves.two_theta) // 500)
    at = np.searchsorted(curves.two_theta, angles)
    heights = [float(curves.observed[max(0, k - reach) : k + reach].max(initial=0.0)) for k in at]
    style: Any = {"color": _UNEXPLAINED, "ms": 4, "mew": 0, "zorder": 6}
    axes.plot(angles, 1.12 * np.array(heights), "v", label="unexplained", **style)


def _finish(every: tuple[Any, Any, Any], identification: "Identification") -> None:
    """Scales, labels and legend."""
    main, rows, rest = every
    curves = identification.curves
    lowest = max(0.0, 0.85 * float(min(curves.observed.min(), curves.background.min())))
    highest = float(max(curves.observed.max(), curves.calculated.max()))
    main.set_yscale("function", functions=(lambda v: np.sqrt(np.maximum(v, 0.0)), np.square))
    main.set_ylim(lowest, 1.2 * highest)
    main.set_ylabel("intensity (square-root scale)")
    rows.set_ylim(-max(1, len(identification.phases)) + 0.4, 0.6)
    rows.set_yticks([])
    rows.spines["left"].set_visible(False)
    for axes in (main, rows):
        axes.spines["bottom"].set_visible(False)
        axes.tick_params(bottom=False, labelbottom=False)
    rest.set_ylabel("difference")
    rest.set_xlabel("2θ (°)")
    rest.set_xlim(curves.two_theta[0], curves.two_theta[-1])
    name = identification.pattern.name.replace("$", r"\$")
    text = f"{name}, $R_\\mathrm{{wp}}$ = {100 * identification.rwp:.1f} %"
    main.set_title(text, loc="left", fontsize=9, parse_math=True)
    first, last = np.array_split(curves.observed, 2)
    corner = "upper right" if last.max() <= first.max() else "upper left"
    main.legend(frameon=False, fontsize=8, loc=corner, markerscale=1.5)
