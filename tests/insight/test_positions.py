"""What a model knows of places: likeness of positions, the sinusoids of S0.4, the relative bias of S4.1."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import vitreous as vt
from vitreous.core.errors import InputError
from vitreous.data.source import Axis
from vitreous.insight.positions import (
    bias_figure,
    displacement_map,
    grid_verdict,
    position_similarity,
    similarity_figure,
    sinusoidal_figure,
)

LINE = {"input": (1, 60), "patch": (5,), "dim": 16, "depth": 2, "heads": 2}
PLANE = {"input": (1, 24, 20), "patch": (4,), "dim": 16, "depth": 2, "heads": 2}
BOX = {"input": (1, 4, 8, 8), "patch": (4,), "dim": 12, "depth": 1, "heads": 2}


def make(**choices: object) -> vt.ViT:
    return vt.ViT(vt.ViTConfig(**choices))


def test_similarity_is_the_cosine_of_the_patches_embeddings() -> None:
    model = make(**PLANE, registers=2)
    found = position_similarity(model)
    a, b = model.position.table[0, 3], model.position.table[0, 3 + 7]  # class token and registers come first
    assert found.shape == (30, 30)
    assert found[0, 7] == pytest.approx((a @ b / (a.norm() * b.norm())).item(), abs=1e-6)
    np.testing.assert_allclose(np.diag(found), 1)


class Largest(TorchDispatchMode):
    """Numbers in the largest tensor that is made."""

    most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **kwargs or {})
        self.most = max(self.most, out.numel())
        return out


def test_similarity_takes_no_more_memory_than_its_map() -> None:
    model = make(input=(1, 64, 64), patch=(4,), dim=32, depth=1, heads=2)
    with Largest() as largest:
        position_similarity(model)
    assert largest.most == 256 * 256


@pytest.mark.parametrize("choices", [{**LINE, "input": (1, 150)}, PLANE])
def test_sinusoids_show_the_grid_and_random_numbers_do_not(choices: dict[str, object]) -> None:
    for position, words in (("sinusoidal", "show the grid:"), ("learned", "do not show the grid")):
        model = make(**choices, position=position)
        assert words in grid_verdict(position_similarity(model), model.tokenizer.shape)


@pytest.mark.parametrize("shape", [(12,), (4, 4), (2, 3, 3)])
def test_of_few_positions_a_clear_grid_is_seen_and_nothing_is_denied(shape: tuple[int, ...]) -> None:
    places = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
    near = -np.abs(places[:, None] - places[None]).sum(-1)
    assert "positions show the grid:" in grid_verdict(near, shape)
    noise = np.random.default_rng(0).normal(size=near.shape)
    assert "too few to tell" in grid_verdict(noise + noise.T, shape)


@pytest.mark.parametrize("choices", [LINE, PLANE, BOX])
def test_positions_are_drawn_in_one_two_and_three_dimensions(choices: dict[str, object]) -> None:
    similarity_figure(make(**choices), (Axis("energy", "eV", 10.0, 0.5),)).draw_without_rendering()


def test_a_map_of_every_pair_has_the_axis_in_its_unit() -> None:
    (axes, _) = similarity_figure(make(**LINE), (Axis("energy", "eV", 10.0, 0.5),)).axes
    assert axes.get_xlabel() == "energy (eV)"
    assert axes.get_xlim() == (10.0, 40.0)


def test_the_heat_map_of_sinusoids_has_512_positions_of_10_dimensions() -> None:
    table = sinusoidal_figure().axes[0].images[0].get_array()
    assert table.shape == (512, 10)
    assert table[100, 4] == pytest.approx(np.sin(100 / 10000**0.4), abs=1e-5)


def test_a_bias_is_mapped_by_the_way_from_query_to_key() -> None:
    model = make(**PLANE, bias="relative")
    shape = model.tokenizer.shape  # 6 × 5
    found = displacement_map(model.bias.table.detach().numpy(), shape)
    assert found.shape == (2, 2, 11, 9)
    bias = model.bias(1)[0, :, 1:, 1:].detach()  # (heads, N, N), of the patches
    query, key = np.ravel_multi_index((2, 3), shape), np.ravel_multi_index((4, 0), shape)
    np.testing.assert_allclose(found[1, :, 5 + 2, 4 - 3], bias[:, query, key])


@pytest.mark.parametrize("choices", [LINE, PLANE])
def test_biases_are_drawn(choices: dict[str, object]) -> None:
    bias_figure(make(**choices, bias="relative"), layers=[-1]).draw_without_rendering()


def test_panels_are_named_after_their_layers() -> None:
    panels = bias_figure(make(**LINE, bias="relative"), layers=[-1, 0]).axes
    assert [axes.get_title("left") for axes in panels[:2]] == ["layer 0", "layer 1"]


def test_of_a_volume_the_bias_of_keys_in_the_slice_of_the_query_is_drawn() -> None:
    model = make(**{**BOX, "input": (1, 8, 8, 12)}, bias="relative")
    first, second = (np.asarray(axes.images[0].get_array()) for axes in bias_figure(model).axes[:2])
    assert first.shape == (3, 5)
    bias = model.bias(0)[0, :, 1:, 1:].detach().numpy()  # (heads, N, N), of 2 × 2 × 3 patches
    shape = model.tokenizer.shape
    query, key, other = (np.ravel_multi_index(place, shape) for place in ((1, 0, 1), (1, 1, 0), (1, 0, 2)))
    for drawn, head in ((first, 0), (second, 1)):
        expected = bias[head, query, key] - bias[head, query, other]
        assert drawn[1 + 1, 2 - 1] - drawn[1, 2 + 1] == pytest.approx(expected, abs=1e-6)


def test_mistakes_are_one_line() -> None:
    with pytest.raises(InputError, match="found position = 'none', expected a table for patches"):
        position_similarity(make(**LINE, position="none"))
    with pytest.raises(InputError, match="expected a model with bias = 'relative'"):
        bias_figure(make(**LINE))
    with pytest.raises(InputError, match=r"layer 5 does not exist; the model has layers 0 to 1$"):
        bias_figure(make(**LINE, bias="relative"), layers=[5])


def test_the_figure_leaves_the_model_as_it_was() -> None:
    model = make(**LINE, bias="relative")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    bias_figure(model)
    similarity_figure(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
