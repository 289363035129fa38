"""The one exception for a user's mistake: one line, naming what was found and what was expected."""

from collections.abc import Iterable

_LONGEST = 200  # letters of what was found


class InputError(ValueError):
    """Something the user gave is wrong; the command line prints it as one line and exits with code 2."""


def check_choice(name: str, found: object, valid: Iterable[str]) -> None:
    """Raise `InputError` listing the valid words if `found` is none of them."""
    words = list(valid)
    if found not in words:
        raise InputError(f"{name}: unknown choice {repr(found)[:_LONGEST]}; expected one of: {', '.join(words)}")


def first_line(fault: BaseException) -> str:
    """What an exception says in its first line, or its name if it says nothing."""
    return next(iter(str(fault).splitlines()), type(fault).__name__)
