"""Lattice reduction: Gauss in a plane, Niggli for cells, Selling (Delaunay) for reciprocal lattices.

All functions work on batches of metrics. The columns of a transformation P `(3, 3)` are a new basis,
(a', b', c') = (a, b, c) P, so that a metric becomes Pᵀ G P and a reflection, a row, becomes h P.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_PLANE_ROUNDS = 8
_EQUAL = 1e-9  # relative to V^(2/3): metric elements that differ by less count as equal
_NIGGLI_ROUNDS = 100
_SELLING_ROUNDS = 40
# Squared lengths of the four vectors of a superbase, shortest first, and of the sums 1 + 2 and 1 + 3.
LENGTH_NAMES = ("11", "22", "33", "44", "12", "13")
_PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
_TO_QUADRATIC = (  # rows: factors of h², k², l², kl, hl and hk from the six lengths
    *np.eye(3, 6).tolist(),
    (1, 0, 0, 1, -1, -1),
    (-1, 0, -1, 0, 0, 1),
    (-1, -1, 0, 0, 1, 0),
)


def reduce_plane(a: Tensor, c: Tensor, product: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gauss's reduction of plane lattices from squared lengths of two vectors and their scalar products, each `(B,)`.

    Returns the same three of the shortest two vectors, and these `(B, 2, 2)` as rows of factors of the first ones.
    """
    first, second = a.new_tensor([1.0, 0.0]).expand(len(a), 2), a.new_tensor([0.0, 1.0]).expand(len(a), 2)
    for turn in range(_PLANE_ROUNDS + 1):
        swap = c < a
        a, c = torch.where(swap, c, a), torch.where(swap, a, c)
        first, second = torch.where(swap[:, None], second, first), torch.where(swap[:, None], first, second)
        if turn == _PLANE_ROUNDS:
            break
        times = (product / a).round()
        c, product = c - 2 * times * product + times.square() * a, product - times * a
        second = second - times[:, None] * first
    return a, c, product, torch.stack([first, second], dim=1)


def niggli_reduction(metric: Floats) -> tuple[Floats, Integers]:
    """Niggli-reduced metrics `(B, 3, 3)` and the transformations to them `(B, 3, 3)`, whose determinants are 1.

    The steps of Křivý and Gruber (1976) with the tolerance of Grosse-Kunstleve, Sauter and Adams (2004), for all
    lattices at once; a vector is shortened by several times another in one step.
    """
    metric = metric.copy()
    near = _EQUAL * np.cbrt(np.linalg.det(metric))
    total = np.tile(np.eye(3, dtype=np.int64), (len(metric), 1, 1))
    rows = np.arange(len(metric))
    for _ in range(_NIGGLI_ROUNDS):
        order = _normal_form(metric[rows], near[rows])
        part = order.transpose(0, 2, 1) @ metric[rows] @ order
        step, moved = _shorten(part, near[rows])
        metric[rows] = step.transpose(0, 2, 1) @ part @ step
        total[rows] = total[rows] @ order @ step
        rows = rows[moved]
        if not len(rows):
            break
    return metric, total


def _normal_form(metric: Floats, near: Floats) -> Integers:
    """The transformations `(B, 3, 3)` that sort the axes and make the angles all acute or none acute: steps 1 to 4."""
    axis = np.tile(np.arange(3), (len(metric), 1))  # (B, 3), the axis at each position
    length = metric[:, [0, 1, 2], [0, 1, 2]]
    other = 2 * np.abs(metric[:, [1, 0, 0], [2, 2, 1]])  # |ξ|, |η|, |ζ|, each opposite to its axis
    for i, j in ((0, 1), (1, 2), (0, 1)):
        longer = length[:, i] - length[:, j]
        swap = (longer > near) | ((longer >= -near) & (other[:, i] > other[:, j] + near))
        for column in (axis, length, other):
            column[:, [i, j]] = np.where(swap[:, None], column[:, [j, i]], column[:, [i, j]])
    product = np.take_along_axis(metric[:, [1, 0, 0], [2, 2, 1]], axis, axis=1)  # still with their signs
    above, below = 2 * product > near[:, None], 2 * product < -near[:, None]
    acute = (above | below).all(1) & (below.sum(1) % 2 == 0)
    sign = np.where(np.where(acute[:, None], below, above), -1, 1)
    odd = np.flatnonzero(sign.prod(1) < 0)  # some product is zero then, and its axis may take any sign
    sign[odd, np.abs(product[odd]).argmin(1)] *= -1
    sign *= np.where((axis[:, 1] - axis[:, 0]) % 3 == 2, -1, 1)[:, None]  # odd permutations
    matrix = np.zeros((len(metric), 3, 3), dtype=np.int64)
    matrix[np.arange(len(metric))[:, None], axis, np.arange(3)] = sign
    return matrix


