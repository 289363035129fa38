"""Least squares of many candidate lattices on the observed lines at once: assign reflections, solve, repeat."""

import math

import torch
from torch import Tensor

from vitreous.powder.merit import calculated_q, nearest_line
from vitreous.powder.observed_lines import ObservedLines
from vitreous.powder.tuning import SEARCH_TUNING, SearchTuning


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
    """Refine lattices `(C, P)` by repeated assignment of the nearest reflections, over more and more lines.

    Args:
        lines: the observed lines.
        basis: `(H, P)`, the reflections.
        x: `(C, P)`, parameters of the reciprocal metrics.
        rounds: number of assignments; the zero shift is refined in the second half of them.
        start: lines used in the first round.
        zero: `(C,)`, zero shifts in degrees to begin with.
        reach: degrees; lines that miss by several times this lose their weight.
        tuning: constants of the search.

    Returns:
        The refined parameters `(C, P)` and zero shifts `(C,)` in degrees.
    """
    shift, count = x.new_zeros(len(x)) if zero is None else zero, len(lines.q)
    start = min(start, count)
    for turn in range(rounds):
        used = round(start + (count - start) * min(1.0, 1.5 * turn / rounds))
        part = lines.first(used)
        ordered, order = calculated_q(basis, x).sort(dim=1)
        miss, at = nearest_line(ordered, part.q - shift[:, None] * part.slope)
        scale = torch.minimum(1.5 * miss.median(dim=1, keepdim=True).values, reach * part.slope)
        scale = torch.maximum(scale, part.sigma)
        weight = (1 - part.foreign) / (part.sigma.square() + scale.square()) / (1 + (miss / (3 * scale)) ** 4)
        refine_zero = 2 * turn >= rounds
        x, shift = _solve(basis[order.gather(1, at)], part, weight, x, shift, refine_zero, tuning.usual_zero)
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
    damping = 1e-3 * normal.diagonal(dim1=1, dim2=2).mean(1, keepdim=True).expand(-1, rows.shape[2]).clone()
    damping = torch.minimum(damping, 1e-3 * normal.diagonal(dim1=1, dim2=2) + 1e-12)
    if refine_zero:
        damping[:, -1] = 1 / usual_zero**2
        right[:, -1] -= shift / usual_zero**2
    change = torch.linalg.solve(normal + torch.diag_embed(damping + 1e-9 * normal.amax((1, 2))[:, None]), right)
    change = torch.where(change.isfinite(), change, 0.0)
    return x + change[:, : x.shape[1]], shift + (change[:, -1] if refine_zero else 0.0)
