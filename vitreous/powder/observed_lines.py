"""The observed lines of a pattern as the search uses them: 1/d² with standard errors."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.powder.tuning import SEARCH_TUNING, SearchTuning


@dataclass(frozen=True)
class ObservedLines:
    """Lines of a pattern by rising angle, each tensor `(n,)`.

    Args:
        q: 1/d² in 1/Å².
        sigma: standard errors of q.
        slope: change of q by a zero shift of one degree.
        foreign: probabilities that lines do not belong to the crystal; weak lines often do not.
    """

    q: Tensor
    sigma: Tensor
    slope: Tensor
    foreign: Tensor

    def first(self, count: int) -> "ObservedLines":
        """The first lines."""
        return ObservedLines(self.q[:count], self.sigma[:count], self.slope[:count], self.foreign[:count])

    def without_zero_shift(self, zero: float) -> "ObservedLines":
        """The lines corrected for a zero shift: the instrument reads `zero` degrees too much."""
        return replace(self, q=self.q - zero * self.slope)

    def with_own(self, own: float) -> "ObservedLines":
        """The first lines of which `own` are expected to belong to the crystal."""
        return self.first(int((torch.cumsum(1 - self.foreign, 0) < own).sum()) + 1)


def observe_lines(
    two_theta: NDArray[np.floating],
    error: NDArray[np.floating],
    wavelength: float,
    intensity: NDArray[np.floating] | None = None,
    tuning: SearchTuning = SEARCH_TUNING,
) -> ObservedLines:
    """Observed lines from angles and standard errors in degrees, a wavelength in ångström, and intensities if known."""
    angle = torch.as_tensor(np.asarray(two_theta, np.float64))
    half = torch.deg2rad(angle) / 2
    slope = 2 / wavelength**2 * torch.sin(2 * half) * np.pi / 180
    q = 4 * half.sin().square() / wavelength**2
    foreign = torch.full_like(q, tuning.foreign_share)
    if intensity is not None:
        share = torch.as_tensor(np.asarray(intensity, np.float64) / np.max(intensity))
        foreign = (1 / (1 + (share / tuning.faint) ** 1.3)).clamp(min=0.01)
    return ObservedLines(q, slope * torch.as_tensor(np.asarray(error, np.float64)), slope, foreign)
