"""Axes of powder patterns: the quantity that a heading or the user names, and its conversion to 2θ."""

import math
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.files.reading import AxisName, ReadOptions
from vitreous.powder.pattern import Floats
from vitreous.powder.radiation import KEV_ANGSTROM, WAVELENGTH_RANGE, Radiation

LENGTH = r"(?:å|a|ang|[åa]ngstr[oö]ms?|(?P<nm>nm|nanomet(?:re|er)s?)|(?P<pm>pm))"
INVERSE = rf"(?:(?:1?/|inv(?:erse)?)?{LENGTH}1?)?"
ANGLE = r"/?(?:deg(?:rees?)?|(?P<rad>rad(?:ians?)?))?"
EXPECTED = "expected 2θ, θ, d, 1/d, Q, sin θ or sin² θ"
TIME_OF_FLIGHT = "times of flight also need the calibration of the diffractometer: convert them to d first"
"""What is missing for the indexing of a time-of-flight pattern."""
_FIXED_ANGLE = (
    "an energy-dispersive pattern also needs the fixed angle of its detector: give --fixed-angle (2θ in degrees)"
)


class _Quantity(NamedTuple):
    """A pattern of headings in lower case, without spaces and signs and with `sq` for a square, and a conversion."""

    pattern: str
    power: int  # of the unit of length
    sine: Callable[[Floats, float], Floats] | None = None  # sin θ of values in ångström and a wavelength


TWO_THETA, ENERGY = "2θ", "energy"
_SINE_OVER_WAVELENGTH = "sin θ/λ"
_QUANTITIES = {
    TWO_THETA: _Quantity(
        rf"(?:(?:pdmeas|pdproc|angle|pos)?(?:2|two|t)th(?:eta)?(?:angle|scan|corrected|obs)?|angle|pos|x){ANGLE}", 0
    ),
    "θ": _Quantity(rf"(?:th(?:eta)?|braggangle){ANGLE}", 0),
    "d": _Quantity(rf"d(?:spac(?:e|ings?)|values?|hkl|obs)?/?{LENGTH}?", 1, lambda d, wave: wave / 2 / d),
    "1/d": _Quantity(rf"(?:1/d|dstar|s(?=1?/)){INVERSE}", -1, lambda s, wave: wave / 2 * s),
    "1/d²": _Quantity(rf"1/dsq(?:1?/{LENGTH}(?:sq)?)?", -2, lambda square, wave: wave / 2 * np.sqrt(square)),
    "Q": _Quantity(rf"q(?:obs|values?|vector)?{INVERSE}", -1, lambda q, wave: wave / (4 * math.pi) * q),
    _SINE_OVER_WAVELENGTH: _Quantity(rf"sintheta/lambda{INVERSE}", -1, lambda s, wave: wave * s),
    "sin θ": _Quantity("sintheta", 0, lambda sine, _: sine),
    "sin² θ": _Quantity("sinsqtheta", 0, lambda square, _: np.sqrt(square)),
    ENERGY: _Quantity(r"(?:photon)?energy(?:k?ev)?|e?k?ev", 0),
}
_NAMED: dict[AxisName, str] = {
    "2theta": TWO_THETA, "theta": "θ", "d": "d", "q": "Q", "1/d2": "1/d²", "sin2theta": "sin² θ", "energy": ENERGY,
}  # fmt: skip
_REFUSED = {
    r"tof\w*|timeofflight\w*|time[a-zµ]?s?": TIME_OF_FLIGHT,
    r"qsq\w*|sin2theta|channels?|wavelength\w*|lambda\w*|omega|phi|chi": EXPECTED,
}


@dataclass(frozen=True)
class Axis:
    """The quantity of a column, and the factor from its unit to degrees of 2θ, ångström or keV."""

    heading: str
    quantity: str
    factor: float = 1.0

    def two_theta(self, values: Floats, wavelength: float | None) -> Floats:
        """2θ in degrees; `InputError` without a wavelength in ångström that is needed, and beyond its reach."""
        _, power, sine = _QUANTITIES[self.quantity]
        if sine is None:
            return values * self.factor
        if power and wavelength is None:
            advice = "give --wavelength (in ångström) or --anode Cu"
            raise InputError(f"found {self.heading!r} as first column, whose conversion needs the wavelength; {advice}")
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            sines = sine(values * self.factor, wavelength or 1.0)
        inside = (sines >= 0) & (sines <= 1)
        if not inside.all():
            point = int(np.argmin(inside))
            reach = f" at {wavelength:g} Å" if power else ""
            raise InputError(f"{self.heading}: found {values[point]:g} in point {point + 1}, which has no 2θ{reach}")
        return np.asarray(np.degrees(2 * np.arcsin(sines)))

    def at_fixed_angle(self, two_theta: float) -> "Axis":
        """The axis sin θ/λ = 1/(2 d) of photon energies that are diffracted into one angle in degrees: E d sin θ."""
        factor = self.factor * math.sin(math.radians(two_theta / 2)) / KEV_ANGSTROM
        return replace(self, quantity=_SINE_OVER_WAVELENGTH, factor=factor)


