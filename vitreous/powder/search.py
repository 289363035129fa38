"""From approximate cells to exact ones: candidates scored, assigned and refined against the lines of a pattern.

1/d² of a reflection is linear in the reciprocal metric: Q = Σ x_p B_p(hkl), with as many x as the system has free
parameters. All candidates are treated at once.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.errors import check_choice
from vitreous.powder.cell import FORMS, PAIRS, of_metric, quadratic, reciprocal, shown


def _coefficients(row: tuple[float, ...]) -> tuple[float, ...]:
    """What a free number of the reciprocal metric multiplies in 1/d²: of (h², k², l², kl, hl, hk), the first one 1."""
    twice = [factor * (1 if i == j else 2) for factor, (i, j) in zip(row, PAIRS, strict=True)]
    lead = next(factor for factor in twice if factor)
    return tuple(factor / lead for factor in twice)


_BASES = {system: tuple(_coefficients(row) for row in rows) for system, rows in FORMS.items()}
_ZERO = 0.04  # degrees, how large zero shifts usually are
_FOREIGN = 0.05  # share of lines that are not the crystal's, where their intensities are not known
_FAINT = 0.01  # of the strongest line: as likely foreign as not
_COST = 5.0  # of a free parameter, in units of log-likelihood


@dataclass(frozen=True)
class Observed:
    """Lines of a pattern by rising angle: 1/d² (1/Å²), its standard error, its change by a degree of zero shift.

    And the probability that a line is not the crystal's: weak ones often are of something else.
    """

    q: Tensor
    sigma: Tensor
    slope: Tensor
    foreign: Tensor

    def first(self, count: int) -> "Observed":
        """The first lines."""
        return Observed(self.q[:count], self.sigma[:count], self.slope[:count], self.foreign[:count])

    def shifted(self, zero: float) -> "Observed":
        """As they would be seen with the instrument's zero set right: it reads too much by `zero` degrees."""
        return replace(self, q=self.q - zero * self.slope)

    def holding(self, own: float) -> "Observed":
        """The first lines, of which so many are expected to be the crystal's own."""
        return self.first(int((torch.cumsum(1 - self.foreign, 0) < own).sum()) + 1)


def observed(
    two_theta: NDArray[np.floating],
    error: NDArray[np.floating],
    wavelength: float,
    intensity: NDArray[np.floating] | None = None,
) -> Observed:
    """Lines at angles in degrees with standard errors, measured with a wavelength in ångström."""
    angle = torch.as_tensor(np.asarray(two_theta, np.float64))
    half = torch.deg2rad(angle) / 2
    slope = 2 / wavelength**2 * torch.sin(2 * half) * np.pi / 180
    q = 4 * half.sin().square() / wavelength**2
    foreign = torch.full_like(q, _FOREIGN)
    if intensity is not None:
        share = torch.as_tensor(np.asarray(intensity, np.float64) / np.max(intensity))
        foreign = (1 / (1 + (share / _FAINT) ** 1.3)).clamp(min=0.01)
    return Observed(q, slope * torch.as_tensor(np.asarray(error, np.float64)), slope, foreign)


@dataclass(frozen=True)
class Found:
    """Refined candidates, best first.

    Args:
        x: `(K, P)`, reciprocal metrics in the system's basis.
        zero: `(K,)`, degrees.
        merit: `(K,)`, de Wolff's figure of merit over the lines that are explained, lowered for those that are not.
        indexed: `(K,)`, how many lines are explained.
    """

    x: Tensor
    zero: Tensor
    merit: Tensor
    indexed: Tensor


@lru_cache(maxsize=256)
def reflections(system: str, centring: str, most: tuple[int, int, int]) -> Tensor:
    """B of the reflections of a lattice, `(H, P)`, one for each set that coincides, (0, 0, 0) left out."""
    check_choice("system", system, _BASES)
    axes = np.meshgrid(*(np.arange(-m, m + 1) for m in most), indexing="ij")
    hkl = np.stack([axis.ravel() for axis in axes], axis=1)
    hkl = hkl[shown(hkl, centring) & hkl.any(1)]
    products = np.stack([hkl[:, i] * hkl[:, j] for i, j in PAIRS], axis=1)
    values = products @ np.array(_BASES[system]).T
    return torch.as_tensor(np.unique(np.round(values).astype(np.int64), axis=0), dtype=torch.float64)


