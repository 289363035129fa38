"""Find the peaks of a raw powder pattern.

Candidates are maxima of a matched filter (`matched_filter`). The whole pattern is then fitted at once by least squares
(`model`, `decomposition`): background and peaks with a common profile (width, mixing, axial divergence, Kα2).
"""

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.bragg import second_wavelength
from vitreous.powder.pattern import MIN_POINTS
from vitreous.powder.peaks.decomposition import Peaks, decompose, report
from vitreous.powder.peaks.matched_filter import filter_maxima, typical_width
from vitreous.powder.peaks.model import PatternModel
from vitreous.powder.peaks.noise import Bools, Floats, Noise
from vitreous.powder.radiation import doublet_of
from vitreous.powder.tuning import PEAK_TUNING, PeakTuning


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
        tuning: constants of the search.
    """
    x, y, sigma = _check_arrays(two_theta, intensity, sigma)
    wavelength_ratio = _wavelength_ratio(wavelength, wavelength2, ratio)
    if most < 1:
        raise InputError(f"most: found {most}, expected 1 or more")
    measured = _measured_points(y)
    x, y, sigma = x[measured], y[measured], None if sigma is None else sigma[measured]
    noise = Noise.estimate(y, sigma)
    step, variance = float(np.median(np.diff(x))), noise.variance(y)
    width = typical_width(x, y, variance, step, tuning)
    position, height = filter_maxima(x, y, variance, step, width, tuning)
    strongest = float(height.max(initial=0.0))
    keep = height > tuning.candidate_share * tuning.faintest * strongest
    position, height = position[keep], height[keep]
    if wavelength_ratio:
        keep = ~_second_lines(position, height, width, wavelength_ratio, 0.6 if ratio is None else 1.3 * ratio)
        position, height = position[keep], height[keep]
    count = most + tuning.spare
    if len(position) > count:
        last = int(np.searchsorted(x, position[count] - 2 * width))
        x, y, variance, noise = x[:last], y[:last], variance[:last], noise.first(last)
        position, height = position[:count], height[:count]
    model = PatternModel(x, y, variance, width, wavelength_ratio, ratio, tuning)
    state = decompose(model, noise, model.start(position, height), step, strongest)
    return report(model, state, most, strongest)


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
    if np.ptp(y) == 0:
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


def _measured_points(y: Floats) -> Bools:
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


def _second_lines(position: Floats, height: Floats, width: float, wavelength_ratio: float, share: float) -> Bools:
    """Candidates that may be Kα2 of a stronger one; a true peak among them is found again in the residual."""
    expected = second_wavelength(position, wavelength_ratio)
    near = np.abs(position[:, None] - expected[None, :]) < 0.5 * width  # (candidate, parent)
    return np.asarray(np.any(near & (height[:, None] < share * height[None, :]), axis=1))
