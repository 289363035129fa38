"""Column headings: which quantity the first column of a table is, and its conversion to 2θ."""

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.pattern import Floats

_LONGEST = 200  # characters of a line of headings; longer lines are text
_LENGTH = r"(?:å|a|ang|[åa]ngstr[oö]ms?|(?P<nm>nm|nanomet(?:re|er)s?)|(?P<pm>pm))"
_INVERSE = rf"(?:(?:1?/|inv(?:erse)?)?{_LENGTH}1?)?"
_ANGLE = r"/?(?:deg(?:rees?)?|(?P<rad>rad(?:ians?)?))?"
_EXPECTED = "expected 2θ, θ, d, 1/d, Q, sin θ or sin² θ"
TIME_OF_FLIGHT = "times of flight also need the calibration of the diffractometer: convert them to d first"
"""What is missing for the indexing of a time-of-flight pattern."""
_ENERGY = "an energy-dispersive pattern also needs the fixed angle of its detector: convert it to d first"


class _Quantity(NamedTuple):
    """A pattern of headings in lower case, without spaces and signs and with `sq` for a square, and a conversion."""

    pattern: str
    power: int  # of the unit of length
    sine: Callable[[Floats, float], Floats] | None = None  # sin θ of values in ångström and a wavelength


_TWO_THETA = "2θ"
_QUANTITIES = {
    _TWO_THETA: _Quantity(
        rf"(?:(?:pdmeas|pdproc|angle|pos)?(?:2|two|t)th(?:eta)?(?:angle|scan|corrected|obs)?|angle|pos|x){_ANGLE}", 0
    ),
    "θ": _Quantity(rf"(?:th(?:eta)?|braggangle){_ANGLE}", 0),
    "d": _Quantity(rf"d(?:spac(?:e|ings?)|values?|hkl|obs)?/?{_LENGTH}?", 1, lambda d, wave: wave / 2 / d),
    "1/d": _Quantity(rf"(?:1/d|dstar|s(?=1?/)){_INVERSE}", -1, lambda s, wave: wave / 2 * s),
    "1/d²": _Quantity(rf"1/dsq(?:1?/{_LENGTH}(?:sq)?)?", -2, lambda square, wave: wave / 2 * np.sqrt(square)),
    "Q": _Quantity(rf"q(?:obs|values?|vector)?{_INVERSE}", -1, lambda q, wave: wave / (4 * math.pi) * q),
    "sin θ/λ": _Quantity(rf"sintheta/lambda{_INVERSE}", -1, lambda s, wave: wave * s),
    "sin θ": _Quantity("sintheta", 0, lambda sine, _: sine),
    "sin² θ": _Quantity("sinsqtheta", 0, lambda square, _: np.sqrt(square)),
}
_REFUSED = {
    r"(?:photon)?energy(?:k?ev)?|e?k?ev": _ENERGY,
    r"tof\w*|timeofflight\w*|time[a-zµ]?s?": TIME_OF_FLIGHT,
    r"qsq\w*|sin2theta|channels?|wavelength\w*|lambda\w*|omega|phi|chi": _EXPECTED,
}
_LETTER = re.compile(r"\W*[dqse](?![a-z])|\W*1\s*/", re.IGNORECASE)  # of a quantity, in a unit that is not known
_UNIT = re.compile(rf"\(?(?:{_ANGLE}|{_INVERSE})")
_INTENSITY = re.compile(
    r"[iy](?![a-z])|.*(?:int|count|cts|cps|obs|signal|height|area|ampl|value|arb|norm)", re.IGNORECASE
)
_TEXT = re.compile(r"[=:]|\d[.,]\d|^[\s\d]*$")  # no names of columns
_NUMBERING = re.compile(r"(?:no|nr|n|index|\w*(?:point|peak|line|_id)|id|#|h|k|l|hkl)\W*", re.IGNORECASE)


@dataclass(frozen=True)
class Axis:
    """The quantity of a column, and the factor from its unit to degrees of 2θ or ångström."""

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


def find_axis(heading: str) -> Axis | None:
    """The quantity of a heading such as `d (Å)`; None if it names none; `InputError` if it cannot become 2θ."""
    text = _simplify(heading)
    for name, quantity in _QUANTITIES.items():
        if match := re.fullmatch(quantity.pattern, text):
            unit = match.groupdict()
            factor = (10.0 if unit.get("nm") else 0.01 if unit.get("pm") else 1.0) ** quantity.power
            return Axis(heading, name, factor * (math.degrees(1) if unit.get("rad") else 1) * (2 if name == "θ" else 1))
    for pattern, reason in _REFUSED.items():
        if re.fullmatch(pattern, text):
            raise InputError(f"found {heading!r} as first column; {reason}")
    return None