def basis_of(system: str, cell: Tensor) -> Tensor:
    """The reciprocal metric `(C, P)` of cells `(C, 6)` in a system's basis."""
    return quadratic(reciprocal(cell.double()))[
        :, [next(i for i, on in enumerate(row) if on) for row in _BASES[system]]
    ]


def cell_of(system: str, x: Tensor) -> Tensor:
    """Cells `(C, 6)` in ångström and degrees from reciprocal metrics `(C, P)`; NaN where there is none."""
    six = x @ x.new_tensor(_BASES[system])
    a, b, c, d, e, f = six.unbind(1)
    inverse = torch.stack([a, f / 2, e / 2, f / 2, b, d / 2, e / 2, d / 2, c], dim=1).view(-1, 3, 3)
    good = (torch.linalg.det(inverse) > 1e-12) & (inverse.diagonal(dim1=1, dim2=2) > 0).all(1)
    safe = torch.where(good[:, None, None], inverse, torch.eye(3, dtype=x.dtype))
    metric = torch.linalg.inv(safe)
    return torch.where(
        good[:, None] & (metric.diagonal(dim1=1, dim2=2) > 0).all(1)[:, None], of_metric(metric), torch.nan
    )


@dataclass(frozen=True)
class Map:
    """Where lines were seen, on a grid in 1/d²: a quick score for very many candidates.

    `table` is high at the lines and has mean 0 and variance 1 over calculated lines that are anywhere; its last entry,
    of what is beyond the last line, is 0.
    """

    table: Tensor
    scale: float

    @classmethod
    def of(cls, lines: Observed, tolerance: float = 0.03, bins: int = 8192) -> "Map":
        """With a tolerance in degrees."""
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
        """How many standard deviations more of calculated 1/d² `(C, H)` float32 meet lines than by chance, `(C,)`."""
        beyond = len(self.table) - 1
        place = (q * self.scale).round_().clamp_(0, beyond).to(torch.int32)
        hits = self.table.index_select(0, place.view(-1)).view(place.shape)
        return hits.sum(1) / (place < beyond).sum(1).clamp(min=1).sqrt()


def merit(lines: Observed, basis: Tensor, x: Tensor, zero: Tensor | None = None, tolerance: float = 0.0) -> Found:
    """De Wolff's figure of merit Q_n / (2 <|ΔQ|> N_n) of candidates `(C, P)`, N the lines they allow up to the last.

    With a tolerance in standard errors, lines farther than that from any calculated one are foreign: they are left
    out of the mean, and the merit is lowered as if each missed by half the spacing.
    """
    zero = x.new_zeros(len(x)) if zero is None else zero
    place, q = lines.q - zero[:, None] * lines.slope, _calculated(basis, x)
    ordered = q.sort(dim=1).values
    miss, _ = _nearest(ordered, place)
    last = place[:, -1]
    allowed = (ordered <= last[:, None] * (1 + 1e-9)).sum(1).clamp(min=1)
    floor = 0.25 * lines.sigma  # what is nearer than the error allows is chance
    if tolerance:
        near = miss <= tolerance * lines.sigma
        indexed = near.sum(1)
        spacing = last / allowed / 2
        mean = (torch.where(near, torch.maximum(miss, floor), spacing[:, None] / 2)).mean(1)
    else:
        indexed = torch.full((len(x),), len(lines.q))
        mean = torch.maximum(miss, floor).mean(1)
    return Found(x, zero, last / (2 * mean.clamp(min=1e-12) * allowed), indexed)


def evidence(lines: Observed, basis: Tensor, x: Tensor, zero: Tensor) -> Tensor:
    """How much likelier the lines are if a candidate is right than if it met them by chance, `(C,)`, a logarithm.

    Every free parameter costs what fitting it can gain.
    """
    return gains(lines, basis, x, zero).sum(1) - _COST * x.shape[1] - 0.5 * (zero / _ZERO).square()


