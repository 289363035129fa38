"""`Settings`: a frozen dataclass of plain values that checks their types and converts to and from JSON."""

import math
import operator
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from vitreous.core.errors import InputError, check_choice


@dataclass(frozen=True)
class Settings:
    """Base class of all configurations.

    Integers must be whole and numbers finite. A single value is accepted in place of a tuple.
    """

    def __post_init__(self) -> None:
        for field in fields(self):  # those of other types are settings of parts, which check themselves
            name, value = field.name, getattr(self, field.name)
            if field.type in _EXPECTED:
                self._set(name, _convert(field.type, name, value))
            elif field.type in _ITEMS:
                items = (value,) if isinstance(value, str) or not hasattr(value, "__iter__") else value
                self._set(name, tuple(_convert(_ITEMS[field.type], name, item) for item in items))

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


def _convert(kind: Any, name: str, value: Any) -> Any:
    """The value as a plain number, truth value or text; `InputError` if it is of another kind."""
    try:
        if kind in (bool, str) and isinstance(value, kind):
            return value
        if kind is int and not isinstance(value, bool):
            return operator.index(value)
        if kind is float and not isinstance(value, bool | str) and math.isfinite(value):
            return float(value)
    except TypeError:
        pass
    raise InputError(f"{name}: found {value!r}, expected {_EXPECTED[kind]}")


_EXPECTED: dict[Any, str] = {int: "a whole number", float: "a number", bool: "True or False", str: "a word"}
_ITEMS: dict[Any, Any] = {tuple[int, ...]: int, tuple[float, ...]: float, tuple[str, ...]: str}
