"""Shifts of all lines by the instrument and the sample, as functions of the Bragg angle.

Δ2θ = zero + displacement · cos θ + transparency · sin 2θ. The three functions serve both geometries. For a flat plate
they are the error of the zero point, a sample above or below the axis, and the penetration of the beam. For a
capillary, sin 2θ is a displacement along the beam; one across it is proportional to cos 2θ, which a constant and cos θ
describe as well as any measurement can tell.
"""

from typing import NamedTuple

import numpy as np

from vitreous.powder.refinement.profile import Array


class Shifts(NamedTuple):
    """Amplitudes of the shifts, in degrees of 2θ."""

    zero: float
    displacement: float
    transparency: float

    def at(self, two_theta: Array) -> Array:
        """The shifts of lines at 2θ `(n,)`; all in degrees."""
        return np.asarray(shift_functions(np.radians(two_theta) / 2) @ np.array(self))


SHIFT_COUNT = len(Shifts._fields)


def shift_functions(bragg_angle: Array) -> Array:
    """Shifts `(n, 3)` of lines at Bragg angles θ `(n,)` in radians, for amplitudes of 1."""
    return np.column_stack([np.ones_like(bragg_angle), np.cos(bragg_angle), np.sin(2 * bragg_angle)])
