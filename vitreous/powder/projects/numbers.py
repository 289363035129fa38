"""Numbers and columns of project files, without exponents: not every program reads them."""

import numpy as np

from vitreous.powder.projects.start import RefinementStart
from vitreous.powder.refinement.profile import Array

_DIGITS = 8
_DECIMALS = 10


def decimal(value: float) -> str:
    """A number with eight significant digits, at most ten of them after the point."""
    rounded = float(f"{round(float(value), _DECIMALS):.{_DIGITS}g}")
    return np.format_float_positional(rounded + 0.0, trim="0")


def data_columns(start: RefinementStart) -> str:
    """Rows of 2θ in degrees, intensity and its standard error."""
    return rows(start.two_theta, start.intensity, start.sigma)


def rows(*columns: Array) -> str:
    """One row for each value of the columns."""
    return "".join(" ".join(map(decimal, row)) + "\n" for row in zip(*columns, strict=True))
