"""Selling's reduction of reciprocal lattices: four vectors that sum to zero, no two of them at an acute angle.

Six lengths among them describe the lattice. They change steadily with it, and each is 1/d² of a low line, so they are
what a model is asked for. Batches of tensors, on any device.
"""

import torch
from torch import Tensor

NAMES = ("11", "22", "33", "44", "12", "13")
"""Squared lengths of the four vectors, shortest first, and of the sums of the first two and of first and third."""

_PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
_ROUNDS = 40
_TO_QUADRATIC = (  # rows: factors of h², k², l², kl, hl and hk from the six lengths
    (1, 0, 0, 0, 0, 0),
    (0, 1, 0, 0, 0, 0),
    (0, 0, 1, 0, 0, 0),
    (1, 0, 0, 1, -1, -1),
    (-1, 0, -1, 0, 0, 1),
    (-1, -1, 0, 0, 1, 0),
)


def superbase(inverse: Tensor) -> Tensor:
    """The products `(B, 4, 4)` of the four vectors, shortest first, of reciprocal metrics `(B, 3, 3)`."""
    start = inverse.new_tensor([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, -1, -1]])
    gram = start @ inverse @ start.T
    first, second = inverse.new_tensor(_PAIRS, dtype=torch.long).T
    eye = torch.eye(4, dtype=inverse.dtype, device=inverse.device)
    near = 1e-7 * gram.diagonal(dim1=1, dim2=2).amin(1)
    for _ in range(_ROUNDS):
        products = gram[:, first, second]
        worst = products.argmax(1)
        acute = products.gather(1, worst[:, None])[:, 0] > near
        if not bool(acute.any()):
            break
        i, j = eye[first[worst]], eye[second[worst]]  # (B, 4): which vector
        # v_i turns round, v_j stays, and the other two take v_i to themselves.
        change = eye + (1 - j)[:, :, None] * i[:, None, :] - 3 * i[:, :, None] * i[:, None, :]
        gram = torch.where(acute[:, None, None], change @ gram @ change.mT, gram)
    order = gram.diagonal(dim1=1, dim2=2).argsort(1)
    gram = gram.gather(1, order[:, :, None].expand(-1, -1, 4))
    return gram.gather(2, order[:, None, :].expand(-1, 4, -1))


def lengths(inverse: Tensor) -> Tensor:
    """The six squared lengths `(B, 6)` of reciprocal metrics `(B, 3, 3)`, in 1/Å²."""
    gram = superbase(inverse)
    own = gram.diagonal(dim1=1, dim2=2)
    sums = [own[:, 0] + own[:, k] + 2 * gram[:, 0, k] for k in (1, 2)]
    return torch.cat([own, torch.stack(sums, dim=1)], dim=1)


def of_lengths(values: Tensor) -> Tensor:
    """Factors `(B, 6)` of h², k², l², kl, hl and hk in 1/d², from the six squared lengths."""
    return values @ values.new_tensor(_TO_QUADRATIC).T
