"""FP8 matrix multiplication: near that of float32, with gradients, in both directions."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import vitreous as vt
from vitreous.core.errors import InputError
from vitreous.nn.kernels.linear import Linear, check_float8, float8_product


def _apart(result: Tensor, wanted: Tensor) -> float:
    return float((result.float() - wanted).norm() / wanted.norm())


@pytest.mark.parametrize(("inputs", "outputs"), [(32, 128), (128, 32), (64, 64)])
def test_a_product_and_its_gradients_are_near_those_of_float32(inputs: int, outputs: int) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 20, inputs, requires_grad=True)
    weight = torch.randn(outputs, inputs, requires_grad=True)
    product, wanted = float8_product(x, weight), F.linear(x, weight)
    assert product.dtype == torch.bfloat16
    assert _apart(product.detach(), wanted.detach()) < 0.05  # three bits after the point, and noise averages out
    slope = torch.randn_like(wanted)
    ours, theirs = (
        torch.autograd.grad(out, (x, weight), slope.to(out.dtype), retain_graph=True) for out in (product, wanted)
    )
    assert all(_apart(a, b) < 0.05 for a, b in zip(ours, theirs, strict=True))


def test_a_row_that_is_a_million_times_smaller_keeps_its_digits() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(2, 32), torch.randn(128, 32)
    x[1] *= 1e-6
    assert _apart(float8_product(x, weight)[1], F.linear(x, weight)[1]) < 0.05


def test_layers_whose_widths_do_not_allow_it_stay_as_they_are() -> None:
    model = vt.create_model("vit_micro_patch2_8", out=10)
    model.set_execution(float8=True)
    layers = [m for m in model.modules() if isinstance(m, Linear)]
    assert [m.float8 for m in layers] == [m.out_features % 16 == 0 for m in layers]
    assert not all(m.float8 for m in layers)  # the head has ten outputs
    model.set_execution(float8=False)
    assert not any(m.float8 for m in layers)


def test_a_cpu_is_told_what_to_use_instead() -> None:
    with pytest.raises(InputError, match=r"float8 needs a GPU.*use float32 instead"):
        check_float8("cpu")


def test_an_older_chip_is_told_what_to_use_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A100")
    with pytest.raises(InputError, match="which A100 has not; use bfloat16 instead"):
        check_float8("cuda")
