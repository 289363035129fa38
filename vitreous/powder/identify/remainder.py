"""What the phases found leave of a pattern, and the unit cell of the phase that the database lacks."""

from dataclasses import replace

import numpy as np

from vitreous.powder.cell import cell_line, refined_parameters
from vitreous.powder.identify.answer import Identification
from vitreous.powder.identify.mixture import MIXTURE_TUNING
from vitreous.powder.identify.retrieval import pattern_peaks
from vitreous.powder.indexing import IndexOptions, index_pattern
from vitreous.powder.pattern import Pattern, normalise_intensity
from vitreous.powder.peaks.find import measured_points
from vitreous.powder.peaks.noise import Noise
from vitreous.powder.solution import IndexResult

_SAME_LENGTH = 2e-3  # relative: cells of one phase
_LIKELY = 0.5  # probability of a cell that is said
_OPTIONS = IndexOptions(phases=1, hints=False)


def remaining_pattern(identification: Identification) -> Pattern:
    """The pattern without the lines of the phases found, its background included.

    The standard errors are those of counting and, where phases have lines, of their calculated intensities, too: what
    is left there is misfit rather than a line.
    """
    pattern, curves = identification.pattern, identification.curves
    used = measured_points(pattern.intensity)
    x, sigma = pattern.two_theta[used], None if pattern.sigma is None else pattern.sigma[used]
    y, sigma, _ = normalise_intensity(pattern.intensity[used], sigma)
    variance = Noise.estimate(y, sigma).variance(y)
    phases = np.interp(x, curves.two_theta, curves.parts.sum(axis=0))
    width = float(np.median(pattern_peaks(pattern).width))
    reach = max(1, round(width / float(np.median(np.diff(x)))))
    around = np.lib.stride_tricks.sliding_window_view(np.pad(phases, reach, mode="edge"), 2 * reach + 1).max(axis=1)
    errors = np.sqrt(variance + (MIXTURE_TUNING.intensity_error * around) ** 2)
    return replace(pattern, two_theta=x, intensity=y - phases, sigma=errors)


def with_unknown(identification: Identification, options: IndexOptions = _OPTIONS) -> Identification:
    """The identification with a text about the cell of the unknown phase; as it is if no line is left."""
    if not identification.unexplained:
        return identification
    result = index_pattern(remaining_pattern(identification), replace(options, phases=1, hints=False))
    return replace(identification, unknown=_cell_text(result, identification))


def _cell_text(result: IndexResult, identification: Identification) -> str:
    best = result.best
    if best is None:
        return f"{len(identification.unexplained)} remaining line(s) are too few for a unit cell"
    if best.probability < _LIKELY:
        likeliest = f"{best.system} {best.centring}, {cell_line(best.conventional)}, probability {best.probability:.2f}"
        return f"no likely cell explains the remaining lines (best: {likeliest})"
    for phase in identification.phases:
        if np.allclose(sorted(phase.cell[:3]), sorted(best.refined[:3]), rtol=_SAME_LENGTH):
            return f"the remaining lines fit the cell of {phase.name}: its atoms may be others than those of the entry"
    cell = cell_line(best.conventional) if best.fit is None else refined_parameters(best.fit.cell, best.fit.errors)
    return (
        f"an unknown phase is {best.system} {best.centring}, {cell}, V = {best.volume:.1f} Å³, "
        f"probability {best.probability:.2f} ({best.indexed} of {best.lines} remaining lines)"
    )
