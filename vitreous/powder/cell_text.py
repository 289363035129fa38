"""Unit cells as text: values with standard errors and units, for terminal, page, CIF and service."""

import math
from collections.abc import Sequence

from vitreous.powder.cell import NAMES

COLUMNS = ("a (Å)", "b (Å)", "c (Å)", "α (°)", "β (°)", "γ (°)")
"""Headings of a table with one column per cell parameter."""


def with_error(value: float, error: float) -> str:
    """A value with its standard error in parentheses, in units of the last digit.

    >>> with_error(5.64024, 0.00013), with_error(90.0, 0.0)
    ('5.64024(13)', '90')
    """
    if error <= 0:
        return f"{value:g}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{digits}f}({round(error * 10**digits)})"


def refined_parameters(cell: Sequence[float], errors: Sequence[float]) -> str:
    """The parameters of a cell that were refined, with names, errors and units.

    >>> refined_parameters((5.64024,) * 3 + (90.0,) * 3, (0.00013,) + (0.0,) * 5)
    'a = 5.64024(13) Å'
    """
    return ", ".join(
        f"{name} = {with_error(value, error)}{' Å' if name in 'abc' else '°'}"
        for name, value, error in zip(NAMES, cell, errors, strict=True)
        if error > 0
    )


def cell_columns(cell: Sequence[float], angle_digits: int = 2) -> list[str]:
    """The six parameters of a cell as cells of a table."""
    return [f"{value:.4f}" for value in cell[:3]] + [f"{value:.{angle_digits}f}" for value in cell[3:]]


def cell_line(cell: Sequence[float]) -> str:
    """A cell on one line.

    >>> cell_line((4.5937, 4.5937, 2.9587, 90.0, 90.0, 90.0))
    '4.5937 4.5937 2.9587 Å, 90 90 90°'
    """
    lengths, angles = (" ".join(f"{value:.6g}" for value in part) for part in (cell[:3], cell[3:]))
    return f"{lengths} Å, {angles}°"
