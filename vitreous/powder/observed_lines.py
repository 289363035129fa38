"""The observed lines of a pattern: 1/d² with standard errors, and least squares of many lattices on them at once.

Lattices are parameters `(C, P)` of reciprocal metrics, reflections are basis rows `(H, P)`; see `reciprocal`.
"""

import math
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.powder.tuning import SEARCH_TUNING, SearchTuning


@dataclass(frozen=True)
class ObservedLines:
    """Lines of a pattern by rising angle, each tensor `(n,)`."""

    q: Tensor  # 1/d² in 1/Å²
    sigma: Tensor  # standard errors of q
    slope: Tensor  # change of q by a zero shift of one degree
    foreign: Tensor  # probabilities that lines do not belong to the crystal; weak lines often do not
    density: Tensor  # lines per unit of q near each line, by chance
    resolution: Tensor  # distance in q within which reflections are observed as one line

    def first(self, count: int) -> "ObservedLines":
        """The first lines."""
        return ObservedLines(*(getattr(self, part.name)[:count] for part in fields(self)))

    def without_zero_shift(self, zero: float) -> "ObservedLines":
        """The lines corrected for a zero shift: the instrument reads `zero` degrees too much."""
        return replace(self, q=self.q - zero * self.slope)

    def with_foreign_odds(self, factor: float) -> "ObservedLines":
        """The lines with the odds that they are foreign times a factor: then only strong ones count."""
        odds = factor * self.foreign / (1 - self.foreign)
        return replace(self, foreign=odds / (1 + odds))

    def with_own(self, own: float) -> "ObservedLines":
        """The first lines of which `own` are expected to belong to the crystal."""
        return self.first(int((torch.cumsum(1 - self.foreign, 0) < own).sum()) + 1)


def observe_lines(
    two_theta: NDArray[np.floating],
    error: NDArray[np.floating],
    wavelength: float,
    intensity: NDArray[np.floating] | None = None,
    tuning: SearchTuning = SEARCH_TUNING,
    width: float | None = None,
) -> ObservedLines:
    """Observed lines from angles and standard errors in degrees, a wavelength in ångström, and intensities if known.

    `width` is the lines' full width at half maximum in degrees, if it is known.
    """
    angle = torch.as_tensor(np.asarray(two_theta, np.float64))
    half = torch.deg2rad(angle) / 2
    slope = 2 / wavelength**2 * torch.sin(2 * half) * np.pi / 180
    q = 4 * half.sin().square() / wavelength**2
    odds = torch.full_like(q, tuning.foreign_odds)
    if intensity is not None:
        share = torch.as_tensor(np.asarray(intensity, np.float64) / np.max(intensity))
        # A weak peak of a pattern may be noise or an impurity; a weak line of a list was chosen by somebody.
        odds = (share / tuning.faint) ** -(tuning.faint_power_of_lists if width is None else tuning.faint_power)
    foreign = (odds / (1 + odds)).clamp(min=0.01)
    # Lines by chance: half of them anywhere in 2θ, half as dense as the reflections of another crystal.
    anywhere = 1 / ((angle[-1] - 0.5 * angle[0]) * slope)
    like_crystal = 1.5 * q.sqrt() / q[-1] ** 1.5
    density = len(q) * (anywhere + like_crystal) / 2
    resolution = tuning.default_resolution if width is None else tuning.resolution * width
    sigma = slope * torch.as_tensor(np.asarray(error, np.float64))
    return ObservedLines(q, sigma, slope, foreign, density, resolution * slope)


def visible_shares(ordered: Tensor, lines: ObservedLines) -> Tensor:
    """How much of an observed line each of calculated 1/d² `(C, H)`, ascending, is worth: half if two coincide."""
    at_unit = (lines.resolution / lines.q.sqrt()).median()  # the resolution rises as the square root of q
    gap = (ordered.diff(dim=1) / (at_unit * ordered[:, 1:].sqrt())).nan_to_num(1.0).clamp(max=1.0)
    share = torch.ones_like(ordered)
    share[:, 1:] = (1 + gap) / 2
    share[:, :-1] -= (1 - gap) / 2
    return share.clamp_(min=0.1)


def calculated_q(basis: Tensor, x: Tensor) -> Tensor:
    """1/d² of every reflection `(C, H)`; infinite where it is not positive."""
    q = x @ basis.T
    return torch.where(q > 0, q, torch.inf)


