"""Powder diffraction patterns: read from files of every usual kind, written as text, carried to a grid in q."""

import gzip
from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vitreous.atomic import write_atomically
from vitreous.data.held import File, Held, file_of
from vitreous.errors import InputError, check_choice, first_line
from vitreous.powder import instruments
from vitreous.powder.columns import WAVELENGTHS, Measured, Radiation, radiation, read_columns

__all__ = ["ANODES", "Pattern", "read_pattern", "require_wavelength", "to_grid", "write_pattern"]

# Kα1 and Kα2 in ångström: International Tables for Crystallography, volume C (2004), section 4.2.2, direct measurements
# (Deslattes, Kessler, Indelicato & Lindroth); 3 ppm from the 1.540598 Å that many instruments write for Cu.
ANODES: dict[str, tuple[float, float]] = {
    "Cr": (2.289726, 2.293651),
    "Fe": (1.936041, 1.939973),
    "Co": (1.788996, 1.792835),
    "Cu": (1.5405929, 1.5444274),
    "Ga": (1.340127, 1.344026),
    "Mo": (0.70931715, 0.713607),
    "Ag": (0.55942178, 0.5638131),
    "W": (0.20901314, 0.21383304),
}

_FEWEST = 50  # points: less is a list of peaks
_SAME = 1e-4  # relative: the user's wavelength is the file's, written with fewer digits

_READERS: dict[str, Callable[[bytes, str], Measured]] = {
    **dict.fromkeys((".xy", ".xye", ".csv", ".dat", ".txt"), read_columns),
    ".xrdml": instruments.read_xrdml,
    ".ras": instruments.read_ras,
    ".rasx": instruments.read_rasx,
    ".raw": instruments.read_raw,
    ".brml": instruments.read_brml,
    **dict.fromkeys((".gsa", ".gsas", ".fxye"), instruments.read_gsas),
    ".cif": instruments.read_cif,
}


FORMATS = tuple(_READERS)
"""Suffixes of the files that hold a pattern."""


@dataclass(frozen=True)
class Pattern:
    """One powder pattern.

    Attributes:
        two_theta: degrees, ascending.
        intensity: counts, or in any other unit.
        sigma: standard errors of the intensities, where the file has them.
        wavelength: ångström, Kα1 of a doublet; None if neither the file nor the user says.
        name: of the file.
        wavelength2: Kα2 in ångström, where known.
        ratio: intensity of Kα2 relative to Kα1.
    """

    two_theta: NDArray[np.float64]
    intensity: NDArray[np.float64]
    sigma: NDArray[np.float64] | None
    wavelength: float | None
    name: str
    wavelength2: float | None = None
    ratio: float = 0.0


def read_pattern(
    path: str | PathLike[str] | Held, wavelength: float | None = None, anode: str | None = None
) -> Pattern:
    """Read one pattern, the first of a file that holds several; its suffix says what it is, `.gz` after it is allowed.

    Text in columns (.xy .xye .csv .dat .txt), Panalytical .xrdml, Rigaku .ras and .rasx, Bruker .raw and .brml, GSAS
    .gsa, .gsas, .fxye and .raw, powder .cif.

    Args:
        path: the file.
        wavelength: ångström; stands for whatever the file says, since files are often wrong.
        anode: of the X-ray tube, e.g. `Cu`, for its Kα1 and Kα2, in place of a wavelength.
    """
    file = file_of(path)
    given = given_radiation(wavelength, anode)
    try:
        found = _checked(_read(file))
    except InputError as fault:
        raise InputError(f"{file}: {fault}") from None
    return _pattern(found, given, file.name)


def pattern_of(
    two_theta: NDArray[np.float64],
    intensity: NDArray[np.float64],
    sigma: NDArray[np.float64] | None = None,
    wavelength: float | None = None,
    anode: str | None = None,
    name: str = "pattern",
) -> Pattern:
    """A pattern from numbers, checked as those of a file are."""
    given = given_radiation(wavelength, anode)
    for what, values in (("intensity", intensity), ("sigma", sigma)):
        if values is not None and len(values) != len(two_theta):
            raise InputError(f"{name}: found {len(values)} numbers of {what} for {len(two_theta)} of two_theta")
    try:
        return _pattern(_checked(Measured(two_theta, intensity, sigma)), given, name)
    except InputError as fault:
        raise InputError(f"{name}: {fault}") from None


