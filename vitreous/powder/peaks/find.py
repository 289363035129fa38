"""Find the peaks of a raw powder pattern.

Candidates are maxima of a matched filter (`matched_filter`). The whole pattern is then fitted at once by least squares
(`model`): background and peaks with a common profile (width, mixing, axial divergence, Kα2). Peaks are added where the
residual shows them, and insignificant ones are dropped.
"""

from dataclasses import dataclass, replace

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.bragg import second_wavelength
from vitreous.powder.lineshape import FWHM_PER_SIGMA, GAUSS_HEIGHT
from vitreous.powder.pattern import MIN_POINTS, normalise_intensity
from vitreous.powder.peaks.matched_filter import filter_maxima, typical_width
from vitreous.powder.peaks.model import NO_PEAKS, Evaluation, Parameters, PatternModel, Shape
from vitreous.powder.peaks.noise import Bools, Floats, Noise, running_mean
from vitreous.powder.radiation import doublet_of
from vitreous.powder.tuning import PEAK_TUNING, PeakTuning


@dataclass(frozen=True)
class Peaks:
    """The peaks of a pattern by ascending angle, arrays `(n,)`.

    Args:
        two_theta: positions of Kα1, degrees.
        error: standard errors of the positions, degrees.
        intensity: areas (of Kα1) relative to the largest.
        width: full widths at half maximum, degrees.
        significance: areas over their standard errors.
    """

    two_theta: Floats
    error: Floats
    intensity: Floats
    width: Floats
    significance: Floats


def find_peaks(
    two_theta: Floats, intensity: Floats, sigma: Floats | None = None, wavelength: float | None = None,
    wavelength2: float | None = None, ratio: float | None = 0.0, most: int = 60, tuning: PeakTuning = PEAK_TUNING,
) -> Peaks:  # fmt: skip
    """The peaks of lowest angle in a pattern; none in an amorphous one.

    Args:
        two_theta: degrees, ascending.
        intensity: counts (Poisson noise) or any other unit (noise estimated from the data).
        sigma: standard errors of the intensities, if available.
        wavelength: of Kα1 in ångström; required for a doublet only.
        wavelength2: of Kα2; by default that of the anode whose Kα1 is `wavelength`.
        ratio: intensity of Kα2 relative to Kα1; 0 for a single line, None to fit it between 0 and 0.6.
        most: largest number of peaks.
    """
    x, y, sigma = _check_arrays(two_theta, intensity, sigma)
    wavelength_ratio = _wavelength_ratio(wavelength, wavelength2, ratio)
    if most < 1:
        raise InputError(f"most: found {most}, expected 1 or more")
    measured = measured_points(y)
    y, sigma, _ = normalise_intensity(y[measured], None if sigma is None else sigma[measured])
    x = x[measured]
    noise = Noise.estimate(y, sigma)
    step, variance = float(np.median(np.diff(x))), noise.variance(y)
    width = typical_width(x, y, variance, step, tuning)
    position, height = filter_maxima(x, y, variance, step, width, tuning)
    strongest = float(height.max(initial=0.0))
    keep = height > tuning.candidate_share * tuning.faintest * strongest
    position, height = position[keep], height[keep]
    if wavelength_ratio:
        # A candidate may be Kα2 of a stronger one; a true peak among these is found again in the residual.
        near = np.abs(position[:, None] - second_wavelength(position, wavelength_ratio)) < 0.5 * width
        share = 0.6 if ratio is None else 1.3 * ratio
        keep = ~np.asarray(np.any(near & (height[:, None] < share * height), axis=1))  # near: (candidate, parent)
        position, height = position[keep], height[keep]
    count = most + tuning.spare
    if len(position) > count:
        last = int(np.searchsorted(x, position[count] - 2 * width))
        x, y, variance, noise = x[:last], y[:last], variance[:last], noise.first(last)
        position, height = position[:count], height[:count]
    model = PatternModel(x, y, variance, width, wavelength_ratio, ratio, tuning)
    state = _decompose(model, noise, model.start(position, height), step, strongest)
    return _report(model, state, most, strongest)


