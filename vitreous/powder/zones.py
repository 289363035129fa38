"""Triclinic trial cells by Ito's zones: three lines for a*, b* and c*, and other lines for the angles between them.

1/d² of h and k in the plane of two reciprocal vectors is h²A + k²B + hkR. A third line, taken for the sum or the
difference of the two vectors, gives |R|. All choices from the first lines are tried; a choice with a missing or a
foreign line fails, but a lattice has many bases.
"""

import itertools
import math

import torch
from torch import Tensor

from vitreous.powder.merit import LineMap
from vitreous.powder.observed_lines import ObservedLines
from vitreous.powder.tuning import SEARCH_TUNING, SearchTuning

_CHUNK = 16_384


def _half(most: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Indices up to `most`, one of each h and -h."""
    return [h for h in itertools.product(*(range(-m, m + 1) for m in most)) if h > (0,) * len(most)]


_PLANE = torch.tensor([(h * h, k * k, h * k) for h, k in _half((3, 2)) if h and k and math.gcd(h, k) == 1]).float()
_SPACE = torch.tensor([(h * h, k * k, m * m, k * m, h * m, h * k) for h, k, m in _half((3, 2, 1))]).float()


def zone_cells(
    lines: ObservedLines, zero: float, most: int, angles: int, tuning: SearchTuning = SEARCH_TUNING
) -> tuple[Tensor, Tensor]:
    """The best reciprocal metrics `(C, 6)` for a zero shift of `zero` degrees, and their scores `(C,)`.

    `angles` is the number of angles tried for each pair of lines.
    """
    lines = lines.without_zero_shift(zero)
    line_map = LineMap.from_lines(lines)
    q = lines.q[1 - lines.foreign >= tuning.least_own].float()
    used = min(tuning.zone_last, len(q))
    if used < 3:
        return q.new_zeros(0, 6), q.new_zeros(0)
    products, valid = _angle_products(q, used, angles, line_map)  # (pairs, angles)
    number = torch.zeros(used, used, dtype=torch.long)
    number[tuple(torch.combinations(torch.arange(used), 2).T)] = torch.arange(len(products))
    triples = torch.combinations(torch.arange(used), 3)
    triples = triples[(triples[:, 2] < tuning.zone_first) | (triples[:, 1] < tuning.zone_lowest)]
    ab, ac, bc = (number[triples[:, i], triples[:, j]] for i, j in ((0, 1), (0, 2), (1, 2)))
    good = valid[ab][:, :, None, None] & valid[ac][:, None, :, None] & valid[bc][:, None, None, :]
    t, i, j, k = good.nonzero(as_tuple=True)
    abc = q[triples[t]]
    x = torch.cat([abc, torch.stack([products[bc[t], k], products[ac[t], j], products[ab[t], i]], dim=1)], dim=1)
    x = torch.cat([x, x * x.new_tensor([1, 1, 1, -1, 1, 1])])  # axes can be reversed so that only one sign matters
    x = x[_plausible(x, lines, tuning.zone_lines_per_observed)]
    if not len(x):
        return x, x.new_zeros(0)
    scores = torch.cat([line_map.score(part @ _SPACE.T) for part in x.split(_CHUNK)])
    best = scores.topk(min(most, len(x)))
    return x[best.indices], best.values


def _angle_products(q: Tensor, used: int, count: int, line_map: LineMap) -> tuple[Tensor, Tensor]:
    """The best |R| for each pair of the first lines, `(pairs, angles)`, and whether each is possible."""
    i, j = torch.combinations(torch.arange(used), 2).T
    a, b = q[i, None], q[j, None]
    r = (q - a - b).abs()  # (pairs, lines)
    plane = torch.stack([a.expand_as(r), b.expand_as(r), r], dim=2) @ _PLANE.T
    possible = r < 0.98 * 2 * (a * b).sqrt()
    pair = torch.arange(len(i))
    possible[pair, i] = possible[pair, j] = False
    scores = torch.where(possible, line_map.score(plane.flatten(0, 1)).view(r.shape), -torch.inf)
    best = scores.topk(min(count, len(q)), dim=1)
    return r.gather(1, best.indices), best.values.isfinite()


def _plausible(x: Tensor, lines: ObservedLines, per_observed: tuple[float, float]) -> Tensor:
    """Whether reciprocal metrics are valid and have a plausible number of lines."""
    a, b, c, d, e, f = x.unbind(1)
    squared = a * b * c + (d * e * f - a * d * d - b * e * e - c * f * f) / 4  # of the reciprocal volume
    possible = 2 * math.pi / 3 * float(lines.q[-1]) ** 1.5 / squared.clamp(min=1e-12).sqrt()
    share = possible / float((1 - lines.foreign).sum())
    good: Tensor = (squared > 0) & (share > per_observed[0]) & (share < per_observed[1])
    return good