def _simplify(heading: str) -> str:
    text = heading.lower().replace("²", "^2").replace("θ", "theta").replace("ϑ", "theta").replace("λ", "lambda")
    text = unicodedata.normalize("NFKC", text.replace("⁻¹", "-1")).replace("d*", "dstar")
    return re.sub(r"[^\w/]|_", "", re.sub(r"(?:\^|\*\*)\{?2\}?", "sq", text))


@dataclass(frozen=True)
class Headings:
    """The names of the columns of a table, and which of them hold angle and intensity."""

    names: Sequence[str] = ()
    x: int = 0
    y: int | None = 1
    axis: Axis | None = None  # None if its name is unknown, as in a table without names: then it is 2θ

    def two_theta(self, values: Floats, wavelength: float | None) -> Floats:
        """The values of column `x` as 2θ in degrees."""
        return values if self.axis is None else self.axis.two_theta(values, wavelength)


def read_headings(header: Sequence[str], columns: int) -> Headings:
    """The headings of a table with a number of columns, from the lines above it."""
    units: list[str] = []
    is_last = True
    for line in reversed([line for line in header if len(line) <= _LONGEST and not _TEXT.search(line)]):
        names = _split_names(line)
        if is_last and names and _UNIT.fullmatch(_simplify(names[0])):  # a line of units below the names
            units = names
            continue
        may_be = names and not any(map(_is_number, names)) and (is_last or any(map(_INTENSITY.match, names[1:])))
        if may_be and (headings := _choose_columns(names, units, columns, line)):
            return headings
        if line.endswith((")", "]")) and (axis := _axis_or_none(line)):  # FIT2D: a line for each column
            return Headings([line], axis=axis)
        is_last = False
    return Headings()


def _choose_columns(names: list[str], units: list[str], columns: int, line: str) -> Headings | None:
    """Angle and intensity by name; None if the line is text. `InputError` if it may be a quantity other than 2θ."""
    has_intensity = columns == 1 or any(map(_INTENSITY.match, names[1:]))
    angles = [index for index, name in enumerate(names) if _is_two_theta(name)]
    x = next((index for index, name in enumerate(names) if not _NUMBERING.fullmatch(name)), 0)
    x = angles[0] if angles and x not in angles else x
    if len(units) == len(names):
        names = [f"{name} ({unit.strip('()[] ')})" for name, unit in zip(names, units, strict=True)]
    axis = find_axis(names[x]) if has_intensity else _axis_or_none(names[x])
    is_other = axis.quantity != _TWO_THETA if axis else has_intensity and bool(_LETTER.match(names[x]))
    if is_other and not (axis and has_intensity and len(names) == columns):
        raise InputError(f"found {line!r} above {columns} column(s); {_EXPECTED}, and intensity")
    if len(names) != columns:
        return None
    others = [index for index in range(columns) if index != x and not _NUMBERING.fullmatch(names[index])]
    y = next((index for index in others if _INTENSITY.match(names[index])), None)
    y = next((index for index in others if not _axis_or_none(names[index])), None) if y is None else y
    return Headings(names, x, y, axis)


def _split_names(line: str) -> list[str]:
    """The names in a line, separated by tabs, commas and semicolons or else by spaces; units stay with their names."""
    line = re.sub(r"\b(2|two)[\s-]+(?=th|θ)", r"\1", line.strip(), flags=re.IGNORECASE)
    if re.search(r"[\t,;]", line):
        return [name.strip() for name in re.split(r"[\t,;]", line.rstrip("\t,; "))]
    names: list[str] = []
    is_open = False
    for word in re.sub(r"\b(d)\s+(?=spac|val)", r"\1-", line, flags=re.IGNORECASE).split():
        if names and (is_open or word[0] in "([/" or names[-1].endswith("/")):
            names[-1] += f" {word}"
        else:
            names.append(word)
        is_open = sum(map(names[-1].count, "([")) > sum(map(names[-1].count, ")]"))
    return names


def _is_number(word: str) -> bool:
    try:
        float(word.replace(",", "."))
    except ValueError:
        return False
    return True


def _axis_or_none(name: str) -> Axis | None:
    try:
        return find_axis(name)
    except InputError:
        return None


def _is_two_theta(name: str) -> bool:
    axis = _axis_or_none(name)
    return axis is not None and axis.quantity == _TWO_THETA
