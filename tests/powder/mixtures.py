"""Patterns of two phases with known cells, for tests."""

import numpy as np

from vitreous.powder.lineshape import GAUSS_HEIGHT
from vitreous.powder.pattern import Pattern
from vitreous.powder.refinement import reflections

WAVELENGTH = 1.2
MAJOR = (5.1, 5.1, 7.0, 90.0, 90.0, 90.0)  # tetragonal P
MINOR = (5.91, 5.91, 5.91, 90.0, 90.0, 90.0)  # cubic P
SYSTEMS = ("cubic", "tetragonal")
LIMITS = (8.0, 60.0)
SHARE = 0.75  # of the areas that are the major phase's
ZERO = 0.03  # degrees


def two_phases(share: float = SHARE) -> Pattern:
    """Counts of a pattern in which the major phase has a share of the areas."""
    x = np.arange(*LIMITS, 0.01)
    curve = np.zeros_like(x)
    for (cell, system), part in zip(((MAJOR, "tetragonal"), (MINOR, "cubic")), (share, 1 - share), strict=True):
        _, angles = reflections(cell, system, "P", WAVELENGTH, LIMITS)
        strength = np.random.default_rng(len(angles)).uniform(0.3, 1.0, len(angles))
        for angle, area in zip(angles + ZERO, part * strength / strength.sum(), strict=True):
            curve += area * np.exp(-4 * np.log(2) * ((x - angle) / 0.08) ** 2)
    counts = np.random.default_rng(1).poisson(200 + 1e5 * curve * GAUSS_HEIGHT)
    return Pattern(x, counts.astype(float), None, WAVELENGTH, "mixture.xy")
