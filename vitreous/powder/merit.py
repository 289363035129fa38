"""How well lattices explain observed lines: figures of merit, evidence, and a quick score for many trial cells."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.powder.bragg import two_theta_from_s
from vitreous.powder.observed_lines import ObservedLines, calculated_q, nearest_line
from vitreous.powder.reciprocal import cell_from_reciprocal
from vitreous.powder.tuning import SEARCH_TUNING, SearchTuning


@dataclass(frozen=True)
class LineMap:
    """The observed lines on a grid in 1/d²: a quick score for very many trial cells.

    `table` is high at the lines, with mean 0 and variance 1 over randomly placed calculated lines. Its last entry, for
    everything beyond the last line, is 0.
    """

    table: Tensor
    scale: float

    @classmethod
    def from_lines(cls, lines: ObservedLines, tolerance: float = 0.03, bins: int = 8192) -> "LineMap":
        """The map of observed lines with a tolerance in degrees."""
        top = 1.005 * float(lines.q[-1])
        grid = torch.linspace(0, top, bins, dtype=lines.q.dtype)
        half = (tolerance * lines.slope)[:, None]
        near = (1 - ((grid - lines.q[:, None]) / half).square()).clamp(min=0)
        table = ((1 - lines.foreign)[:, None] * near).amax(0)
        density = grid.sqrt() / grid.sqrt().sum()
        mean = (table * density).sum()
        spread = ((table - mean).square() * density).sum().sqrt()
        return cls(torch.cat([(table - mean) / spread, table.new_zeros(1)]).float(), bins / top)

    def score(self, q: Tensor) -> Tensor:
        """Scores `(C,)` of calculated 1/d² `(C, H)` float32: standard deviations above a random set of lines."""
        beyond = len(self.table) - 1
        place = (q * self.scale).round_().clamp_(0, beyond).to(torch.int32)
        hits = self.table.index_select(0, place.view(-1)).view(place.shape)
        return hits.sum(1) / (place < beyond).sum(1).clamp(min=1).sqrt()


def de_wolff(lines: ObservedLines, basis: Tensor, x: Tensor, zero: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """De Wolff's figures of merit Q_n / (2 <|ΔQ|> N_n) `(C,)` of lattices, and the numbers of explained lines `(C,)`.

    N_n is the number of calculated lines up to the last one. Lines farther than a tolerance in standard errors from any
    calculated one are unexplained: they enter the mean as if each missed by half the spacing.
    """
    place, miss, allowed = _distances(lines, basis, x, zero)
    last = place[:, -1:]
    floor = 0.25 * lines.sigma  # a smaller distance is chance
    near = miss <= tolerance * lines.sigma
    spacing = last / allowed / 2
    mean = torch.where(near, torch.maximum(miss, floor), spacing / 2).mean(1, keepdim=True)
    return (last / (2 * mean.clamp(min=1e-12) * allowed))[:, 0], near.sum(1)


def smith_snyder(
    lines: ObservedLines, basis: Tensor, x: Tensor, zero: Tensor, angle: NDArray[np.float64], wavelength: float
) -> float:
    """Smith and Snyder's F_N = N / (<|Δ2θ|> N_possible) of one lattice `(1, P)`, in 1/°."""
    q = (basis @ x[0]).sort().values
    calculated = two_theta_from_s(q.clamp(min=0).sqrt(), wavelength)
    corrected = torch.as_tensor(angle) - zero[0]
    miss = (corrected[:, None] - calculated).abs().amin(1)
    possible = int((q <= lines.q[-1] * (1 + 1e-6)).sum())
    return float(len(corrected) / (miss.mean().clamp(min=1e-6) * max(1, possible)))


def evidence(
    system: str, lines: ObservedLines, basis: Tensor, x: Tensor, zero: Tensor, tuning: SearchTuning = SEARCH_TUNING
) -> Tensor:
    """The log-likelihood ratio `(C,)` of the lines under each lattice and under chance, less a cost per parameter.

    It is -1e9 for an invalid cell.
    """
    cost = tuning.parameter_cost * x.shape[1]
    scores = line_evidence(lines, basis, x, zero).sum(1) - cost - 0.5 * (zero / tuning.usual_zero).square()
    good = cell_from_reciprocal(system, x).isfinite().all(1) & scores.isfinite()
    return torch.where(good, scores, -1e9)


def line_evidence(lines: ObservedLines, basis: Tensor, x: Tensor, zero: Tensor) -> Tensor:
    """The contribution of each line to the evidence, `(C, n)`.

    By chance, the distance to the nearest calculated line is exponential in the density of such lines, so a cell with
    many lines gains little from each. A line may be foreign.
    """
    place, miss, allowed = _distances(lines, basis, x, zero)
    last = place[:, -1:]
    density = 1.5 * (allowed / last) * (place / last).clamp(min=0.05).sqrt()
    right = 2 / (lines.sigma * (2 * torch.pi) ** 0.5) * torch.exp(-0.5 * (miss / lines.sigma).square())
    chance = 2 * density * torch.exp(-2 * density * miss)
    return torch.log((1 - lines.foreign) * right / chance.clamp(min=1e-300) + lines.foreign)


def _distances(lines: ObservedLines, basis: Tensor, x: Tensor, zero: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """1/d² `(C, n)` of the lines without zero shift, distances to calculated lines `(C, n)`, numbers of these `(C, 1)`.

    Calculated lines are counted up to the last observed one.
    """
    ordered = calculated_q(basis, x).sort(dim=1).values
    place = lines.q - zero[:, None] * lines.slope
    allowed = (ordered <= place[:, -1:] * (1 + 1e-9)).sum(1, keepdim=True).clamp(min=1)
    return place, nearest_line(ordered, place)[0], allowed


def unexplained_lines(lines: ObservedLines, q: Tensor, zero: float, tolerance: float) -> Tensor:
    """Which lines `(n,)` are farther than `tolerance` standard errors from all calculated 1/d² `(H,)`."""
    miss = (lines.q[:, None] - zero * lines.slope[:, None] - q).abs().amin(1)
    return miss > tolerance * lines.sigma
