"""`Settings`: a frozen dataclass of plain values that checks its types, and goes to JSON and back."""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from vitreous.errors import InputError, check_choice


@dataclass(frozen=True)
class Settings:
    """Base of every configuration: whole numbers are whole, numbers are finite, one number may stand for a tuple."""

    def __post_init__(self) -> None:
        for field in fields(self):
            convert = _CONVERT[field.type]
            self._set(field.name, convert(field.name, getattr(self, field.name)))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _at_least(self, least: float, *names: str) -> None:
        """Raise `InputError` for the first of these fields, or of their numbers, that is below `least`."""
        for name in names:
            value = getattr(self, name)
            for number in value if isinstance(value, tuple) else (value,):
                if number < least:
                    raise InputError(f"{name}: found {number}, expected at least {least}")

    def _probability(self, *names: str) -> None:
        for name in names:
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name}: found {getattr(self, name)}, expected a probability from 0 to below 1")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; a key that is no field is an error."""
        names = [field.name for field in fields(cls)]
        for key in values:
            check_choice("settings", key, names)
        return cls(**values)


def _whole(name: str, value: Any) -> int:
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise InputError(f"{name}: found {value!r}, expected a whole number")


def _real(name: str, value: Any) -> float:
    try:
        if not isinstance(value, bool | str) and math.isfinite(value):
            return float(value)
    except TypeError:
        pass
    raise InputError(f"{name}: found {value!r}, expected a number")


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name}: found {value!r}, expected True or False")
    return value


def _word(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name}: found {value!r}, expected a word")
    return value


def _several(convert: Callable[[str, Any], Any]) -> Callable[[str, Any], tuple[Any, ...]]:
    def convert_each(name: str, value: Any) -> tuple[Any, ...]:
        if isinstance(value, str) or not hasattr(value, "__iter__"):
            value = (value,)
        return tuple(convert(name, one) for one in value)

    return convert_each


_CONVERT: dict[Any, Callable[[str, Any], Any]] = {
    int: _whole,
    float: _real,
    bool: _flag,
    str: _word,
    tuple[int, ...]: _several(_whole),
    tuple[float, ...]: _several(_real),
    tuple[str, ...]: _several(_word),
}
