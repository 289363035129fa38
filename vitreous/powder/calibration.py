"""The angles of a pattern or a list of lines, calibrated by the lines of a standard, which are then left out."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.bragg import second_wavelength
from vitreous.powder.cell import with_error
from vitreous.powder.line_list import LineList
from vitreous.powder.pattern import Floats, Pattern, require_wavelength
from vitreous.powder.peaks import Peaks, find_peaks
from vitreous.powder.refinement.profile import Mask
from vitreous.powder.refinement.shifts import shift_functions
from vitreous.powder.standards import StandardLines, standard_lines
from vitreous.powder.tuning import CALIBRATION_TUNING, CalibrationTuning

_SEARCHED_PEAKS, _USED_PEAKS = 300, 60  # of lowest angle in a pattern


@dataclass(frozen=True)
class Calibration:
    """How much too large the angles of a measurement are, by the lines of a standard.

    Args:
        standard: name or file.
        zero: degrees, at all angles.
        displacement: degrees at low angle; it falls as cos θ.
        zero_error, displacement_error: standard errors.
        lines: number of lines of the standard on which it rests.
        rms: root mean square of what is left of their misses, degrees.
    """

    standard: str
    zero: float
    displacement: float
    zero_error: float
    displacement_error: float
    lines: int
    rms: float

    def shift(self, two_theta: Floats) -> Floats:
        """The shift of lines near angles, both in degrees."""
        functions = shift_functions(np.radians(two_theta) / 2)[:, :2]
        return np.asarray(functions @ np.array([self.zero, self.displacement]))

    def corrected(self, two_theta: Floats) -> Floats:
        """The angles of an ideal diffractometer."""
        return two_theta - self.shift(two_theta - self.shift(two_theta))

    @property
    def text(self) -> str:
        """The calibration in words."""
        zero, displacement = (with_error(getattr(self, name), getattr(self, f"{name}_error")) for name in _FITTED)
        misses = f"{self.lines} lines, r.m.s. {self.rms:.4f}°"
        return f"calibrated with {self.standard}: zero {zero}°, displacement {displacement}°, {misses}"

    def to_dict(self) -> dict[str, Any]:
        """The calibration as JSON values."""
        return {name: round(value, 6) if isinstance(value, float) else value for name, value in vars(self).items()}


_FITTED = ("zero", "displacement")


@dataclass(frozen=True)
class CalibratedPattern:
    """A pattern with corrected angles.

    Args:
        whole: with the lines of the standard.
        sample: without the points at these lines.
        peaks: of the sample.
    """

    whole: Pattern
    sample: Pattern
    peaks: Peaks
    calibration: Calibration


def calibrate_pattern(
    pattern: Pattern, standard: str, ratio: float | None = None, tuning: CalibrationTuning = CALIBRATION_TUNING
) -> CalibratedPattern:
    """Calibrate a pattern with a standard in the sample; `ratio` is the intensity of Kα2 relative to Kα1."""
    wavelength, second = require_wavelength(pattern), pattern.wavelength2
    pattern = pattern.part(pattern.two_theta > -tuning.zero[0])  # so that no corrected angle is negative
    peaks = find_peaks(
        pattern.two_theta, pattern.intensity, pattern.sigma, wavelength, second, ratio, most=_SEARCHED_PEAKS
    )
    # A pattern may have gaps: lines of the standard in excluded ranges are not expected.
    measured = pattern.two_theta
    lines = standard_lines(standard, wavelength, (float(measured[0]), float(measured[-1])))
    lines = _select(lines, _is_measured(lines.two_theta, measured))
    calibration = _calibrate(standard, lines, peaks.two_theta, peaks.error, peaks.intensity, tuning)
    angle = calibration.corrected(peaks.two_theta)
    area = _expected_areas(lines, angle, peaks.intensity, tuning)
    near = np.maximum(tuning.least_distance, tuning.overlap * peaks.width)
    own = ~_is_standard(lines, area, angle, peaks.intensity, near, tuning)
    whole = replace(pattern, two_theta=calibration.corrected(measured))
    width = float(np.median(peaks.width))
    gaps = _windows(lines, area, angle[own], width, tuning)
    kept = np.ones(len(measured), dtype=bool)
    for low, high in gaps:
        last = high if second is None else second_wavelength(np.array([high]), second / wavelength)[0]
        kept &= (whole.two_theta < low) | (whole.two_theta > last)
    sample = whole.part(kept)
    columns = {name: values[own][:_USED_PEAKS] for name, values in vars(replace(peaks, two_theta=angle)).items()}
    return CalibratedPattern(whole, sample, Peaks(**columns), calibration)


def calibrate_lines(
    lines: LineList, standard: str, wavelength: float, tuning: CalibrationTuning = CALIBRATION_TUNING
) -> tuple[LineList, Calibration]:
    """A list of lines with corrected angles and without those of the standard; the wavelength is in ångström."""
    if not len(lines.two_theta):
        raise InputError(f"standard: found no lines, expected those of {standard}")
    margin = tuning.zero[1]
    limits = max(float(lines.two_theta[0]) - margin, 0.5), float(lines.two_theta[-1]) + margin
    expected = standard_lines(standard, wavelength, limits)
    calibration = _calibrate(standard, expected, lines.two_theta, lines.error, lines.intensity, tuning)
    angle = calibration.corrected(lines.two_theta)
    area = _expected_areas(expected, angle, lines.intensity, tuning)
    near = np.maximum(tuning.least_distance, 3 * lines.error)
    own = ~_is_standard(expected, area, angle, lines.intensity, near, tuning)
    intensity = None
    if lines.intensity is not None:
        intensity = lines.intensity[own] / lines.intensity[own].max(initial=1e-300)
    return LineList(angle[own], lines.error[own], intensity), calibration


def _select(lines: StandardLines, chosen: Mask) -> StandardLines:
    two_theta, intensity = (column[chosen] for column in lines)
    return StandardLines(two_theta, intensity / intensity.max(initial=1e-300))


def _is_measured(angle: Floats, measured: Floats) -> Mask:
    """Which angles lie in no gap between measured points."""
    after = np.searchsorted(measured, angle).clip(1, len(measured) - 1)
    step = float(np.median(np.diff(measured)))
    return np.asarray(measured[after] - measured[after - 1] < 5 * step)


def _calibrate(
    standard: str, lines: StandardLines, angle: Floats, error: Floats, area: Floats | None, tuning: CalibrationTuning
) -> Calibration:
    """The shifts for which most of the standard's strong lines are observed; `InputError` if too few are."""
    order = np.argsort(-lines.intensity)[: tuning.strong_lines]
    strong = StandardLines(*(column[order[lines.intensity[order] > tuning.strong]] for column in lines))
    count = len(strong.two_theta)
    if count < tuning.fewest:
        raise InputError(
            f"standard: found {count} strong line(s) of {standard} in the range, expected at least {tuning.fewest}"
        )
    needed = max(tuning.fewest, int(np.ceil(tuning.share * count)))
    place, near = np.zeros(0, dtype=np.int64), np.zeros(count, dtype=bool)
    if len(angle):
        start = _start(strong, angle, tuning)
        fitted, covariance, place, near, residual = _fit(strong, angle, error, start, tuning)
        near &= _has_expected_area(strong, place, near, area, tuning)
    if near.sum() < needed:
        found = f"found {near.sum()} of the {count} strongest lines of {standard}"
        raise InputError(f"standard: {found}, expected at least {needed}")
    rms = float(np.sqrt(np.mean(residual[near] ** 2)))
    errors = np.sqrt(np.diag(covariance))
    zero, displacement, zero_error, displacement_error = (float(x) for x in (*fitted, *errors))
    return Calibration(standard, zero, displacement, zero_error, displacement_error, int(near.sum()), rms)


