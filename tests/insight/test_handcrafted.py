"""What attention can do (S4.5): each construction equals its formula to 1e-4."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.insight.handcrafted import Convolution, association, double_if, kernels_figure, matches_figure


def tokens() -> Tensor:
    """Unit vectors `(4, 12, 16)`."""
    return F.normalize(torch.randn(4, 12, 16), dim=-1)


def same(a: Tensor, b: Tensor) -> Tensor:
    return ((a - b).norm(dim=-1) < 1e-4).float()


def test_association_is_the_sum_of_the_tokens_that_are_u_times_another() -> None:
    turn = torch.linalg.qr(torch.randn(16, 16)).Q
    v = tokens()
    v[0, 3] = turn @ v[0, 0]  # one fits
    v[1, 5] = v[1, 7] = turn @ v[1, 0]  # two fit
    v[2, 4] = turn @ v[2, 9]  # in the other direction nothing does
    fits = same(v[:, None], (v @ turn.T)[:, :, None])  # (B, i, j)
    assert fits.sum((1, 2)).tolist() == [1, 2, 1, 0]
    torch.testing.assert_close(association(turn)(v), fits @ v, atol=1e-4, rtol=0)


def test_double_if_counts_b_where_there_is_a() -> None:
    v = tokens()
    a, b = v[0, 0].clone(), v[0, 1].clone()
    v[1, 2] = a
    v[1, [4, 7, 9]] = b
    v[2, 3] = b  # b alone
    v[3, 3] = a  # a alone
    expected = same(v, a) * same(v, b).sum(1, keepdim=True)
    assert expected.sum(1).tolist() == [1, 3, 0, 0]
    torch.testing.assert_close(double_if(a, b)(v)[..., 0], expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("shape", "taps", "convolve"),
    [((40,), (5,), F.conv1d), ((9, 8), (3, 5), F.conv2d), ((5, 4, 6), (3, 1, 3), F.conv3d)],
)
def test_relative_positions_alone_are_a_convolution(shape, taps, convolve) -> None:  # type: ignore[no-untyped-def]
    kernel, x = torch.randn(4, 3, *taps), torch.randn(2, 3, *shape)
    pad = [side for n in reversed(taps) for side in (n // 2, n // 2)]
    expected = convolve(F.pad(x, pad, mode="replicate"), kernel).flatten(2).mT
    torch.testing.assert_close(Convolution(kernel, shape)(x.flatten(2).mT), expected, atol=1e-4, rtol=0)


def test_shares_are_one_where_tokens_fit_and_else_nothing() -> None:
    turn = torch.linalg.qr(torch.randn(16, 16)).Q
    v = tokens()[:1]
    v[0, 3] = turn @ v[0, 0]
    shares = association(turn).shares(v)[0]
    assert shares[0, 3] == pytest.approx(1, abs=1e-4)
    shares[0, 3] = 0
    assert shares.max() < 1e-4


def test_figures() -> None:
    matches_figure(association(torch.eye(16)), tokens()[0]).draw_without_rendering()
    kernels_figure({"one": torch.rand(3, 5).numpy(), "other": torch.rand(3, 5).numpy()}).draw_without_rendering()