def _check_arrays(two_theta: Floats, intensity: Floats, sigma: Floats | None) -> tuple[Floats, Floats, Floats | None]:
    x, y = np.asarray(two_theta, dtype=np.float64), np.asarray(intensity, dtype=np.float64)
    error = None if sigma is None else np.asarray(sigma, dtype=np.float64)
    for name, values in (("two_theta", x), ("intensity", y), ("sigma", error)):
        if values is None:
            continue
        if values.shape != x.shape or values.ndim != 1:
            raise InputError(f"{name}: found shape {values.shape}, expected one number for each of {x.size} angles")
        if not np.isfinite(values).all():
            raise InputError(f"{name}: found {values[~np.isfinite(values)][0]}, expected finite numbers")
    if len(x) < MIN_POINTS:
        raise InputError(f"two_theta: found {len(x)} point(s), expected {MIN_POINTS} or more")
    if (np.diff(x) <= 0).any():
        raise InputError("two_theta: found angles that do not rise, expected them ascending")
    if x[0] < 0 or x[-1] > 180:
        raise InputError(f"two_theta: found {x[0]:g} to {x[-1]:g}, expected degrees within 0 to 180")
    if y.min() == y.max():
        raise InputError(f"intensity: found {y[0]:g} throughout, expected a pattern")
    if error is not None and error.min() < 0:
        raise InputError(f"sigma: found {error.min():g}, expected no negative number")
    return x, y, error if error is not None and error.max() > 0 else None


def _wavelength_ratio(wavelength: float | None, wavelength2: float | None, ratio: float | None) -> float:
    """Wavelength of Kα2 over Kα1, or 0 without a doublet."""
    if ratio is not None and not 0 <= ratio <= 1:
        raise InputError(f"ratio: found {ratio:g}, expected 0 to 1, or None to fit it")
    if ratio == 0:
        return 0.0
    if wavelength is None:
        raise InputError("wavelength: found none, expected that of Kα1 because ratio asks for a doublet")
    if wavelength2 is None:
        doublet = doublet_of(wavelength)
        if doublet is None and ratio is not None:
            raise InputError(f"wavelength2: found none, expected that of Kα2; {wavelength:g} Å is not Kα1 of an anode")
        return doublet[1] / doublet[0] if doublet else 0.0
    if not 1 <= wavelength2 / wavelength < 1.05:
        raise InputError(f"wavelength2: found {wavelength2:g}, expected that of Kα2, just above {wavelength:g} Å")
    return wavelength2 / wavelength if wavelength2 > wavelength else 0.0


