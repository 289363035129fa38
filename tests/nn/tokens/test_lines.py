"""Line tokens: a list of lines in, absent ones masked, whatever stands in their place."""

from typing import Any

import pytest
import torch
from torch import Tensor

import vitreous as vt
from vitreous.core.errors import InputError
from vitreous.nn import ViTConfig
from vitreous.nn.tokens.lines import LineTokenizer


def model(**settings: Any) -> vt.ViT:
    config: dict[str, Any] = {
        "input": (3, 12), "tokens": "lines", "position": "none", "dim": 16, "depth": 2, "heads": 2, "out": 3, **settings
    }  # fmt: skip
    return vt.ViT(ViTConfig(**config)).eval()


def lists(count: int = 8) -> Tensor:
    """Two lists of 12 lines, the second ending early."""
    places = torch.linspace(0.2, 1.1, 12) + 0.02 * torch.randn(2, 12)
    x = torch.cat([places[:, None], torch.randn(2, 2, 12)], dim=1)
    x[1, :, count:] = 0
    return x


def test_absent_lines_are_masked_and_not_looked_at() -> None:
    x = lists()
    tokens = LineTokenizer(model().config)(x)
    assert tokens.mask is not None
    assert tokens.mask.sum(1).tolist() == [12, 8]
    assert torch.equal(tokens.coords[..., 0], x[:, 0])
    other = x.clone()
    other[1, 1:, 8:] = 99.0
    vit = model()
    assert torch.equal(vit(other), vit(x))


def test_the_order_of_lines_does_not_matter() -> None:
    vit, x = model(), lists()
    torch.testing.assert_close(vit(x[:, :, torch.randperm(12)]), vit(x), atol=1e-5, rtol=0)


def test_a_place_matters_in_its_fourth_digit() -> None:
    x = lists()
    moved = x.clone()
    moved[0, 0, 5] += 1e-3
    tokenizer = LineTokenizer(model().config)
    apart = (tokenizer(moved).values - tokenizer(x).values).abs().amax(-1)
    assert apart[0, 5] > 0.05
    assert apart.sum() == apart[0, 5]


def test_autocast_keeps_the_places() -> None:
    x, tokenizer = lists(), LineTokenizer(model().config)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(tokenizer(x).values.float(), tokenizer(x).values.float())
        assert torch.equal(tokenizer(x).coords[..., 0], x[:, 0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"input": (3, 4, 5)}, "a list expects"),
        ({"position": "learned"}, "lines contain their position"),
        ({"patch": (2,)}, "tokens = 'lines' does not have this setting"),
        ({"spacing": (0.1,)}, "tokens = 'lines' does not have this setting"),
        ({"pool": "flatten"}, "needs a fixed order"),
    ],
)
def test_what_lists_do_not_have_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        model(**settings)


def test_batches_of_another_shape_are_refused() -> None:
    with pytest.raises(InputError, match=r"expected \(batch, 3, 12\)"):
        model()(torch.zeros(2, 3, 11))
    with pytest.raises(InputError, match="contains its own"):
        model()(lists(), mask=torch.ones(2, 12, dtype=torch.bool))