def _pattern(found: Measured, given: Radiation, name: str) -> Pattern:
    stated = found.radiation
    if given.wavelength is not None:
        same = stated.wavelength is not None and abs(given.wavelength / stated.wavelength - 1) < _SAME
        keep = same and given.wavelength2 is None  # the doublet of the file belongs to this wavelength
        stated = replace(stated, wavelength=given.wavelength) if keep else given
    return Pattern(
        found.two_theta, found.intensity, found.sigma, stated.wavelength, name, stated.wavelength2, stated.ratio
    )


def require_wavelength(pattern: Pattern) -> float:
    """The wavelength in ångström, or one line that says how to give it."""
    if pattern.wavelength is None:
        raise InputError(
            f"{pattern.name}: does not state its wavelength; give --wavelength (in ångström) or --anode Cu"
        )
    return pattern.wavelength


def write_pattern(path: str | PathLike[str], pattern: Pattern) -> None:
    """Write `.xy` (2θ, intensity), `.xye` (and standard errors) or `.csv` (standard errors where known)."""
    path = Path(path)
    kind = path.suffix.lower()
    check_choice(f"{path}: file type", kind, (".xy", ".xye", ".csv"))
    if kind == ".xye" and pattern.sigma is None:
        raise InputError(f"{path}: {pattern.name} has no standard errors for an .xye file; expected .xy or .csv")
    names, columns = ["two_theta", "intensity"], [pattern.two_theta, pattern.intensity]
    if pattern.sigma is not None and kind != ".xy":
        names, columns = [*names, "sigma"], [*columns, pattern.sigma]
    separator = "," if kind == ".csv" else " "
    lines = [separator.join(names) if kind == ".csv" else f"# {separator.join(names)}"]
    if pattern.wavelength is not None:
        doublet = f"; wavelength2 = {float(pattern.wavelength2)!r} angstrom" if pattern.wavelength2 else ""
        ratio = f"; ratio = {float(pattern.ratio)!r}" if doublet else ""
        lines.insert(0, f"# wavelength = {float(pattern.wavelength)!r} angstrom{doublet}{ratio}")
    lines += [separator.join(map(repr, row)) for row in np.stack(columns, axis=1).tolist()]
    write_atomically(path, "\n".join([*lines, ""]).encode())


