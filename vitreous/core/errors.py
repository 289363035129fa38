"""`InputError`: the exception for invalid user input, with a message of one line."""

from collections.abc import Iterable

_MAX_CHARACTERS = 200  # of an invalid value in a message


class InputError(ValueError):
    """Invalid user input. The command line prints the message and exits with code 2."""


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise `InputError` with a list of the valid choices if `value` is not one of them."""
    valid = list(choices)
    if value not in valid:
        raise InputError(f"{name}: unknown choice {repr(value)[:_MAX_CHARACTERS]}; expected one of: {', '.join(valid)}")


def first_line(error: BaseException) -> str:
    """First line of an exception's message, or the name of its type if the message is empty."""
    return next(iter(str(error).splitlines()), type(error).__name__)
