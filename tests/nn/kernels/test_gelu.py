"""GELU of half precision beside torch's."""

import torch
import torch.nn.functional as F

from vitreous.nn.kernels.linear import _Gelu, gelu, normal


def test_it_is_gelu_and_so_is_its_gradient() -> None:
    x = torch.linspace(-12, 12, 20_001, requires_grad=True)
    exact = x.detach().double().requires_grad_()
    torch.testing.assert_close(_Gelu.apply(x).double(), F.gelu(exact), atol=1e-6, rtol=0)
    (ours,) = torch.autograd.grad(_Gelu.apply(x).sum(), x)
    (theirs,) = torch.autograd.grad(F.gelu(exact).sum(), exact)
    torch.testing.assert_close(ours.double(), theirs, atol=1e-6, rtol=0)


def test_in_half_precision_it_is_as_near_as_torchs() -> None:
    x = torch.randn(100_000).bfloat16()
    exact = F.gelu(x.double())
    assert (_Gelu.apply(x) - exact).abs().max() <= 1.01 * (F.gelu(x) - exact).abs().max()


def test_the_distribution_is_the_normal_one() -> None:
    x = torch.linspace(-6, 6, 1001)
    below, density = normal(x)
    normal_distribution = torch.distributions.Normal(0.0, 1.0)
    torch.testing.assert_close(below, normal_distribution.cdf(x), atol=1e-6, rtol=0)
    torch.testing.assert_close(density, normal_distribution.log_prob(x).exp(), atol=1e-6, rtol=0)


def test_elsewhere_it_is_torchs_own() -> None:
    x = torch.randn(100)
    assert torch.equal(gelu(x), F.gelu(x))