def _start(strong: StandardLines, angle: Floats, tuning: CalibrationTuning) -> Floats:
    """Zero and displacement `(2,)` of a grid at which the lines of the standard are nearest to observed ones."""
    zeros = np.arange(tuning.zero[0], tuning.zero[1] + tuning.step / 2, tuning.step)
    grid = np.stack(np.meshgrid(zeros, tuning.displacements, indexing="ij"), axis=-1).reshape(-1, 2)
    shifts = grid @ shift_functions(np.radians(strong.two_theta) / 2)[:, :2].T  # (G, 2) @ (2, n)
    miss = np.abs(strong.two_theta + shifts - angle[:, None, None]).min(0)  # (G, n)
    score = (np.sqrt(strong.intensity) * np.exp(-0.5 * (miss / (1.5 * tuning.step)) ** 2)).sum(1)
    usual = np.exp(-0.5 * ((grid / np.array(tuning.spread)) ** 2).sum(1))
    return np.asarray(grid[np.argmax(score + 0.3 * usual)])


def _fit(
    strong: StandardLines, angle: Floats, error: Floats, start: Floats, tuning: CalibrationTuning
) -> tuple[Floats, Floats, np.ndarray, Mask, Floats]:
    """Robust least squares: shifts `(2,)`, covariance `(2, 2)`; nearest lines, which of them agree, and misses."""
    functions = shift_functions(np.radians(strong.two_theta) / 2)[:, :2]
    prior = np.diag(1 / np.array(tuning.spread) ** 2)
    values = start
    for _ in range(tuning.rounds):
        expected = strong.two_theta + functions @ values
        place = np.abs(expected[:, None] - angle).argmin(1)
        miss = angle[place] - expected
        scale = max(tuning.least_error, 1.5 * float(np.median(np.abs(miss))))
        deviation = np.hypot(error[place], min(scale, tuning.tolerance / 3))
        weight = 1 / deviation**2 / (1 + (miss / (2 * deviation)) ** 4)  # lines of the sample lose their weight
        normal = functions.T @ (weight[:, None] * functions) + prior
        values = np.linalg.solve(normal, functions.T @ (weight * (miss + functions @ values)))
    miss = angle[place] - strong.two_theta - functions @ values
    near = np.abs(miss) < np.maximum(tuning.tolerance, 3 * error[place])
    return values, np.linalg.inv(normal), place, near, miss