def sorted_q(basis: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """`calculated_q` in ascending order, and the reflection at each place, both `(C, H)`.

    Bits of integers order positive numbers. The lowest ones are replaced by the place before sorting, so that values
    alone are sorted, which is several times as fast; the values lose no more than 1e-10 of their size.
    """
    q = calculated_q(basis, x).numpy()
    last = (1 << q.shape[1].bit_length()) - 1
    keys = np.sort(q.view(np.int64) & ~last | np.arange(q.shape[1]), axis=1)
    return torch.from_numpy((keys & ~last).view(np.float64)), torch.from_numpy(keys & last)


def nearest_line(ordered: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
    """Distance from 1/d² `(C, n)` to the nearest of calculated `(C, H)` in ascending order, and its position there."""
    if ordered.shape[1] < 2:
        ordered = torch.nn.functional.pad(ordered, (0, 1), value=torch.inf)
    above = torch.searchsorted(ordered, place.contiguous()).clamp(1, ordered.shape[1] - 1)
    low, high = ordered.gather(1, above - 1), ordered.gather(1, above)
    lower = (place - low).abs() <= (high - place).abs()
    return torch.where(lower, place - low, high - place).abs(), torch.where(lower, above - 1, above)


def refine_on_lines(
    lines: ObservedLines,
    basis: Tensor,
    x: Tensor,
    rounds: int = 12,
    start: int = 8,
    zero: Tensor | None = None,
    reach: float = math.inf,
    tuning: SearchTuning = SEARCH_TUNING,
) -> tuple[Tensor, Tensor]:
    """Refine lattices `x` by repeated assignment of the nearest reflections, over more and more lines.

    Returns the refined parameters `(C, P)` and zero shifts `(C,)` in degrees.

    Args:
        rounds: number of assignments; the zero shift is refined in the second half of them.
        start: lines used in the first round.
        zero: `(C,)`, zero shifts in degrees to begin with.
        reach: degrees; lines that miss by several times this lose their weight.
    """
    shift, count = x.new_zeros(len(x)) if zero is None else zero, len(lines.q)
    start = min(start, count)
    for turn in range(rounds):
        part = lines.first(round(start + (count - start) * min(1.0, 1.5 * turn / rounds)))
        ordered, order = sorted_q(basis, x)
        miss, at = nearest_line(ordered, part.q - shift[:, None] * part.slope)
        scale = torch.minimum(1.5 * miss.median(dim=1, keepdim=True).values, reach * part.slope)
        scale = torch.maximum(scale, part.sigma)
        weight = (1 - part.foreign) / (part.sigma.square() + scale.square()) / (1 + (miss / (3 * scale)) ** 4)
        x, shift = _solve(basis[order.gather(1, at)], part, weight, x, shift, 2 * turn >= rounds, tuning.usual_zero)
    return x, shift


def _solve(
    rows: Tensor, lines: ObservedLines, weight: Tensor, x: Tensor, shift: Tensor, refine_zero: bool, usual_zero: float
) -> tuple[Tensor, Tensor]:
    """One damped Gauss-Newton step of `(C, n, P)` assigned reflections on the lines."""
    target = lines.q - shift[:, None] * lines.slope - (rows @ x[:, :, None])[..., 0]  # (C, n), the residual
    if refine_zero:
        rows = torch.cat([rows, lines.slope.expand(len(x), -1)[..., None]], dim=2)
    weighted = rows * weight[..., None]
    normal = weighted.mT @ rows
    right = (weighted.mT @ target[..., None])[..., 0]
    diagonal = normal.diagonal(dim1=1, dim2=2)
    damping = torch.minimum(1e-3 * diagonal.mean(1, keepdim=True), 1e-3 * diagonal + 1e-12)
    if refine_zero:
        damping[:, -1] = 1 / usual_zero**2
        right[:, -1] -= shift / usual_zero**2
    change = torch.linalg.solve(normal + torch.diag_embed(damping + 1e-9 * normal.amax((1, 2))[:, None]), right)
    change = torch.where(change.isfinite(), change, 0.0)
    return x + change[:, : x.shape[1]], shift + (change[:, -1] if refine_zero else 0.0)
