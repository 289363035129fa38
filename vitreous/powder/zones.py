"""Triclinic cells by Ito's zones: three lines for a*, b* and c*, and others for the angles between them.

1/d² of h and k in the plane of two reciprocal vectors is h²A + k²B + hkR, so that a third line, taken for the sum or
the difference of the two vectors, gives |R|. All choices from the first lines are tried: one that misses a line or
takes a foreign one is wrong, but a lattice has many bases.
"""

import itertools
import math

import torch
from torch import Tensor

from vitreous.powder.search import Map, Observed

_FIRST, _LAST = 10, 20  # lines tried as a*, b* and c*, and as the last of them with two of the
_LOWEST = 6  # lines: where one axis is short, the first lines are all of one plane
_OWN = 0.6  # probability of being the crystal's that such lines have at least
_SHARE = (0.5, 6.0)  # lines that a cell may have for one that was seen
_CHUNK = 16_384


def _half(most: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Indices up to `most`, of h and -h one."""
    return [h for h in itertools.product(*(range(-m, m + 1) for m in most)) if h > (0,) * len(most)]


_PLANE = torch.tensor([(h * h, k * k, h * k) for h, k in _half((3, 2)) if h and k and math.gcd(h, k) == 1]).float()
_SPACE = torch.tensor([(h * h, k * k, m * m, k * m, h * m, h * k) for h, k, m in _half((3, 2, 1))]).float()


def zones(lines: Observed, zero: float, keep: int, angles: int) -> tuple[Tensor, Tensor]:
    """The best reciprocal metrics `(C, 6)` if the zero shift is `zero` degrees, and their scores `(C,)`.

    So many angles are tried for a pair of lines.
    """
    lines = lines.shifted(zero)
    seen = Map.of(lines)
    q = lines.q[1 - lines.foreign >= _OWN].float()
    used = min(_LAST, len(q))
    if used < 3:
        return q.new_zeros(0, 6), q.new_zeros(0)
    products, known = _angles(q, used, angles, seen)  # (pairs, angles)
    number = torch.zeros(used, used, dtype=torch.long)
    number[tuple(torch.combinations(torch.arange(used), 2).T)] = torch.arange(len(products))
    triples = torch.combinations(torch.arange(used), 3)
    triples = triples[(triples[:, 2] < _FIRST) | (triples[:, 1] < _LOWEST)]
    ab, ac, bc = (number[triples[:, i], triples[:, j]] for i, j in ((0, 1), (0, 2), (1, 2)))
    good = known[ab][:, :, None, None] & known[ac][:, None, :, None] & known[bc][:, None, None, :]
    t, i, j, k = good.nonzero(as_tuple=True)
    abc = q[triples[t]]
    x = torch.cat([abc, torch.stack([products[bc[t], k], products[ac[t], j], products[ab[t], i]], dim=1)], dim=1)
    x = torch.cat([x, x * x.new_tensor([1, 1, 1, -1, 1, 1])])  # axes can be turned so that only one sign matters
    x = x[_plausible(x, lines)]
    if not len(x):
        return x, x.new_zeros(0)
    scores = torch.cat([seen.score(part @ _SPACE.T) for part in x.split(_CHUNK)])
    best = scores.topk(min(keep, len(x)))
    return x[best.indices], best.values


def _angles(q: Tensor, used: int, count: int, seen: Map) -> tuple[Tensor, Tensor]:
    """For each pair of the first lines the likeliest |R|, `(pairs, angles)`, and whether they are possible."""
    i, j = torch.combinations(torch.arange(used), 2).T
    a, b = q[i, None], q[j, None]
    r = (q - a - b).abs()  # (pairs, lines)
    plane = torch.stack([a.expand_as(r), b.expand_as(r), r], dim=2) @ _PLANE.T
    possible = r < 0.98 * 2 * (a * b).sqrt()
    pair = torch.arange(len(i))
    possible[pair, i] = possible[pair, j] = False
    scores = torch.where(possible, seen.score(plane.flatten(0, 1)).view(r.shape), -torch.inf)
    best = scores.topk(min(count, len(q)), dim=1)
    return r.gather(1, best.indices), best.values.isfinite()


def _plausible(x: Tensor, lines: Observed) -> Tensor:
    """Whether reciprocal metrics are such, and have about as many lines as were seen."""
    a, b, c, d, e, f = x.unbind(1)
    squared = a * b * c + (d * e * f - a * d * d - b * e * e - c * f * f) / 4  # reciprocal volume
    possible = 2 * math.pi / 3 * float(lines.q[-1]) ** 1.5 / squared.clamp(min=1e-12).sqrt()
    share = possible / float((1 - lines.foreign).sum())
    good: Tensor = (squared > 0) & (share > _SHARE[0]) & (share < _SHARE[1])
    return good
