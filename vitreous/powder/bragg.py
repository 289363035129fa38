"""Bragg's law, λ = 2 d sin θ: conversions between 2θ in degrees, s = 1/d and q = 2π/d in 1/Å.

Every function takes a float, a NumPy array or a tensor, and returns the same kind.
"""

import math
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Values = TypeVar("Values", float, NDArray[np.float64], "Tensor")


def bragg_angle(s: Values, wavelength: "float | Tensor", limit: float = 1.0) -> Values:
    """θ in radians; sin θ above `limit` is set to it."""
    library = _library(s)
    return library.arcsin(library.clip(s * wavelength / 2, None, limit))  # type: ignore[no-any-return]


def two_theta_from_s(s: Values, wavelength: "float | Tensor") -> Values:
    """2θ in degrees; 180 beyond the largest s that the wavelength reaches."""
    return _library(s).rad2deg(2 * bragg_angle(s, wavelength))  # type: ignore[no-any-return]


def two_theta_from_q(q: Values, wavelength: float) -> Values:
    """2θ in degrees; 180 beyond the largest q that the wavelength reaches."""
    return two_theta_from_s(q * wavelength / (4 * math.pi), 2.0)  # at this wavelength, s is sin θ


def s_from_two_theta(two_theta: Values, wavelength: "float | Tensor") -> Values:
    """1/d in 1/Å."""
    return _half_sine(two_theta) * (2 / wavelength)  # type: ignore[return-value]


def q_from_two_theta(two_theta: Values, wavelength: float) -> Values:
    """q in 1/Å."""
    return 4 * math.pi / wavelength * _half_sine(two_theta)


def second_wavelength(two_theta: Values, ratio: float) -> Values:
    """2θ at which the same planes diffract a wavelength that is longer by `ratio`: where Kα2 of a line lies."""
    return two_theta_from_s(_half_sine(two_theta) * ratio, 2.0)


def _half_sine(two_theta: Values) -> Values:
    library = _library(two_theta)
    return library.sin(library.deg2rad(two_theta / 2))  # type: ignore[no-any-return]


def _library(values: Any) -> Any:
    """NumPy or, for tensors, torch, which readers of files must not load."""
    if isinstance(values, float | np.ndarray):
        return np
    import torch

    return torch
