"""How well lattices explain observed lines: figures of merit, evidence, and a quick score for many trial cells."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.powder.bragg import two_theta_from_s
from vitreous.powder.observed_lines import ObservedLines, nearest_line, sorted_q, visible_shares
from vitreous.powder.reciprocal import cell_from_reciprocal
from vitreous.powder.tuning import SEARCH_TUNING, ErrorModel, SearchTuning


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
        beyond, ones = len(self.table) - 1, q.new_ones(q.shape[1])
        place = (q * self.scale).round_().clamp_(0, beyond)
        hits = self.table.index_select(0, place.to(torch.int32).view(-1)).view(place.shape)
        inside = (beyond - place).clamp_(max=1) @ ones  # a matrix product is the fastest sum
        return (hits @ ones) / inside.clamp_(min=1).sqrt_()


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
    system: str, lines: ObservedLines, basis: Tensor, x: Tensor, zero: Tensor, tuning: SearchTuning = SEARCH_TUNING,
    errors: ErrorModel | None = None,
) -> Tensor:  # fmt: skip
    """The log-likelihood ratio `(C,)` of the lines under each lattice and under chance, less a cost per parameter.

    Under a lattice, each of its M reflections is observed with probability p, at its place with an error of s standard
    errors, and foreign lines come by chance. The likelihood is the sum over all ways to explain the lines,

        (1 - p)^M exp(n - Σ f_i) Π_i (f_i + p / (1 - p) N(miss_i; s σ_i) / density_i),

    with at most one line for a reflection; f_i is the probability that line i is foreign. Reflections that coincide
    within the resolution share one line (`visible_shares`). The likelihood is averaged over the
    unknown p, s and amount of foreign lines (`ErrorModel`). The result is -1e9 for an invalid cell.
    """
    model = errors or tuning.errors
    scores = (_log_likelihoods(lines, basis, x, zero, model, tuning)).logsumexp((0, 1, 2))
    scores = scores + _log_zero_prior(zero, model) - tuning.parameter_cost * x.shape[1]
    good = cell_from_reciprocal(system, x).isfinite().all(1) & scores.isfinite()
    return torch.where(good, scores, -1e9)


def error_scales(
    lines: ObservedLines, basis: Tensor, x: Tensor, zero: Tensor, tuning: SearchTuning = SEARCH_TUNING
) -> Tensor:
    """Errors of the positions under each lattice `(C,)`, relative to the stated ones: the posterior mean."""
    weights = _log_likelihoods(lines, basis, x, zero, tuning.errors, tuning).logsumexp((1, 2)).softmax(0)
    return weights.T @ weights.new_tensor([scale for scale, _ in tuning.errors.scale])


def _log_likelihoods(
    lines: ObservedLines, basis: Tensor, x: Tensor, zero: Tensor, model: ErrorModel, tuning: SearchTuning
) -> Tensor:
    """Log-likelihood ratios `(scales, foreign, detection, C)` for all values of the unknowns, with their priors."""
    ordered, _ = sorted_q(basis, x)
    place = lines.q - zero[:, None] * lines.slope
    miss, at = nearest_line(ordered, place)
    miss = miss.masked_fill(_is_second(miss, at), torch.inf)
    share_visible = visible_shares(ordered, lines)
    visible = share_visible.gather(1, at)  # (C, n)
    possible = (share_visible * (ordered <= place[:, -1:] * (1 + 1e-9))).sum(1).clamp(min=1)  # (C,)
    detection = place.new_tensor(model.detection)  # (P, 2)
    odds = lines.foreign / (1 - lines.foreign) * place.new_tensor(model.foreign)[:, :1]
    foreign = (odds / (1 + odds))[:, None]  # (F, 1, n)
    chance = len(lines.q) - foreign.sum(2)  # (F, 1)
    (share, wide), parts = model.tail, []
    for scale, weight in model.scale:
        sigma = scale * lines.sigma
        near = (1 - share) * _normal(miss, sigma) + share * _normal(miss, wide * sigma)
        ratio = detection[:, :1] / (1 - detection[:, :1])  # (P, 1)
        # (F, P, C, n) -> (F, P, C)
        explained = torch.log(foreign[:, :, None] + ratio[:, :, None] * (visible * near / lines.density)).sum(3)
        absent = torch.log1p(-detection[:, :1]) * possible  # (P, C)
        parts.append(explained + absent + chance[:, :, None] + math.log(weight))
    priors = place.new_tensor(model.foreign)[:, 1:].log() + detection[:, 1].log()  # (F, P)
    return torch.stack(parts) + priors[..., None]


def _is_second(miss: Tensor, at: Tensor) -> Tensor:
    """Which lines `(C, n)` are nearest to a reflection that is nearer to the line before or after them."""
    same = at[:, 1:] == at[:, :-1]
    after_is_worse = miss[:, 1:] >= miss[:, :-1]
    second = torch.zeros_like(miss, dtype=torch.bool)
    second[:, 1:] = same & after_is_worse
    second[:, :-1] |= same & ~after_is_worse
    return second


def _normal(miss: Tensor, sigma: Tensor) -> Tensor:
    return torch.exp(-0.5 * (miss / sigma).square()) / (sigma * math.sqrt(2 * math.pi))


def _log_zero_prior(zero: Tensor, model: ErrorModel) -> Tensor:
    """Log density `(C,)` of zero shifts relative to that of no shift."""
    deviation, weight = zero.new_tensor(model.zero).T
    height = weight / deviation
    return torch.log((height * torch.exp(-0.5 * (zero[:, None] / deviation).square())).sum(1) / height.sum())


def superlattice_gains(
    lines: ObservedLines, own: Tensor, x: Tensor, zero: Tensor, unexplained: Tensor, cells: Sequence[Tensor],
    tuning: SearchTuning = SEARCH_TUNING,
) -> Tensor:  # fmt: skip
    """What superlattices `(S,)` add to the evidence of one lattice by explaining lines that it leaves unexplained.

    A superstructure adds reflections that are weaker than the others, so their probability of being observed is
    unknown anew. `own` `(H, P)` and `x` `(1, P)` are the lattice, `unexplained` `(n,)` the lines that it leaves, and
    `cells` the calculated 1/d² of each superlattice.
    """
    model = tuning.errors
    weights = _log_likelihoods(lines, own, x, zero, model, tuning).logsumexp((0, 2)).softmax(0)[:, 0]  # (F,)
    scale = float(error_scales(lines, own, x, zero, tuning)[0])
    left = ObservedLines(*(getattr(lines, part.name)[unexplained] for part in fields(lines)))
    odds = left.foreign / (1 - left.foreign) * lines.q.new_tensor(model.foreign)[:, :1]
    foreign = (odds / (1 + odds))[:, None]  # (F, 1, n)
    detection, prior = lines.q.new_tensor(model.weak_detection).T
    end, place = lines.q[-1] - zero * lines.slope[-1], (left.q - zero * left.slope)[None]
    before = _count_visible((own @ x[0]).sort().values[None], end, lines)
    gains = []
    for q in cells:
        ordered = q[q <= 1.05 * end].sort().values[None]
        miss, at = nearest_line(ordered, place)
        near = _normal(miss.masked_fill(_is_second(miss, at), torch.inf), scale * left.sigma) / left.density
        ratio = (detection / (1 - detection))[:, None]
        explained = torch.log1p(ratio * near / foreign).sum(2)  # (F, P)
        extra = max(0.0, _count_visible(ordered, end, lines) - before)
        total = explained + torch.log1p(-detection) * extra + prior.log() + weights.log()[:, None]
        gains.append(total.logsumexp((0, 1)))
    return torch.stack(gains) if gains else zero.new_zeros(0)


def _count_visible(ordered: Tensor, end: Tensor, lines: ObservedLines) -> float:
    """The number of distinct lines among calculated 1/d² `(1, H)`, ascending, up to `end`."""
    return float((visible_shares(ordered, lines) * (ordered <= end)).sum())


def _distances(lines: ObservedLines, basis: Tensor, x: Tensor, zero: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """1/d² `(C, n)` of the lines without zero shift, distances to calculated lines `(C, n)`, numbers of these `(C, 1)`.

    Calculated lines are counted up to the last observed one.
    """
    ordered, _ = sorted_q(basis, x)
    place = lines.q - zero[:, None] * lines.slope
    allowed = (ordered <= place[:, -1:] * (1 + 1e-9)).sum(1, keepdim=True).clamp(min=1)
    return place, nearest_line(ordered, place)[0], allowed


def unexplained_lines(lines: ObservedLines, q: Tensor, zero: float, tolerance: float) -> Tensor:
    """Which lines `(n,)` are farther than `tolerance` standard errors from all calculated 1/d² `(H,)`."""
    miss = (lines.q[:, None] - zero * lines.slope[:, None] - q).abs().amin(1)
    return miss > tolerance * lines.sigma


def is_shoulder(lines: ObservedLines, q: Tensor, zero: float, distance: float) -> Tensor:
    """Which lines `(n,)` are within `distance` resolutions of one of the calculated 1/d² `(H,)`."""
    miss = (lines.q[:, None] - zero * lines.slope[:, None] - q).abs().amin(1)
    return miss < distance * lines.resolution