def _has_expected_area(
    strong: StandardLines, place: np.ndarray, near: Mask, area: Floats | None, tuning: CalibrationTuning
) -> Mask:
    """Which lines have about the intensity of the standard, texture included; a sample's line may only add to it."""
    if area is None or not near.any():
        return near
    ratio = area[place] / strong.intensity
    return np.asarray(ratio > np.median(ratio[near]) / tuning.area_factor)


def _expected_areas(lines: StandardLines, angle: Floats, area: Floats | None, tuning: CalibrationTuning) -> Floats:
    """Areas of the standard's lines in the unit of the observed ones; relative ones where these are unknown."""
    if area is None:
        return lines.intensity
    place = np.abs(lines.two_theta[:, None] - angle).argmin(1)
    near = np.abs(angle[place] - lines.two_theta) < tuning.tolerance
    near &= lines.intensity > tuning.strong
    scale = float(np.median(area[place[near]] / lines.intensity[near])) if near.any() else 0.0
    return np.asarray(scale * lines.intensity)


def _is_standard(
    lines: StandardLines, expected: Floats, angle: Floats, area: Floats | None, near: Floats, tuning: CalibrationTuning
) -> Mask:
    """Which observed lines are those of the standard: at one of its lines, and not far stronger than that."""
    visible = expected > (tuning.visible if area is not None else tuning.strong)
    if not visible.any():
        return np.zeros(len(angle), dtype=bool)
    miss = np.abs(angle[:, None] - lines.two_theta[visible])
    place = miss.argmin(1)
    at_line = miss.min(1) < near
    if area is None:
        return np.asarray(at_line)
    return np.asarray(at_line & (area < tuning.area_factor * expected[visible][place]))


def _windows(
    lines: StandardLines, area: Floats, own: Floats, width: float, tuning: CalibrationTuning
) -> list[tuple[float, float]]:
    """Ranges of angles around the standard's lines, wider for stronger ones, but not over lines of the sample."""
    windows = []
    for angle, expected in zip(lines.two_theta.tolist(), area.tolist(), strict=True):
        if expected < tuning.visible:
            continue
        half = width * float(np.clip(tuning.reach * np.sqrt(expected / tuning.reach_area), 1.0, tuning.reach))
        distance = float(np.abs(own - angle).min(initial=np.inf))
        if distance > tuning.overlap * width:
            half = max(min(half, distance - width), tuning.overlap * width)
            windows.append((angle - half, angle + half))
    return windows
