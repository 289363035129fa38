"""Where a transformer looks: rollout, distance and entropy by hand, maps of every input, and what they cost."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import vitreous as vt
from tests.insight.predictors import KINDS, VITS, predictor, sample
from vitreous.core.errors import InputError
from vitreous.insight.attention import (
    HeadMeasure,
    attention_distance,
    attention_entropy,
    attention_maps,
    head_measures,
    heads_figure,
    maps_figure,
    pairwise_distances,
    rollout,
    rollout_map,
)
from vitreous.insight.regions import draw_rows, model_input, patch_boxes, spread_to_grid, values_per_cell
from vitreous.nn.record import Reduced


def test_rollout_of_two_layers_by_hand() -> None:
    # Layer 1: token 0 looks at token 1 and token 1 at itself. Layer 2: both look at token 0, by two heads.
    first = torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]]])
    second = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]]])
    # (A + 1) / 2: [[½, ½], [0, 1]], then [[1, 0], [½, ½]]; their product, the second on the left:
    expected = torch.tensor([[[0.5, 0.5], [0.25, 0.75]]])
    torch.testing.assert_close(rollout([first, second]), expected)


def test_rollout_of_heads_that_look_nowhere_else_is_the_identity() -> None:
    still = torch.eye(5).expand(3, 4, 5, 5)
    torch.testing.assert_close(rollout([still] * 6), torch.eye(5).expand(3, 5, 5))


def test_rollout_needs_layers() -> None:
    with pytest.raises(InputError, match="found no layers"):
        rollout([])


def test_distance_by_hand() -> None:
    coords = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]])
    weights = torch.zeros(1, 2, 3, 3)
    weights[0, 0] = torch.eye(3)  # looks at itself
    weights[0, 1] = torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0]])  # 5; (5 + 3) / 2; 0
    torch.testing.assert_close(attention_distance(weights, pairwise_distances(coords)), torch.tensor([[0.0, 3.0]]))


def test_distance_leaves_out_prefix_and_absent_tokens() -> None:
    coords = torch.tensor([[[0.0], [2.0], [100.0]]])
    weights = torch.full((1, 1, 4, 4), 0.25)
    weights[..., 3] = 0  # the absent token, which nobody looks at
    mask = torch.tensor([[True, True, False]])
    distance = attention_distance(weights[..., 1:, 1:], pairwise_distances(coords), mask)
    torch.testing.assert_close(distance, torch.tensor([[1.0]]))


def test_distance_is_exact_for_places_far_from_the_origin() -> None:
    days = 2_460_000.5 + torch.tensor([[0.0], [0.1]], dtype=torch.float64)  # Julian dates
    weights = torch.tensor([[[[0.0, 1.0], [1.0, 0.0]]]])
    torch.testing.assert_close(attention_distance(weights, pairwise_distances(days)), torch.tensor([[0.1]]))


def test_entropy_is_zero_for_one_token_and_log_n_for_all() -> None:
    weights = torch.stack([torch.eye(4), torch.full((4, 4), 0.25)]).unsqueeze(0)
    torch.testing.assert_close(attention_entropy(weights), torch.tensor([[0.0, math.log(4)]]))


@pytest.mark.parametrize("kind", VITS)
def test_recorded_weights_sum_to_one_and_reproduce_the_fast_output(kind: str) -> None:
    found = predictor(kind)
    x = model_input(found, sample(kind)[None])
    with torch.no_grad():
        fast = found.model(x)
        with vt.record(found.model) as seen:
            slow = found.model(x)
        with vt.record(found.model, layers=-1, reduce=lambda weights: weights.mean(1)) as reduced:
            beside = found.model(x)
    torch.testing.assert_close(slow, fast, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(beside, fast, atol=1e-6, rtol=1e-6)
    for weights in seen.attention.values():
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    assert list(reduced.attention) == [1]
    torch.testing.assert_close(reduced.attention[1], seen.attention[1].mean(1))


@pytest.mark.parametrize("score", vt.nn.SCORES)
def test_weights_are_reduced_in_parts_as_they_are_at_once(score: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vt.nn.Attention, "weights_at_once", 150)
    attention = vt.nn.Attention(8, 2, score, keys=6)
    x, bias = torch.randn(5, 6, 8), torch.randn(5, 2, 6, 6)
    mask = torch.rand(5, 1, 1, 6) > 0.3
    whole: dict[str, torch.Tensor] = {}
    attention(x, mask=mask, bias=bias, sink=whole)
    parts = Reduced(lambda weights: weights.amax(1))
    attention(x, mask=mask, bias=bias, sink=parts)
    torch.testing.assert_close(parts["weights"], whole["weights"].amax(1))


@pytest.mark.parametrize("kind", VITS)
def test_maps_are_shares_of_attention(kind: str) -> None:
    found = predictor(kind)
    model, x = found.model, model_input(found, sample(kind)[None])
    maps, reached = attention_maps(model, x), rollout_map(model, x)
    units = model.tokenizer.most
    assert maps.shape == (1, 2, 2, units)
    assert reached.shape == (1, units)
    assert maps.min() >= 0
    if not model.config.prefix:  # else the class token and registers keep the rest
        np.testing.assert_allclose(maps.sum(-1), 1, rtol=1e-5)
        np.testing.assert_allclose(reached.sum(-1), 1, rtol=1e-5)


def test_the_map_of_a_class_token_is_its_row() -> None:
    found = predictor("picture")
    x = model_input(found, sample("picture")[None])
    with torch.no_grad(), vt.record(found.model, layers=0) as seen:
        found.model(x)
    np.testing.assert_allclose(attention_maps(found.model, x, 0)[0, 0], seen.attention[0][0, :, 0, 2:], atol=1e-7)


def test_values_of_patches_go_to_their_samples_and_back() -> None:
    config, _ = KINDS["spectrum"]
    units, values = patch_boxes(config), np.arange(10.0)
    assert units is not None
    spread_out = spread_to_grid(values, units, (47,))
    np.testing.assert_array_equal(spread_out, np.repeat(values, 5)[:47])
    np.testing.assert_array_equal(values_per_cell(spread_out, config), values * ([5] * 9 + [2]))
    np.testing.assert_array_equal(values_per_cell(values, config), values)


def test_patches_that_overlap_share_their_values_among_the_cells_between_them() -> None:
    config, _ = KINDS["overlapping"]  # 9 patches of 8 samples, every 4
    values = np.arange(9.0)
    np.testing.assert_allclose(values_per_cell(values, config), [0, *(np.arange(8) + 0.5), 8])


def test_distances_are_in_samples_and_in_the_unit_of_the_axis() -> None:
    found = predictor("spectrum")  # 2 nm a sample
    grid, physical, spread_of = head_measures(found, sample("spectrum")[None])
    assert (grid.label, physical.label) == ("attention distance (samples)", "attention distance (nm)")
    np.testing.assert_allclose(physical.values, 2 * grid.values, rtol=1e-6)
    apart = 5 * np.abs(np.arange(10)[:, None] - np.arange(10)).mean()  # of patches 5 samples wide
    assert grid.uniform == pytest.approx(apart, rel=1e-5)
    assert spread_of.uniform == pytest.approx(np.log(11), rel=1e-5)
    assert spread_of.values.shape == (2, 2)
    assert (spread_of.values <= spread_of.uniform).all()


def test_distances_on_a_periodic_grid_are_the_shorter_way_round() -> None:
    grid, physical, _ = head_measures(predictor("spectrum"), sample("spectrum")[None], periodic=True)
    np.testing.assert_allclose(physical.values, 2 * grid.values, rtol=1e-6)
    steps = 5 * np.abs(np.arange(10)[:, None] - np.arange(10))  # of patches 5 samples wide
    assert grid.uniform == pytest.approx(np.minimum(steps, 47 - steps).mean(), rel=1e-5)


def test_peaks_have_distances_in_the_unit_of_the_axis() -> None:
    grid, physical, _ = head_measures(predictor("peaks"), sample("peaks")[None])
    np.testing.assert_allclose(physical.values, 0.02 * grid.values, rtol=1e-5)
    assert 10 < grid.uniform < 150


def test_measures_do_not_depend_on_the_batch() -> None:
    found, x = predictor("peaks"), np.stack([sample("peaks", seed) for seed in range(5)])
    whole = head_measures(found, x)
    for one, other in zip(whole, head_measures(found, x, max_weights=1), strict=True):
        np.testing.assert_allclose(one.values, other.values, rtol=1e-5)


def test_distances_between_places_are_found_once_for_all_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    found, between = list[torch.Tensor](), torch.cdist
    monkeypatch.setattr("torch.cdist", lambda x, y, **how: found.append(between(x, y, **how)) or found[-1])
    head_measures(predictor("spectrum"), sample("spectrum")[None])
    grid, physical = found  # in samples, and in nm
    torch.testing.assert_close(physical, 2 * grid)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.arange(12.0).reshape(6, 2), "grows with depth"),
        (-np.arange(12.0).reshape(6, 2), "falls with depth"),
        (np.array([[1.0, 4.0], [3.0, 2.0], [4.0, 1.0], [2.0, 3.0]]), "shows no clear trend with depth"),
        (np.array([[1.0, 2.0], [3.0, 4.0]]), "shows no clear trend with depth"),  # nor could so few heads
        (np.ones((3, 2)), "has no trend"),
        (np.ones((1, 2)), "has no trend"),
    ],
)
def test_a_trend_is_told_plainly(values: np.ndarray, words: str) -> None:
    assert words in HeadMeasure("distance", values, 1.0).trend


@pytest.mark.parametrize("kind", VITS)
def test_figures_of_every_kind_of_input(kind: str) -> None:
    found = predictor(kind)
    maps_figure(found, sample(kind), layers=-1).draw_without_rendering()
    heads_figure(head_measures(found, sample(kind)[None])).draw_without_rendering()


@pytest.mark.parametrize("kind", ["spectrum", "peaks", "lines"])
def test_rows_of_heads_share_one_scale(kind: str) -> None:
    found, axes = predictor(kind), Figure().subplots()
    weak = np.random.default_rng(0).uniform(size=found.model.tokenizer.most)
    draw_rows(axes, found, sample(kind), np.stack([weak, 10 * weak]))
    colours = axes.images[0].get_array() if axes.images else axes.collections[0].get_facecolors()
    faint, dense = np.reshape(colours, (2, -1, 4))[..., 3].max(1)
    assert faint < 0.15 * dense


def test_panels_are_named_after_their_layers() -> None:
    panels = maps_figure(predictor("spectrum"), sample("spectrum"), layers=[-1, 0]).axes
    assert [axes.get_title("left") for axes in panels] == ["layer 0", "layer 1"]


def test_mistakes_are_one_line() -> None:
    with pytest.raises(InputError, match=r"layer 7 does not exist; the model has layers 0 to 1$"):
        maps_figure(predictor("picture"), sample("picture"), layers=[7])
    with pytest.raises(InputError, match=r"found samples of shape \(1, 8, 8\), expected \(1, 12, 8\)"):
        maps_figure(predictor("picture"), np.zeros((1, 8, 8)))
    with pytest.raises(InputError, match="attention: a CNN has none; attributions work for every model"):
        head_measures(predictor("cnn picture"), sample("cnn picture")[None])


_MEMORY = """
import resource, sys, torch, vitreous as vt
model, x = vt.create_model("vit_spectrum_4500").eval(), torch.rand(64, 1, 4500)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
with torch.no_grad():
    model(x)
    before = peak()
    for how in ({"layers": -1, "reduce": lambda weights: weights.mean(1)}, {}):
        with vt.record(model, **how) as seen:
            model(x)
        print(sum(kept.nbytes for kept in seen.values()), peak() - before)
        del seen
"""


def test_recording_a_batch_of_64_with_450_tokens_fits_into_memory() -> None:
    out = subprocess.run([sys.executable, "-c", _MEMORY], capture_output=True, text=True, check=True).stdout
    (kept, peak), (kept_all, peak_all) = (map(int, line.split()) for line in out.splitlines())
    assert max(kept, peak) < 200e6  # one layer, heads averaged as they are computed
    assert max(kept_all, peak_all) < 1.5e9  # all layers and heads