def measured_points(y: Floats) -> Bools:
    """All points but the zeros before, after and between measured ranges."""
    zero = np.concatenate(([False], y == 0, [False]))
    turns = np.flatnonzero(zero[1:] != zero[:-1]).reshape(-1, 2)  # first zero of each run, first point after it
    keep = np.ones(len(y), dtype=bool)
    share = (y == 0).mean()
    for first, last in turns.tolist():
        at_end = first == 0 or last == len(y)
        # With low counts, the ends may be zero by chance: require ten in a row, or more if most points are zero.
        if last - first >= (10 if at_end and share < 0.7 else max(30, len(y) // 20)):
            keep[first:last] = False
    return keep if keep.sum() >= MIN_POINTS else np.ones(len(y), dtype=bool)


def _decompose(model: PatternModel, noise: Noise, start: Parameters, step: float, strongest: float) -> Evaluation:
    """Fit the pattern, with updated variances, and choose its peaks; `strongest` is the height of a candidate."""
    tuning = model.tuning
    usual = model.prior[Shape.AXIAL].copy()
    model.prior[Shape.AXIAL, 1] = 0.1  # peaks that are still missing would look like asymmetry
    state, factor = model.fit(start, 5, 0.01)
    if (divergence := _strong_divergence(model, start, state)) is not None:
        usual[:2] = divergence, tuning.strong_divergence_error
        model.prior[Shape.AXIAL] = usual
        state, factor = model.fit(_with_divergence(model, start, divergence), 5, 0.01)
    for _ in range(tuning.rounds):
        keep = _significant(model, state, 2.0)
        model.variance = noise.variance(state.fitted) + (tuning.misfit * state.peaks) ** 2
        width = model.median_width(state.parameters)
        residual, variance = model.y - state.fitted, factor * model.variance
        position, height = filter_maxima(model.x, residual, variance, step, width, tuning)
        area = height * width / GAUSS_HEIGHT
        near = np.abs(position[:, None] - state.parameters.position[None, :]).min(axis=1, initial=np.inf)
        new = (near > 0.4 * width) & (height > tuning.candidate_share * tuning.faintest * strongest)
        new &= ~_in_tails(model, state.parameters, position, area, tuning.candidate_share * tuning.tail)
        if keep.all() and not new.any():
            break
        state, factor = model.fit(state.parameters.select(keep, position[new], area[new]), 3, 0.01)
    model.prior[Shape.AXIAL] = usual
    width = model.median_width(state.parameters)
    for _ in range(2):
        keep = _significant(model, state, tuning.significance)
        variance = noise.variance(state.fitted)
        misfit = running_mean((model.y - state.fitted) ** 2 / variance, 2 * round(width / step) + 1)  # χ²
        model.variance = variance * np.maximum(1.0, misfit)  # less weight where the model cannot describe the data
        state, _ = model.fit(state.parameters.select(keep, NO_PEAKS, NO_PEAKS), 6, 3e-4)
        if keep.all():
            break
    return state


def _strong_divergence(model: PatternModel, start: Parameters, usual: Evaluation) -> float | None:
    """The axial divergence in 1e-4 if it is much stronger than usual, else None.

    Peaks that are still missing make lines look asymmetric, too, but as often to higher angles as to lower ones: a
    strong divergence must improve the fit much more than its mirror image does.
    """
    tuning, prior = model.tuning, model.prior[Shape.AXIAL].copy()
    gains, fitted = [], []
    for divergence in (tuning.strong_divergence, -tuning.strong_divergence):
        model.prior[Shape.AXIAL] = divergence, tuning.strong_divergence_error, -prior[3], prior[3]
        state, _ = model.fit(_with_divergence(model, start, divergence), 6, 0.01)
        gains.append(1 - state.cost / usual.cost)
        fitted.append(float(state.parameters.shape[Shape.AXIAL]))
    model.prior[Shape.AXIAL] = prior
    strong = gains[0] > tuning.strong_divergence_gain and gains[0] > 3 * gains[1] and fitted[0] > 2 * prior[0]
    return fitted[0] if strong else None


def _with_divergence(model: PatternModel, start: Parameters, divergence: float) -> Parameters:
    """Parameters with another axial divergence, without the peaks that lie in the tails that it gives stronger ones."""
    shape = start.shape.copy()
    shape[Shape.AXIAL] = divergence
    tail = divergence * model.axial_reach(start)
    place = (start.position[None, :] - start.position[:, None]) / tail[None, :]  # 0 at the stronger peak, 1 at the end
    inside = (place > 0) & (place < 1) & (start.area[:, None] < start.area[None, :])
    keep = np.flatnonzero(~inside.any(axis=1))
    return replace(start, shape=shape).select(keep, NO_PEAKS, NO_PEAKS)


def _report(model: PatternModel, state: Evaluation, most: int, strongest: float) -> Peaks:
    """The certain peaks, up to `most` of lowest angle."""
    tuning, parameters = model.tuning, state.parameters
    position_error, area_error = state.errors()
    width = model.widths(parameters)
    height = parameters.area * GAUSS_HEIGHT / width
    # A peak wider than the others is several overlapping ones, which limits what its position means.
    excess = np.maximum(parameters.log_width - tuning.width_spread, 0)
    overlap = width * np.sqrt(np.expm1(2 * excess)) / FWHM_PER_SIGMA
    axial = tuning.axial_error * model.axial_reach(parameters) / 3
    position_error = np.sqrt(position_error**2 + (0.5 * overlap) ** 2)
    certain = (parameters.area > tuning.significance * area_error) & (position_error < tuning.position_error * width)
    position_error = np.sqrt(position_error**2 + axial**2)  # shifts a peak without blurring it
    certain &= height > tuning.faintest * strongest
    certain &= ~_in_tails(model, parameters, parameters.position, parameters.area, tuning.tail)
    certain &= ~_on_shoulders(model, parameters)
    certain &= ~_weak_rows(parameters.position, height < tuning.weak * strongest, tuning.row_distance * width)
    k = np.flatnonzero(certain)[:most]
    area = parameters.area[k]
    largest = float(area.max(initial=0.0)) or 1.0
    return Peaks(parameters.position[k], position_error[k], area / largest, width[k], area / area_error[k])


def _significant(model: PatternModel, state: Evaluation, least: float) -> Bools:
    """Peaks to keep: area over its error at least `least`, and not merged with a stronger neighbour."""
    parameters = state.parameters
    ratio = parameters.area / state.errors()[1]
    gap, width = np.diff(parameters.position), model.widths(parameters)[1:]
    drop = ratio < least
    first_is_less = ratio[:-1] < ratio[1:]
    pair = (gap < 2 * width) & drop[:-1] & drop[1:]  # of overlapping peaks, only the less significant is dropped
    drop[:-1] &= ~(pair & ~first_is_less)
    drop[1:] &= ~(pair & first_is_less)
    merged = gap < model.tuning.merge_distance * width
    first_is_weaker = parameters.area[:-1] < parameters.area[1:]
    drop[:-1] = (drop[:-1] & ~(merged & ~first_is_weaker)) | (merged & first_is_weaker)
    drop[1:] = (drop[1:] & ~(merged & first_is_weaker)) | (merged & ~first_is_weaker)
    return ~drop


def _in_tails(model: PatternModel, parameters: Parameters, position: Floats, area: Floats, share: float) -> Bools:
    """Peaks that may be a misfit in the tail of a stronger one."""
    distance = (position[:, None] - parameters.position[None, :]) / model.widths(parameters)[None, :]
    tail = share / (1 + 4 * distance**2) * parameters.area[None, :]
    return np.asarray(np.any(area[:, None] < tail, axis=1))


def _on_shoulders(model: PatternModel, parameters: Parameters) -> Bools:
    """Peaks that may be the wrong width or asymmetry of a neighbour: profiles differ between reflections."""
    position, area, tuning = parameters.position, parameters.area, model.tuning
    distance = position[:, None] - position[None, :]
    reach = tuning.shoulder * model.widths(parameters)
    tail = parameters.shape[Shape.AXIAL] * model.axial_reach(parameters)  # towards lower angles below 90°
    near = (distance < reach + np.maximum(-tail, 0)) & (distance > -reach - np.maximum(tail, 0))
    small = area[:, None] < tuning.shoulder_area * area[None, :]
    return np.asarray(np.any(near & small, axis=1))


def _weak_rows(position: Floats, weak: Bools, reach: Floats) -> Bools:
    """Three or more weak peaks in close succession: one maximum that is too broad for a crystal."""
    linked = (np.diff(position) < reach[1:]) & weak[1:] & weak[:-1]
    both = linked[1:] & linked[:-1]  # of the middle one of three
    result = np.zeros(len(position), dtype=bool)
    for shift in range(3):
        result[shift : shift + len(both)] |= both
    return result
