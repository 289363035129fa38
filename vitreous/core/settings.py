"""`Settings`: a frozen dataclass of plain values that checks their types and converts to and from JSON."""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from vitreous.core.errors import InputError, check_choice


@dataclass(frozen=True)
class Settings:
    """Base class of all configurations.

    Integers must be whole and numbers finite. A single value is accepted in place of a tuple.
    """

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.type in _CONVERT:  # the others are settings of parts, which check themselves
                self._set(field.name, _CONVERT[field.type](field.name, getattr(self, field.name)))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _at_least(self, least: float, *names: str) -> None:
        """Raise `InputError` if one of these fields, or an element of a tuple, is below `least`."""
        for name in names:
            value = getattr(self, name)
            for number in value if isinstance(value, tuple) else (value,):
                if number < least:
                    raise InputError(f"{name}: found {number}, expected at least {least}")

    def _probability(self, *names: str) -> None:
        """Raise `InputError` if one of these fields is outside [0, 1)."""
        for name in names:
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"{name}: found {getattr(self, name)}, expected a probability from 0 to below 1")

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values that JSON can store."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; an unknown key is an error."""
        names = [field.name for field in fields(cls)]
        for key in values:
            check_choice("settings", key, names)
        return cls(**values)


def _to_int(name: str, value: Any) -> int:
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise InputError(f"{name}: found {value!r}, expected a whole number")


def _to_float(name: str, value: Any) -> float:
    try:
        if not isinstance(value, bool | str) and math.isfinite(value):
            return float(value)
    except TypeError:
        pass
    raise InputError(f"{name}: found {value!r}, expected a number")


def _to_bool(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name}: found {value!r}, expected True or False")
    return value


def _to_str(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name}: found {value!r}, expected a word")
    return value


def _to_tuple(convert: Callable[[str, Any], Any]) -> Callable[[str, Any], tuple[Any, ...]]:
    def convert_each(name: str, value: Any) -> tuple[Any, ...]:
        if isinstance(value, str) or not hasattr(value, "__iter__"):
            value = (value,)
        return tuple(convert(name, item) for item in value)

    return convert_each


_CONVERT: dict[Any, Callable[[str, Any], Any]] = {
    int: _to_int,
    float: _to_float,
    bool: _to_bool,
    str: _to_str,
    tuple[int, ...]: _to_tuple(_to_int),
    tuple[float, ...]: _to_tuple(_to_float),
    tuple[str, ...]: _to_tuple(_to_str),
}
