"""A list of observed lines: angles with standard errors and intensities, checked, each line once."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from vitreous.core.errors import InputError
from vitreous.powder.known import Known
from vitreous.powder.pattern import Floats
from vitreous.powder.tuning import SearchTuning

_SHORT_WAVELENGTH = 0.3  # Å: with a longer one, no pattern ends below 3°


@dataclass(frozen=True)
class LineList:
    """Lines by ascending angle, arrays `(n,)`."""

    two_theta: Floats  # degrees
    error: Floats  # standard errors of the angles, degrees
    intensity: Floats | None  # relative to the strongest, if known

    def select(self, known: Known) -> "LineList":
        """The lines that count, without the known zero shift."""
        used = known.uses(self.two_theta)
        intensity = None if self.intensity is None else self.intensity[used]
        return LineList(known.corrected(self.two_theta[used]), self.error[used], intensity)


def check_lines(
    two_theta: ArrayLike, intensity: ArrayLike | None, error: ArrayLike | None, wavelength: float, tuning: SearchTuning
) -> LineList:
    """Lines of a positive intensity, those closer than their errors joined; `InputError` if they are invalid."""
    angle = np.asarray(two_theta, np.float64).ravel()
    errors = np.full(len(angle), tuning.default_error) if error is None else np.asarray(error, np.float64).ravel()
    heights = np.ones(len(angle)) if intensity is None else np.asarray(intensity, np.float64).ravel()
    if not len(angle) == len(errors) == len(heights):
        raise InputError(f"lines: found {len(angle)} angles, {len(heights)} intensities and {len(errors)} errors")
    _check_angles(angle, wavelength)
    if not np.isfinite(errors).all() or (errors <= 0).any():
        raise InputError("lines: found errors that are not finite, or errors that are not positive")
    invalid = ~np.isfinite(heights) | (heights < 0)
    if invalid.any():
        line = int(np.argmax(invalid))
        raise InputError(f"lines: found intensity {heights[line]:g} in line {line + 1}, expected no negative number")
    order = np.argsort(angle, kind="stable")
    order = order[heights[order] > 0]
    relative = heights[order] / heights.max(initial=0.0)
    joined = _join_lines(angle[order], np.hypot(errors[order], tuning.least_error), relative)
    return joined if intensity is not None else LineList(joined.two_theta, joined.error, None)


def _check_angles(angle: Floats, wavelength: float) -> None:
    if not np.isfinite(angle).all():
        raise InputError("lines: found angles that are not finite")
    if (angle <= 0).any() or (angle >= 180).any():
        raise InputError("lines: found angles outside 0 to 180, expected 2θ in degrees")
    if len(angle) > 2 and (np.diff(angle) < 0).all():
        fall = f"values that fall from {angle[0]:g} to {angle[-1]:g}, as d in ångström does"
        raise InputError(f"lines: found {fall}; expected 2θ in degrees, ascending, or a heading or --axis d")
    if len(angle) and angle.max() < math.pi and wavelength > _SHORT_WAVELENGTH:
        small = f"no value above {angle.max():.3g}, which may be radians, 1/d or q"
        raise InputError(f"lines: found {small}; expected 2θ in degrees, or a heading or --axis such as q")


def _join_lines(angle: Floats, error: Floats, intensity: Floats) -> LineList:
    """Lines by ascending angle, each next one joined to those before it if it is closer than their errors.

    The angle is the mean with weights 1/error², the intensity the sum. The error does not fall with the number of
    lines, because one line that is listed twice was not measured twice.
    """
    lines: list[tuple[float, float, float]] = []
    first, weight, moment, square = 0, 0.0, 0.0, 0.0  # sums over the lines that are joined, from the first of them
    for next_, (place, deviation) in enumerate(zip(angle.tolist(), error.tolist(), strict=True), 1):
        distance, own = place - angle[first], deviation**-2
        weight, moment, square = weight + own, moment + own * distance, square + own * distance**2
        shift, count = moment / weight, next_ - first
        mean = float(angle[first] + shift)
        if count > 1:
            deviation = math.sqrt(count / weight + max(square / weight - shift**2, 0.0))
        if next_ == len(angle) or angle[next_] - mean >= math.hypot(deviation, error[next_]):
            lines.append((mean, deviation, float(intensity[first:next_].sum())))
            first, weight, moment, square = next_, 0.0, 0.0, 0.0
    columns = np.array(lines).reshape(-1, 3).T
    return LineList(columns[0], columns[1], columns[2] / columns[2].max(initial=0.0) if lines else columns[2])