def _shorten(metric: Floats, near: Floats) -> tuple[Integers, NDArray[np.bool_]]:
    """The first of the steps 5 to 8 that applies, as transformations `(B, 3, 3)`, and whether any does `(B,)`."""
    a, b = metric[:, 0, 0], metric[:, 1, 1]
    xi, eta, zeta = 2 * metric[:, 1, 2], 2 * metric[:, 0, 2], 2 * metric[:, 0, 1]
    step = np.tile(np.eye(3, dtype=np.int64), (len(metric), 1, 1))
    moved = np.zeros(len(metric), dtype=np.bool_)
    for to, by, product, square, first, second in (  # vector `to` becomes shorter by vector `by`
        (2, 1, xi, b, eta, zeta), (2, 0, eta, a, xi, zeta), (1, 0, zeta, a, xi, eta)
    ):  # fmt: skip
        does = np.abs(product) > square + near
        does |= (product >= square - near) & (2 * first < second - near)
        does |= (product <= near - square) & (second < -near)
        times = np.copysign(np.maximum(1, np.rint(np.abs(product) / (2 * square))), product)
        step[:, by, to] = np.where(does & ~moved, -times, 0)
        moved |= does
    total = xi + eta + zeta + a + b
    does = ((total < -near) | ((total <= near) & (2 * (a + eta) + zeta > near))) & ~moved
    step[does, 0, 2] = step[does, 1, 2] = 1
    return step, moved | does


def is_niggli_reduced(cell: Tensor, slack: float = 1e-5) -> Tensor:
    """Whether cells `(B, 6)` are Niggli-reduced `(B,)`; boundary cases within `slack` count as reduced."""
    a, b, c = cell[:, 0], cell[:, 1], cell[:, 2]
    cosines = torch.deg2rad(cell[:, 3:]).cos()
    xi, eta, zeta = b * c * cosines[:, 0], a * c * cosines[:, 1], a * b * cosines[:, 2]
    near = slack * a * a
    sorted_ = (a <= b + near) & (b <= c + near)
    short = (2 * xi.abs() <= b * b + near) & (2 * eta.abs() <= a * a + near) & (2 * zeta.abs() <= a * a + near)
    acute = (cosines > 0).all(1)
    obtuse = (cosines <= slack).all(1) & (2 * (xi + eta + zeta).abs() <= a * a + b * b + near)
    return sorted_ & short & (acute | obtuse)


def selling_superbase(inverse: Tensor) -> Tensor:
    """Selling's reduction of reciprocal metrics `(B, 3, 3)`, on any device.

    Returns the scalar products `(B, 4, 4)` of four vectors that sum to zero, no two at an acute angle, shortest first.
    """
    start = inverse.new_tensor([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, -1, -1]])
    gram = start @ inverse @ start.T
    first, second = inverse.new_tensor(_PAIRS, dtype=torch.long).T
    eye = torch.eye(4, dtype=inverse.dtype, device=inverse.device)
    near = 1e-7 * gram.diagonal(dim1=1, dim2=2).amin(1)
    for _ in range(_SELLING_ROUNDS):
        products = gram[:, first, second]
        worst = products.argmax(1)
        acute = products.gather(1, worst[:, None])[:, 0] > near
        if not bool(acute.any()):
            break
        i, j = eye[first[worst]], eye[second[worst]]  # (B, 4), one-hot
        # v_i changes its sign, v_j stays, and v_i is added to the other two.
        change = eye + (1 - j)[:, :, None] * i[:, None, :] - 3 * i[:, :, None] * i[:, None, :]
        gram = torch.where(acute[:, None, None], change @ gram @ change.mT, gram)
    order = gram.diagonal(dim1=1, dim2=2).argsort(1)
    gram = gram.gather(1, order[:, :, None].expand(-1, -1, 4))
    return gram.gather(2, order[:, None, :].expand(-1, 4, -1))


def superbase_lengths(inverse: Tensor) -> Tensor:
    """The six squared lengths `(B, 6)`, see `LENGTH_NAMES`, of reciprocal metrics `(B, 3, 3)`, in 1/Å².

    They determine the lattice and change continuously with it, and each is 1/d² of a low line.
    """
    gram = selling_superbase(inverse)
    own = gram.diagonal(dim1=1, dim2=2)
    sums = [own[:, 0] + own[:, k] + 2 * gram[:, 0, k] for k in (1, 2)]
    return torch.cat([own, torch.stack(sums, dim=1)], dim=1)


def quadratic_from_lengths(lengths: Tensor) -> Tensor:
    """Factors `(B, 6)` of h², k², l², kl, hl and hk in 1/d², from the six squared lengths of a superbase."""
    return lengths @ lengths.new_tensor(_TO_QUADRATIC).T