def gains(lines: Observed, basis: Tensor, x: Tensor, zero: Tensor) -> Tensor:
    """What each line adds to the evidence of candidates, `(C, n)`.

    By chance, the distance to the nearest calculated line is exponential in the density of such lines, so a cell with
    many lines gains little from each. A line may be foreign.
    """
    ordered = _calculated(basis, x).sort(dim=1).values
    place = lines.q - zero[:, None] * lines.slope
    miss, _ = _nearest(ordered, place)
    last = place[:, -1:]
    allowed = (ordered <= last * (1 + 1e-9)).sum(1, keepdim=True).clamp(min=1)
    density = 1.5 * (allowed / last) * (place / last).clamp(min=0.05).sqrt()
    right = 2 / (lines.sigma * (2 * torch.pi) ** 0.5) * torch.exp(-0.5 * (miss / lines.sigma).square())
    chance = 2 * density * torch.exp(-2 * density * miss)
    return torch.log((1 - lines.foreign) * right / chance.clamp(min=1e-300) + lines.foreign)


def _calculated(basis: Tensor, x: Tensor) -> Tensor:
    """Q of every reflection `(C, H)`; what is not positive is put out of reach."""
    q = x @ basis.T
    return torch.where(q > 0, q, torch.inf)


def _nearest(ordered: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
    """Distance to the nearest calculated line, and its place in the order, `(C, n)`."""
    if ordered.shape[1] < 2:  # a lattice with one line in reach: the next is far away
        ordered = torch.nn.functional.pad(ordered, (0, 1), value=torch.inf)
    above = torch.searchsorted(ordered, place.contiguous()).clamp(1, ordered.shape[1] - 1)
    low, high = ordered.gather(1, above - 1), ordered.gather(1, above)
    lower = (place - low).abs() <= (high - place).abs()
    return torch.where(lower, place - low, high - place).abs(), torch.where(lower, above - 1, above)


def refine(
    lines: Observed,
    basis: Tensor,
    x: Tensor,
    rounds: int = 12,
    start: int = 8,
    zero: Tensor | None = None,
    reach: float = math.inf,
) -> tuple[Tensor, Tensor]:
    """Assign the nearest reflections and solve, again and again, over more and more lines.

    Candidates `(C, P)`, with zero shifts `(C,)` where known, to refined ones and their zero shifts in degrees `(C,)`.
    Lines that stay far off, by several times `reach` (degrees) at least, lose their say; the zero shift is let go when
    half the rounds are done.
    """
    shift, count = x.new_zeros(len(x)) if zero is None else zero, len(lines.q)
    start = min(start, count)
    for turn in range(rounds):
        used = round(start + (count - start) * min(1.0, 1.5 * turn / rounds))
        part = lines.first(used)
        ordered, order = _calculated(basis, x).sort(dim=1)
        miss, at = _nearest(ordered, part.q - shift[:, None] * part.slope)
        scale = torch.minimum(1.5 * miss.median(dim=1, keepdim=True).values, reach * part.slope)
        scale = torch.maximum(scale, part.sigma)
        weight = (1 - part.foreign) / (part.sigma.square() + scale.square()) / (1 + (miss / (3 * scale)) ** 4)
        x, shift = _solve(basis[order.gather(1, at)], part, weight, x, shift, 2 * turn >= rounds)
    return x, shift


def _solve(
    rows: Tensor, lines: Observed, weight: Tensor, x: Tensor, shift: Tensor, free: bool
) -> tuple[Tensor, Tensor]:
    """Weighted least squares of `(C, n, P)` reflections on the lines, held a little to where it was."""
    target = lines.q - shift[:, None] * lines.slope - (rows @ x[:, :, None])[..., 0]  # (C, n), what is left to explain
    if free:
        rows = torch.cat([rows, lines.slope.expand(len(x), -1)[..., None]], dim=2)
    weighted = rows * weight[..., None]
    normal = weighted.mT @ rows
    right = (weighted.mT @ target[..., None])[..., 0]
    hold = 1e-3 * normal.diagonal(dim1=1, dim2=2).mean(1, keepdim=True).expand(-1, rows.shape[2]).clone()
    hold = torch.minimum(hold, 1e-3 * normal.diagonal(dim1=1, dim2=2) + 1e-12)
    if free:
        hold[:, -1] = 1 / _ZERO**2
        right[:, -1] -= shift / _ZERO**2
    change = torch.linalg.solve(normal + torch.diag_embed(hold + 1e-9 * normal.amax((1, 2))[:, None]), right)
    change = torch.where(change.isfinite(), change, 0.0)
    return x + change[:, : x.shape[1]], shift + (change[:, -1] if free else 0.0)
