"""From a raw powder pattern to its lines: positions of Kα1 with standard errors.

Candidates are maxima of a matched filter (`matched`). The whole pattern is then fitted at once (`decompose`):
background and lines that share one profile (width, mixing, axial divergence, Kα2), by least squares.
"""

import numpy as np

from vitreous.errors import InputError
from vitreous.powder.decompose import FAINT, MAYBE, Bools, Fit, Floats, Peaks, second_line
from vitreous.powder.files import ANODES
from vitreous.powder.matched import Noise, stand_out, typical_width

__all__ = ["Peaks", "find_peaks"]

_FEWEST = 50  # points of a pattern
_SPARE = 8  # candidates fitted beyond those asked for
_SAME = 1e-3  # relative: a wavelength is that of an anode


def find_peaks(
    two_theta: Floats, intensity: Floats, sigma: Floats | None = None, wavelength: float | None = None,
    wavelength2: float | None = None, ratio: float | None = 0.0, most: int = 60,
) -> Peaks:  # fmt: skip
    """The lines of lowest angle in a pattern; none in an amorphous one.

    Args:
        two_theta: degrees, ascending.
        intensity: counts, whose noise is Poisson's, or any other unit, whose noise is taken from the data.
        sigma: standard errors of the intensities, where known.
        wavelength: ångström, of Kα1; needed for a doublet only.
        wavelength2: of Kα2; that of the anode whose Kα1 is `wavelength` where not given.
        ratio: intensity of Kα2 relative to Kα1, 0: none; None finds it in the pattern, between 0 and 0.6.
        most: lines to report.
    """
    x, y, sigma = _checked(two_theta, intensity, sigma)
    stretch = _stretch(wavelength, wavelength2, ratio)
    if most < 1:
        raise InputError(f"most: found {most}, expected 1 or more")
    measured = _measured(y)
    x, y, sigma = x[measured], y[measured], None if sigma is None else sigma[measured]
    noise = Noise.of(y, sigma)
    step, variance = float(np.median(np.diff(x))), noise.variance(y)
    width = typical_width(x, y, variance, step)
    at, height = stand_out(x, y, variance, step, width)
    strongest = float(height.max(initial=0.0))
    keep = height > MAYBE * FAINT * strongest
    at, height = at[keep], height[keep]
    if stretch:
        keep = ~_second_lines(at, height, width, stretch, 0.6 if ratio is None else 1.3 * ratio)
        at, height = at[keep], height[keep]
    spare = most + _SPARE
    if len(at) > spare:
        last = int(np.searchsorted(x, at[spare] - 2 * width))
        x, y, variance, noise = x[:last], y[:last], variance[:last], noise.first(last)
        at, height = at[:spare], height[:spare]
    fit = Fit(x, y, noise, variance, width, stretch, ratio, at, height)
    fit.decompose(step, strongest)
    return fit.peaks(most, strongest)


def _checked(two_theta: Floats, intensity: Floats, sigma: Floats | None) -> tuple[Floats, Floats, Floats | None]:
    x, y = np.asarray(two_theta, dtype=np.float64), np.asarray(intensity, dtype=np.float64)
    error = None if sigma is None else np.asarray(sigma, dtype=np.float64)
    for name, values in (("two_theta", x), ("intensity", y), ("sigma", error)):
        if values is None:
            continue
        if values.shape != x.shape or values.ndim != 1:
            raise InputError(f"{name}: found shape {values.shape}, expected one number for each of {x.size} angles")
        if not np.isfinite(values).all():
            raise InputError(f"{name}: found {values[~np.isfinite(values)][0]}, expected finite numbers")
    if len(x) < _FEWEST:
        raise InputError(f"two_theta: found {len(x)} point(s), expected {_FEWEST} or more")
    if (np.diff(x) <= 0).any():
        raise InputError("two_theta: found angles that do not rise, expected them ascending")
    if x[0] < 0 or x[-1] > 180:
        raise InputError(f"two_theta: found {x[0]:g} to {x[-1]:g}, expected degrees within 0 to 180")
    if np.ptp(y) == 0:
        raise InputError(f"intensity: found {y[0]:g} throughout, expected a pattern")
    if error is not None and error.min() < 0:
        raise InputError(f"sigma: found {error.min():g}, expected no negative number")
    return x, y, error if error is not None and error.max() > 0 else None


def _stretch(wavelength: float | None, wavelength2: float | None, ratio: float | None) -> float:
    """Kα2's wavelength over Kα1's, or 0 where there is no doublet."""
    if ratio is not None and not 0 <= ratio <= 1:
        raise InputError(f"ratio: found {ratio:g}, expected 0 to 1, or None to find it")
    if ratio == 0:
        return 0.0
    if wavelength is None:
        raise InputError("wavelength: found none, expected that of Kα1 since ratio asks for a doublet")
    if wavelength2 is None:
        pairs = [pair for pair in ANODES.values() if abs(pair[0] / wavelength - 1) < _SAME]
        if not pairs and ratio is not None:
            raise InputError(f"wavelength2: found none, expected that of Kα2 since {wavelength:g} Å is no anode's Kα1")
        return pairs[0][1] / pairs[0][0] if pairs else 0.0
    if not 1 <= wavelength2 / wavelength < 1.05:
        raise InputError(f"wavelength2: found {wavelength2:g}, expected that of Kα2, just above {wavelength:g} Å")
    return wavelength2 / wavelength if wavelength2 > wavelength else 0.0


def _measured(y: Floats) -> Bools:
    """Not the zeros before, after and between measured ranges."""
    zero = np.concatenate(([False], y == 0, [False]))
    turns = np.flatnonzero(zero[1:] != zero[:-1]).reshape(-1, 2)  # first of each run of zeros, first after it
    keep = np.ones(len(y), dtype=bool)
    share = (y == 0).mean()
    for first, last in turns.tolist():
        end = first == 0 or last == len(y)
        # Ends of a pattern of few counts may be zero by chance: ten in a row if not most points are.
        if last - first >= (10 if end and share < 0.7 else max(30, len(y) // 20)):
            keep[first:last] = False
    return keep if keep.sum() >= _FEWEST else np.ones(len(y), dtype=bool)


def _second_lines(at: Floats, height: Floats, width: float, stretch: float, share: float) -> Bools:
    """Candidates that may be Kα2 of a stronger one; a true line among them comes back from the residual."""
    expected = second_line(at, stretch)
    near = np.abs(at[:, None] - expected[None, :]) < 0.5 * width  # (candidate, parent)
    result: Bools = np.any(near & (height[:, None] < share * height[None, :]), axis=1)
    return result
