"""The grid in q = 4π sin θ / λ to which powder patterns of any wavelength are interpolated for a model."""

from vitreous.data.source import Axis
from vitreous.powder.bragg import q_from_two_theta
from vitreous.powder.radiation import CU_KALPHA1

POINTS = 4500
Q_MAX = float(q_from_two_theta(90.0, CU_KALPHA1))  # 1/Å: copper radiation at 2θ = 90°
Q_AXIS = Axis("scattering vector", "1/Å", 0.0, Q_MAX / POINTS)
