"""Tokenizers: patches are a strided convolution, padding is missing data, coordinates are in the input's units."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.nn import PatchTokenizer, SetTokenizer, ViTConfig
from vitreous.nn.tokens import token_grid

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
GRIDS = [
    ((40,), (10,), (10,)),
    ((40,), (10,), (5,)),
    ((47,), (10,), (4,)),
    ((12, 8), (4, 2), (4, 2)),
    ((13, 9), (4, 4), (3, 2)),
    ((6, 6, 8), (2, 3, 4), (2, 3, 4)),
    ((7, 5, 5), (2, 2, 2), (2, 2, 1)),
]


def patches(
    grid: tuple[int, ...], channels: int, patch: tuple[int, ...], stride: tuple[int, ...], **settings: Any
) -> PatchTokenizer:
    return PatchTokenizer(ViTConfig(input=(channels, *grid), patch=patch, stride=stride, heads=1, **settings))


@pytest.mark.parametrize(("grid", "patch", "stride"), GRIDS)
@pytest.mark.parametrize("channels", [1, 5])
def test_patches_equal_a_convolution_over_the_padded_grid(
    grid: tuple[int, ...], patch: tuple[int, ...], stride: tuple[int, ...], channels: int
) -> None:
    tokenizer = patches(grid, channels, patch, stride, dim=6)
    x = torch.randn(2, channels, *grid)
    pad = [(n - 1) * s + p - g for n, s, p, g in zip(tokenizer.shape, stride, patch, grid, strict=True)]
    padded = F.pad(x, [side for m in reversed(pad) for side in (0, m)])
    weight = tokenizer.project.weight.reshape(tokenizer.kernel)
    wanted = CONV[len(grid)](padded, weight, tokenizer.project.bias, stride=stride).flatten(2).mT
    values, mask, coords = tokenizer(x)
    torch.testing.assert_close(values, wanted, atol=1e-5, rtol=1e-5)
    assert mask is None
    assert coords.shape == (math.prod(tokenizer.shape), len(grid))


@pytest.mark.parametrize(("patch", "stride"), [(p, s) for p in range(1, 9) for s in range(1, p + 1)])
def test_patches_cover_every_sample_and_each_holds_one(patch: int, stride: int) -> None:
    for grid in range(patch, 30):
        (count,) = token_grid((grid,), (patch,), (stride,))
        starts = [i * stride for i in range(count)]
        assert set(range(grid)) <= {s + j for s in starts for j in range(patch)}
        assert starts[-1] < grid
        assert count == 1 or starts[-2] + patch < grid  # and there is none too many


def test_number_of_patches_is_that_of_the_sources() -> None:
    assert token_grid((4500,), (10,), (10,)) == (450,)  # S0.2
    assert math.prod(token_grid((224, 224), (16, 16), (16, 16))) == 224 * 224 // 16**2  # S3.2


def test_missing_samples_do_not_matter_and_tokens_without_data_are_masked() -> None:
    tokenizer = patches((23,), 2, (5,), (5,), dim=4)
    mask = torch.ones(1, 23, dtype=torch.bool)
    mask[0, 5:10] = False  # the whole second patch
    mask[0, 12] = False  # one sample of the third
    mask[0, 20:] = False  # all real samples of the last, padded patch
    x = torch.randn(1, 2, 23)
    spoilt = x.masked_fill(~mask.unsqueeze(1), float("nan"))
    values, token_mask, _ = tokenizer(x, mask)
    assert token_mask is not None
    assert token_mask.tolist() == [[True, False, True, True, False]]
    assert torch.equal(tokenizer(spoilt, mask).values, values)


def test_coordinates_are_patch_centres_in_the_inputs_units() -> None:
    tokenizer = patches((4500,), 1, (10,), (10,), dim=4, origin=(5.0,), spacing=(0.02,))
    coords = tokenizer(torch.zeros(1, 1, 4500)).coords
    axis = 5.0 + 0.02 * torch.arange(4500.0)  # e.g. degrees two theta
    torch.testing.assert_close(coords[:, 0].float(), axis.reshape(450, 10).mean(1))


def test_coordinates_are_exact_where_the_origin_is_large() -> None:
    tokenizer = patches((1000,), 1, (10,), (10,), dim=4, origin=(2459000.5,), spacing=(0.001,))  # Julian date
    apart = tokenizer.coords()[:, 0].diff()
    torch.testing.assert_close(apart, torch.full_like(apart, 0.01), atol=1e-8, rtol=0)


def test_coordinates_of_an_image_run_along_both_axes() -> None:
    coords = patches((4, 6), 1, (2, 2), (2, 2), dim=4).coords()
    assert coords.tolist() == [[0.5, 0.5], [0.5, 2.5], [0.5, 4.5], [2.5, 0.5], [2.5, 2.5], [2.5, 4.5]]


def test_coordinates_survive_half_precision() -> None:
    tokenizer = patches((4500,), 1, (10,), (10,), dim=4).to(torch.bfloat16)
    assert tokenizer(torch.zeros(1, 1, 4500, dtype=torch.bfloat16)).coords[-1].item() == 4494.5


def test_a_stem_keeps_the_number_of_tokens() -> None:
    plain = patches((50, 30), 3, (8, 8), (8, 8), dim=6)
    stemmed = patches((50, 30), 3, (8, 8), (8, 8), dim=6, stem=(4, 5, 6))
    x = torch.randn(2, 3, 50, 30)
    assert plain(x).values.shape == stemmed(x).values.shape == (2, 28, 6)


def test_layer_norm_after_the_embedding() -> None:
    values = patches((40,), 1, (10,), (10,), dim=64, embed_norm=True)(torch.randn(2, 1, 40)).values  # S4.4
    torch.testing.assert_close(values.mean(-1), torch.zeros(2, 4), atol=1e-5, rtol=0)
    torch.testing.assert_close(values.var(-1, correction=0), torch.ones(2, 4), atol=1e-3, rtol=0)


def test_a_set_takes_any_number_up_to_its_maximum() -> None:
    tokenizer = SetTokenizer(ViTConfig(input=(3, 10), tokens="set", axes=2, dim=6))
    for count in (0, 1, 7, 10):
        values, mask, coords = tokenizer(torch.randn(2, 3, count), coords=torch.randn(2, count, 2))
        assert values.shape == (2, count, 6)
        assert coords.shape == (2, count, 2)
        assert mask is None


def test_elements_that_are_not_there_do_not_matter() -> None:
    tokenizer = SetTokenizer(ViTConfig(input=(3, 10), tokens="set", axes=2, dim=6))
    x, coords, mask = torch.randn(2, 3, 8), torch.randn(2, 8, 2), torch.rand(2, 8) > 0.4
    clean = tokenizer(x, mask, coords)
    spoilt = tokenizer(
        x.masked_fill(~mask.unsqueeze(1), float("nan")), mask, coords.masked_fill(~mask.unsqueeze(2), float("nan"))
    )
    assert torch.equal(clean.values, spoilt.values)
    assert torch.equal(clean.coords, spoilt.coords)


def line(**given: Tensor) -> None:
    patches((40,), 2, (10,), (10,), dim=4)(**given)


def bag(**given: Tensor) -> None:
    SetTokenizer(ViTConfig(input=(3, 10), tokens="set", axes=2, dim=6))(**given)


@pytest.mark.parametrize(
    ("call", "given", "message"),
    [
        (line, {"x": torch.zeros(2, 40)}, r"found a batch of shape \(2, 40\), expected \(batch, 2, 40\)"),
        (line, {"x": torch.zeros(1, 3, 40)}, r"found a batch of shape \(1, 3, 40\), expected \(batch, 2, 40\)"),
        (line, {"x": torch.zeros(1, 2, 41)}, r"found a batch of shape \(1, 2, 41\), expected \(batch, 2, 40\)"),
        (
            line,
            {"x": torch.zeros(1, 2, 40, dtype=torch.uint8)},
            r"found torch.uint8, expected torch.float32 like the model",
        ),
        (line, {"x": torch.zeros(1, 2, 40).double()}, r"found torch.float64, expected torch.float32 like the model"),
        (line, {"x": np.zeros((1, 2, 40))}, r"found numpy.ndarray, expected a torch.Tensor"),
        (line, {"x": torch.zeros(1, 2, 40), "mask": torch.ones(1, 40)}, r"mask: found torch.float32"),
        (line, {"x": torch.zeros(1, 2, 40), "coords": torch.ones(1, 4, 1)}, r"coords: a grid has its own"),
        (bag, {"x": torch.zeros(1, 3, 11), "coords": torch.zeros(1, 11, 2)}, r"expected \(batch, 3, at most 10\)"),
        (bag, {"x": torch.zeros(1, 3, 4)}, r"coords: found none, expected shape \(1, 4, 2\)"),
        (bag, {"x": torch.zeros(1, 3, 4), "coords": torch.zeros(1, 4, 3)}, r"coords: found shape \(1, 4, 3\)"),
    ],
)
def test_a_wrong_batch_is_told_in_one_line(call: object, given: dict[str, Tensor], message: str) -> None:
    with pytest.raises(InputError, match=message) as fault:
        call(**given)  # type: ignore[operator]
    assert "\n" not in str(fault.value)
