"""The one grid to which every powder pattern is carried, whatever its wavelength: q = 4π sin θ / λ."""

import math

from vitreous.data.source import Axis

POINTS = 4500
Q_MAX = 4 * math.pi * math.sin(math.radians(45)) / 1.540598  # 1/Å: copper radiation at 2θ = 90°
Q_AXIS = Axis("scattering vector", "1/Å", 0.0, Q_MAX / POINTS)