class Angles(NamedTuple):
    """2θ in degrees; for energies the wavelength in ångström at which these angles have the same d, and a remark."""

    two_theta: Floats
    equivalent: float | None = None
    notes: tuple[str, ...] = ()


def to_angles(
    axis: Axis | None, values: Floats, user: Radiation, in_file: float | None, options: ReadOptions
) -> Angles:
    """Values of a column as 2θ; without an axis they are 2θ. Energies need the fixed angle of `options`.

    The radiation of the user replaces the wavelength in the file, in ångström.
    """
    if axis is None or axis.quantity != ENERGY:
        if options.fixed_angle is not None:
            name = TWO_THETA if axis is None else axis.heading
            raise InputError(f"fixed-angle: found {options.fixed_angle:g}, but the first column is {name}, not energy")
        return Angles(values if axis is None else axis.two_theta(values, user.wavelength or in_file))
    if options.fixed_angle is None:
        raise InputError(f"found {axis.heading!r} as first column; {_FIXED_ANGLE}")
    if user.wavelength2 is not None:
        raise InputError(f"found {axis.heading!r} as first column and an anode, but energies have no single wavelength")
    inverse = axis.at_fixed_angle(options.fixed_angle)
    wavelength = user.wavelength or _equivalent_wavelength(values * inverse.factor)
    note = f"energies at 2θ = {options.fixed_angle:g}° are shown as angles of the same d for {wavelength:g} Å"
    return Angles(inverse.two_theta(values, wavelength), wavelength, (note,))


def _equivalent_wavelength(inverse: Floats) -> float:
    """The smallest d in ångström of sin θ/λ = 1/(2 d), in four digits: then the angles end near 2θ = 60°."""
    highest = float(np.max(inverse, initial=0.0))
    low, high = WAVELENGTH_RANGE
    smallest_d = 0.5 / highest if np.isfinite(highest) and highest > 0 else high
    return float(f"{min(max(smallest_d, low), high):.4g}")


def find_axis(heading: str) -> Axis | None:
    """The quantity of a heading such as `d (Å)`; None if it names none; `InputError` if it cannot become 2θ."""
    text = simplify(heading)
    for name, quantity in _QUANTITIES.items():
        if match := re.fullmatch(quantity.pattern, text):
            unit = match.groupdict()
            factor = (10.0 if unit.get("nm") else 0.01 if unit.get("pm") else 1.0) ** quantity.power
            factor *= 1e-3 if name == ENERGY and re.search(r"(?<!k)ev$", text) else 1.0
            return Axis(heading, name, factor * (math.degrees(1) if unit.get("rad") else 1) * (2 if name == "θ" else 1))
    for pattern, reason in _REFUSED.items():
        if re.fullmatch(pattern, text):
            raise InputError(f"found {heading!r} as first column; {reason}")
    return None


def axis_or_none(name: str) -> Axis | None:
    """The quantity of a heading; None also if it cannot become 2θ."""
    try:
        return find_axis(name)
    except InputError:
        return None


def axis_from_user(name: AxisName, heading: str = "") -> Axis:
    """The axis that a user names; its unit is that of the heading if that names the same quantity."""
    axis = axis_or_none(heading) if heading else None
    if axis is not None and axis.quantity == _NAMED[name]:
        return axis
    return Axis(name, _NAMED[name], 2.0 if name == "theta" else 1.0)


def simplify(heading: str) -> str:
    """A heading in lower case, without spaces and signs, with `sq` for a square and names for Greek letters."""
    text = heading.lower().replace("²", "^2").replace("θ", "theta").replace("ϑ", "theta").replace("λ", "lambda")
    text = unicodedata.normalize("NFKC", text.replace("⁻¹", "-1")).replace("d*", "dstar")
    return re.sub(r"[^\w/]|_", "", re.sub(r"(?:\^|\*\*)\{?2\}?", "sq", text))