def to_grid(pattern: Pattern, q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Intensity at points of the scattering vector q = 4π sin θ / λ, in 1/Å, rising; zero outside the measured range.

    Where the grid is finer than the data it is interpolated linearly, where coarser averaged over each point's share
    of the axis, so that the area of a peak stays what it is.
    """
    wavelength = require_wavelength(pattern)
    if q.ndim != 1 or len(q) < 2 or not np.all(np.isfinite(q)) or np.any(np.diff(q) <= 0):
        raise InputError(f"grid of q: found shape {q.shape}, expected two or more finite numbers that rise")
    at = 4 * np.pi / wavelength * np.sin(np.radians(pattern.two_theta / 2))  # (points,)
    y = pattern.intensity
    middle = (q[1:] + q[:-1]) / 2
    edges = np.concatenate(([2 * q[0] - middle[0]], middle, [2 * q[-1] - middle[-1]]))  # (grid + 1,)
    edges = np.clip(edges, at[0], at[-1])
    width = np.diff(edges)
    inside = (q >= at[0]) & (q <= at[-1])
    spacing = np.interp(q, (at[1:] + at[:-1]) / 2, np.diff(at))
    coarse = inside & (width > spacing)
    out = np.where(inside, np.interp(q, at, y), 0.0)
    out[coarse] = np.diff(_integral(at, y, edges))[coarse] / width[coarse]
    return out


def _integral(x: NDArray[np.float64], y: NDArray[np.float64], upto: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the straight lines between the points, from the first point on."""
    whole = np.concatenate(([0.0], np.cumsum(np.diff(x) * (y[1:] + y[:-1]) / 2)))
    left = np.clip(np.searchsorted(x, upto, side="right") - 1, 0, len(x) - 2)
    along = upto - x[left]
    slope = (y[left + 1] - y[left]) / (x[left + 1] - x[left])
    result: NDArray[np.float64] = whole[left] + along * (y[left] + slope * along / 2)
    return result


def given_radiation(wavelength: float | None, anode: str | None) -> Radiation:
    """What the user says of the radiation, checked."""
    if wavelength is not None and anode is not None:
        raise InputError(f"found both wavelength {wavelength:g} and anode {anode}, expected one of them")
    if anode is not None:
        check_choice("anode", anode.strip().capitalize(), ANODES)
        return radiation(*ANODES[anode.strip().capitalize()])
    low, high = WAVELENGTHS
    if wavelength is not None and not low <= wavelength <= high:
        units = (unit for unit, scale in (("nm", 10), ("pm", 0.01)) if low <= wavelength * scale <= high)
        hint = next((f"; is that in {unit}?" for unit in units), "")
        raise InputError(f"wavelength: found {wavelength:g}, expected {low:g} to {high:g} ångström{hint}")
    return Radiation(wavelength)


def _read(path: File) -> Measured:
    if not path.is_file():
        raise InputError("found a folder, expected a file" if path.is_dir() else "no such file")
    packed = path.suffix.lower() == ".gz"
    kind = Path(path.name).with_suffix("").suffix.lower() if packed else path.suffix.lower()
    check_choice("file type", kind, _READERS)
    try:
        with path.open("rb") as file:
            data = (gzip.GzipFile(fileobj=file) if packed else file).read(instruments.LARGEST + 1)
        if len(data) > instruments.LARGEST:
            raise InputError(f"found more than {instruments.LARGEST} bytes, expected a powder pattern")
        if not data.strip():
            raise InputError("empty file")
        return _READERS[kind](data, kind)
    except InputError:
        raise
    except Exception as fault:  # on damaged bytes the readers raise whatever they stumble over
        raise InputError(f"cannot be read as {kind} ({first_line(fault)})") from None


def _checked(found: Measured) -> Measured:
    """Finite, 2θ rising within 0 to 180 degrees, intensities below zero by no more than noise."""
    x, y, sigma = found.two_theta, found.intensity, found.sigma
    for name, values in (("2θ", x), ("intensity", y), ("standard error", sigma)):
        if values is not None and not np.all(np.isfinite(values)):
            point = int(np.flatnonzero(~np.isfinite(values))[0])
            raise InputError(f"{name}: found {values[point]} in point {point + 1}, expected a finite number")
    if len(x) < _FEWEST:
        raise InputError(f"found {len(x)} point(s), expected {_FEWEST} or more; is this a list of peaks?")
    if x[0] > x[-1]:
        x, y, sigma = x[::-1], y[::-1], sigma if sigma is None else sigma[::-1]
    steps = np.diff(x)
    if np.any(steps <= 0):
        if np.all(np.diff(y) > 0) or np.all(np.diff(y) < 0):
            raise InputError("found a second column in order and a first that is not; are 2θ and intensity swapped?")
        k = int(np.flatnonzero(steps <= 0)[0])
        raise InputError(f"2θ: found {x[k + 1]:g} after {x[k]:g}, expected it to rise")
    if x[0] < 0 or x[-1] > 180:
        raise InputError(f"2θ: found {x[0]:g} to {x[-1]:g}, expected degrees within 0 to 180")
    if np.ptp(y) == 0:
        raise InputError(f"intensity: found {y[0]:g} throughout, expected a pattern")
    noise = float(np.median(np.abs(np.diff(y))))  # once its standard deviation; peaks are too few to matter
    lowest = int(np.argmin(y))
    if y[lowest] < -max(0.1 * float(y.max()), 10 * noise):
        raise InputError(f"intensity: found {y[lowest]:g} at 2θ = {x[lowest]:g}, expected noise at most below zero")
    if sigma is not None and np.any(sigma < 0):
        raise InputError(f"standard error: found {sigma.min():g}, expected no negative number")
    return Measured(x.copy(), y.copy(), None if sigma is None else sigma.copy(), found.radiation)
