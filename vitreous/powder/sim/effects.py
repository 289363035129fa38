"""`Effects`: how a measurement changes a powder pattern."""

from dataclasses import dataclass

import torch
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.core.settings import Settings
from vitreous.powder.bragg import s_from_two_theta
from vitreous.powder.radiation import CU_KALPHA1, CU_KALPHA2, WAVELENGTH_RANGE

Range = tuple[float, ...]


@dataclass(frozen=True)
class Effects(Settings):
    """Effects of a measurement, each a range from which every pattern draws a value; equal ends fix it.

    The defaults describe a laboratory diffractometer with copper radiation. `CLEAN` has no effects but the width.
    """

    two_theta: Range = (0.0, 90.0)
    """First and last angle of the grid, in degrees."""
    points: int = 4500
    """Points of the grid."""
    wavelength: float = CU_KALPHA1
    """In ångström; Kα1 of a doublet."""
    wavelength2: float = CU_KALPHA2
    """Of Kα2, in ångström."""
    alpha2: Range = (0.0, 0.5)
    """Intensity of Kα2 relative to Kα1; 0 to 1, 0 for monochromatic radiation."""
    start: Range = (2.0, 8.0)
    """Angle at which the measurement starts, in degrees; intensities below it are 0; 0 to 90."""
    zero: Range = (-0.04, 0.04)
    """Zero shift, in degrees; -0.5 to 0.5."""
    displacement: Range = (-0.03, 0.03)
    """Shift by a displaced sample at low angle, in degrees; it falls as cos θ; -0.5 to 0.5."""
    width: Range = (0.05, 0.15)
    """Full width at half maximum at 2θ = 30°, in degrees; 0.01 to 2."""
    slope: Range = (0.0, 0.3)
    """Growth of Caglioti's squared width with tan²θ, relative to its value at 30°; 0 to 0.5."""
    dip: Range = (-0.3, 0.0)
    """Growth of the squared width with tan θ, which makes a minimum of the width; -0.4 to 0."""
    mixing: Range = (0.1, 0.9)
    """Lorentzian share of the pseudo-Voigt profile; 0 to 1."""
    asymmetry: Range = (0.0, 0.02)
    """Axial divergence, half the slit height over the radius, which makes tails to low angles; 0 to 0.05."""
    texture: Range = (0.7, 1.3)
    """March-Dollase parameter of preferred orientation; 0.2 to 5, 1 for none."""
    background: Range = (0.0, 0.05)
    """Height of a smooth background relative to the strongest line; 0 to 10."""
    hump: Range = (0.0, 0.03)
    """Height of an amorphous hump relative to the strongest line; 0 to 10."""
    impurity: Range = (0.0, 0.02)
    """Lines of a second crystal relative to those of the first; 0 to 1."""
    counts: Range = (3e3, 1e5)
    """Counts in the strongest line, drawn by their logarithm, with Poisson noise; 0 for no noise."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("two_theta", *EFFECT_LIMITS):
            if len(getattr(self, name)) != 2:
                values = " ".join(f"{value:g}" for value in getattr(self, name))
                raise InputError(f"{name}: found {values}, expected two numbers, the ends of a range")
        low, high = self.two_theta
        if not 0 <= low < high <= 180:
            raise InputError(f"two_theta: found {low:g} to {high:g}, expected an ascending range within 0 to 180°")
        self._at_least(50, "points")
        for name, (least, most) in EFFECT_LIMITS.items():
            first, last = getattr(self, name)
            if not least <= first <= last <= most:
                raise InputError(f"{name}: found {first:g} to {last:g}, expected a range within {least:g} to {most:g}")
        if 0 < self.counts[1] < 1:
            raise InputError(f"counts: found {self.counts[0]:g} to {self.counts[1]:g}, expected 0 or at least 1")
        low, high = WAVELENGTH_RANGE
        for name in ("wavelength", "wavelength2"):
            if not low <= getattr(self, name) <= high:
                raise InputError(f"{name}: found {getattr(self, name):g}, expected {low:g} to {high:g} Å")

    @property
    def s_max(self) -> float:
        """The largest 1/d that is measured, in 1/Å."""
        return float(s_from_two_theta(float(self.two_theta[1]), self.wavelength))

    def angles(self, device: torch.device | str = "cpu") -> Tensor:
        """The grid `(points,)`, in degrees."""
        low, high = self.two_theta
        return low + (high - low) / self.points * torch.arange(self.points, dtype=torch.float64, device=device)


EFFECT_LIMITS: dict[str, Range] = {
    "alpha2": (0, 1), "start": (0, 90), "zero": (-0.5, 0.5), "displacement": (-0.5, 0.5), "width": (0.01, 2),
    "slope": (0, 0.5), "dip": (-0.4, 0), "mixing": (0, 1), "asymmetry": (0, 0.05), "texture": (0.2, 5),
    "background": (0, 10), "hump": (0, 10), "impurity": (0, 1), "counts": (0, 1e9),
}  # fmt: skip
"""The values that each effect may have."""

_OFF: Range = (0.0, 0.0)
CLEAN = Effects(
    alpha2=_OFF, start=_OFF, zero=_OFF, displacement=_OFF, slope=_OFF, dip=_OFF, width=(0.08, 0.08), mixing=(0.5, 0.5),
    asymmetry=_OFF, texture=(1.0, 1.0), background=_OFF, hump=_OFF, impurity=_OFF, counts=_OFF,
)  # fmt: skip
