"""Augmentations transform each sample separately and are reproducible with a seed."""

import json
import math

import numpy as np
import pytest
import torch
from scipy import ndimage, stats
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.data.augment import Augment
from vitreous.data.transforms import FILLS, Draw, broaden, chebyshev, random_boxes, warp

IMAGE = {
    "shift": 0.2,
    "rotate": 30.0,
    "scale": 0.3,
    "shear": 0.2,
    "noise": 0.1,
    "erase": 0.5,
    "mixup": 0.4,
    "cutmix": 1.0,
}
SPECTRUM = {"shift": 3.0, "stretch": 0.1, "broaden": 2.0, "gain": 0.2, "baseline": 0.2, "noise": 0.1, "mixup": 0.4}
SHAPES = {"image": (2, 12, 9), "spectrum": (2, 60)}
ONE_EACH = [
    *(("image", {name: value}) for name, value in {**IMAGE, "erase": 1.0}.items()),
    *(("spectrum", {name: value}) for name, value in {**SPECTRUM, "erase": 1.0, "cutmix": 1.0}.items()),
]


def batch(kind: str, size: int = 6) -> tuple[Tensor, Tensor]:
    return torch.randn(size, *SHAPES[kind]), torch.eye(size)


def still(x: Tensor, **settings: float) -> dict[str, Tensor]:
    """Parameters of `warp` without effect, except for some."""
    amounts = {"angle": 0.0, "factor": 1.0, "shear": 0.0} | settings
    return {name: torch.full((len(x),), value) for name, value in amounts.items()}


def moved(x: Tensor, shift: tuple[float, ...] = (), fill: str = "edge", **settings: float) -> Tensor:
    steps = torch.tensor(shift or (0.0,) * (x.dim() - 2)).expand(len(x), -1)
    return warp(x, shift=steps, fill=fill, **still(x, **settings))


@pytest.mark.parametrize("shape", [(1, 20), (3, 8, 9), (1, 4, 5, 6)])
def test_zero_strength_is_the_identity(shape: tuple[int, ...]) -> None:
    x, y = torch.randn(4, *shape), torch.randn(4, 2)
    same_x, same_y = Augment()(x, y)
    assert torch.equal(same_x, x)
    assert torch.equal(same_y, y)


@pytest.mark.parametrize(("kind", "settings"), ONE_EACH, ids=str)
def test_each_sample_has_its_own_draw(kind: str, settings: dict[str, float]) -> None:
    x, _ = batch(kind, 2)
    x = torch.stack([x[0], x[1]] * 4)  # neighbours differ, so that mixing shows
    out, _ = Augment(**settings)(x, torch.rand(8, 3))
    assert out.shape == x.shape
    for sample in range(0, 8, 2):
        assert not torch.equal(out[sample], x[sample])
        for other in range(sample + 2, 8, 2):
            assert not torch.equal(out[sample], out[other])


@pytest.mark.parametrize(("kind", "settings"), [("image", IMAGE), ("spectrum", SPECTRUM)])
def test_the_same_seed_gives_the_same_result(kind: str, settings: dict[str, float]) -> None:
    x, y = batch(kind)
    augment = Augment(**settings)

    def seeded(seed: int) -> tuple[Tensor, Tensor]:
        return augment(x, y, torch.Generator().manual_seed(seed))

    assert all(torch.equal(a, b) for a, b in zip(seeded(1), seeded(1), strict=True))
    assert not torch.equal(seeded(1)[0], seeded(2)[0])
    before = torch.get_rng_state()
    seeded(1)
    assert torch.equal(torch.get_rng_state(), before)  # the default generator is not used
    torch.manual_seed(3)
    first = augment(x, y)
    torch.manual_seed(3)
    assert torch.equal(augment(x, y)[0], first[0])


@pytest.mark.parametrize(("kind", "settings"), [("image", IMAGE), ("spectrum", SPECTRUM)])
def test_the_input_is_not_changed(kind: str, settings: dict[str, float]) -> None:
    x, y = batch(kind)
    originals = x.clone(), y.clone()
    Augment(**settings)(x, y)
    assert torch.equal(x, originals[0])
    assert torch.equal(y, originals[1])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("kind", "settings"), [("image", IMAGE), ("spectrum", SPECTRUM)])
def test_the_dtype_of_the_batch_is_preserved(dtype: torch.dtype, kind: str, settings: dict[str, float]) -> None:
    x, y = batch(kind)
    out, mixed = Augment(**settings)(x.to(dtype), y)
    assert out.dtype == dtype
    assert mixed.dtype == torch.float32
    assert out.isfinite().all()


@pytest.mark.parametrize(("kind", "settings"), [("image", IMAGE), ("spectrum", SPECTRUM)])
def test_compiles_into_one_graph(kind: str, settings: dict[str, float]) -> None:
    x, y = batch(kind)
    augment = Augment(**settings)
    torch.manual_seed(1)
    expected = augment(x, y)
    compiled = torch.compile(lambda x, y: augment(x, y), fullgraph=True, backend="aot_eager")
    torch.manual_seed(1)
    for result, reference in zip(compiled(x, y), expected, strict=True):
        torch.testing.assert_close(result, reference)


@pytest.mark.parametrize(("kind", "settings"), [("image", IMAGE), ("spectrum", SPECTRUM)])
def test_no_operation_depends_on_a_value(kind: str, settings: dict[str, float]) -> None:
    x, y = batch(kind)
    out, _ = Augment(**settings)(x.to("meta"), y.to("meta"))  # reading a value of a meta tensor raises an error
    assert out.shape == x.shape


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("kind", "settings"), [("image", IMAGE), ("spectrum", SPECTRUM)])
def test_a_gpu_never_waits(kind: str, settings: dict[str, float]) -> None:
    x, y = (part.cuda() for part in batch(kind))
    torch.cuda.set_sync_debug_mode("error")
    try:
        Augment(**settings)(x, y)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize(("rows", "columns"), [(2, -1), (-3, 0), (0, 4)])
def test_a_shift_moves_an_image_by_whole_samples(rows: int, columns: int) -> None:
    x = torch.zeros(2, 1, 11, 14)
    x[:, :, 5, 6] = 1
    torch.testing.assert_close(moved(x, (rows, columns)), x.roll((rows, columns), (2, 3)), atol=1e-5, rtol=0)


def test_a_shift_between_samples_is_interpolated_linearly() -> None:
    x = torch.zeros(1, 1, 20)
    x[..., 8] = 1
    expected = torch.zeros(20)
    expected[10], expected[11] = 0.75, 0.25
    torch.testing.assert_close(moved(x, (2.25,))[0, 0], expected, atol=1e-5, rtol=0)


def test_shifts_stay_within_their_limits_and_reach_them() -> None:
    line = torch.arange(100.0).expand(2000, 1, 100)
    x, _ = Augment(shift=5.0)(line, torch.zeros(2000, 1))
    offset = x[:, 0, 50] - 50
    assert 4.9 < offset.max() <= 5.001
    assert -5.001 <= offset.min() < -4.9
    image = torch.arange(40.0)[:, None].expand(2000, 1, 40, 20)  # rows count up
    offset = Augment(shift=0.1)(image, torch.zeros(2000, 1))[0][:, 0, 20, 10] - 20
    assert 3.9 < offset.max() <= 4.001  # a tenth of 40 rows


@pytest.mark.parametrize("quarter", [1, 2, 3])
def test_a_quarter_turn_is_counter_clockwise_and_exact(quarter: int) -> None:
    x = torch.randn(2, 3, 9, 9)
    torch.testing.assert_close(moved(x, angle=90.0 * quarter), torch.rot90(x, quarter, (2, 3)), atol=1e-4, rtol=0)


def test_turn_shear_and_scale_equal_scipys_affine_transform() -> None:
    x = torch.randn(1, 1, 13, 17)
    angle, factor, shear, shift = 25.0, 1.3, 0.2, np.array([1.5, -2.0])
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    turn = np.array([[cos, -sin], [sin, cos]])  # of (row, column), counter-clockwise on a screen
    forth = turn @ np.array([[1, 0], [shear, 1]]) * factor
    back, centre = np.linalg.inv(forth), (np.array(x.shape[2:]) - 1) / 2
    expected = ndimage.affine_transform(
        x[0, 0].numpy(), back, centre - back @ (centre + shift), order=1, mode="nearest"
    )
    result = moved(x, (1.5, -2.0), angle=angle, factor=factor, shear=shear)[0, 0]
    torch.testing.assert_close(result, torch.from_numpy(expected), atol=1e-4, rtol=0)


def test_a_stretch_moves_peaks_away_from_the_centre() -> None:
    x = torch.zeros(1, 1, 101)
    x[..., 50 + 20] = x[..., 50 - 20] = 1
    out = moved(x, factor=1.5)[0, 0]
    assert out.topk(2).indices.sort().values.tolist() == [20, 80]


def test_a_long_spectrum_is_resampled_precisely() -> None:
    line = torch.arange(4500.0).reshape(1, 1, -1)
    torch.testing.assert_close(moved(line, (0.5,))[..., 10:], line[..., 10:] - 0.5, atol=2e-3, rtol=0)


@pytest.mark.parametrize(("fill", "value"), [("edge", 5.0), ("mirror", 6.0), ("zero", 0.0)])
def test_values_beyond_the_border_follow_fill(fill: str, value: float) -> None:
    assert fill in FILLS
    x = torch.tensor([5.0, 6.0, 7.0, 8.0]).reshape(1, 1, 4)
    out = moved(x, (2.0,), fill)[0, 0]
    torch.testing.assert_close(out, torch.tensor([value, 0.0 if fill == "zero" else 5.0, 5.0, 6.0]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("width", [0.0, 0.3, 1.0, 2.5])
def test_broadening_keeps_the_integral_and_adds_its_variance(width: float) -> None:
    x = torch.zeros(1, 2, 101)
    x[:, 0, 50], x[:, 1, 40] = 1, 3
    out = broaden(x, torch.tensor([width]), most=3.0)[0]
    torch.testing.assert_close(out.sum(1), torch.tensor([1.0, 3.0]))
    place = torch.arange(101) - 50
    variance = (out[0] * place.square()).sum()
    assert variance == pytest.approx(width**2, abs=0.1)
    if width == 0:
        assert torch.equal(out, x[0])
    if width == 1.0:
        torch.testing.assert_close(out[0].numpy(), ndimage.gaussian_filter1d(x[0, 0].numpy(), 1.0), atol=1e-4, rtol=0)


def test_broadening_leaves_a_constant_alone() -> None:
    out = broaden(torch.full((3, 1, 30), 2.0), torch.tensor([0.5, 1.0, 2.0]), most=2.0)
    torch.testing.assert_close(out, torch.full((3, 1, 30), 2.0))


def test_noise_has_mean_zero_and_is_relative_to_each_channel() -> None:
    x = torch.stack([torch.randn(400, 500), 100 * torch.randn(400, 500) + 7], dim=1)
    added = Augment(noise=0.3)(x, torch.zeros(400, 1))[0] - x
    assert added.mean((0, 2)).abs().div(torch.tensor([1.0, 100.0])).max() < 0.003
    level = added.std(2) / x.std(2)
    assert level.max() < 0.34
    torch.testing.assert_close(level.mean(0), torch.full((2,), 0.15), atol=0.02, rtol=0)
    torch.testing.assert_close(level[:, 0], level[:, 1], atol=0.06, rtol=0)  # a sample has one level


def test_a_baseline_is_a_cubic() -> None:
    x = torch.randn(5, 2, 80, dtype=torch.float64)
    added = (Augment(baseline=0.3)(x, torch.zeros(5, 1))[0] - x).reshape(10, 80)
    axis = np.linspace(-1, 1, 80)
    left = [np.polyfit(axis, row, 3, full=True)[1][0] for row in added.numpy()]
    assert max(left) < 1e-10
    assert added.abs().amax() <= 4 * 0.3 * x.std(2, correction=0).max()
    assert added.std(1).min() > 0


def test_chebyshev_terms_are_numpys() -> None:
    weights = torch.randn(3, 4)
    expected = np.polynomial.chebyshev.chebval(np.linspace(-1, 1, 50), weights.T.numpy())
    torch.testing.assert_close(chebyshev(weights, 50)[:, 0], torch.from_numpy(expected).float(), atol=1e-5, rtol=1e-5)


def test_gain_multiplies_by_a_factor_as_often_below_one_as_above() -> None:
    x = torch.rand(4000, 1, 10) + 1
    ratio = Augment(gain=0.5)(x, torch.zeros(4000, 1))[0] / x
    torch.testing.assert_close(ratio, ratio[..., :1].expand_as(ratio))
    assert 1 / 1.5 - 1e-3 < ratio.min() < 0.68
    assert 1.48 < ratio.max() < 1.5 + 1e-3
    assert ratio.log().mean().abs() < 0.02


@pytest.mark.parametrize("grid", [(200,), (30, 40), (12, 14, 16)])
def test_erasing_takes_a_box_of_some_samples_only(grid: tuple[int, ...]) -> None:
    x = torch.randn(2000, 2, *grid)
    out, _ = Augment(erase=0.4)(x, torch.zeros(2000, 1))
    gone = (out != x).flatten(2)
    assert torch.equal(gone[:, 0], gone[:, 1])
    share = gone[:, 0].float().mean(1)
    assert (share > 0).float().mean() == pytest.approx(0.4, abs=0.04)
    assert share.max() < 0.4
    assert share[share > 0].mean() == pytest.approx((0.02 + 1 / 3) / 2, abs=0.02)
    channel_mean = x.flatten(2).mean(2, keepdim=True).expand_as(gone)
    torch.testing.assert_close(out.flatten(2)[gone], channel_mean[gone])


@pytest.mark.parametrize("grid", [(50,), (20, 30), (8, 9, 10)])
@pytest.mark.parametrize("fraction", [0.0, 0.25, 1.0])
def test_a_box_fills_its_fraction_of_the_grid(grid: tuple[int, ...], fraction: float) -> None:
    draw = Draw(torch.zeros(500, 1), None)
    inside = random_boxes(torch.full((500,), fraction), grid, draw).flatten(1).float().mean(1)
    assert inside.mean() == pytest.approx(fraction, abs=0.01)
    if fraction in (0.0, 1.0):
        assert (inside == fraction).all()


@pytest.mark.parametrize("settings", [{"mixup": 0.4}, {"cutmix": 1.0}, {"mixup": 0.4, "cutmix": 1.0}], ids=str)
@pytest.mark.parametrize("grid", [(40,), (16, 12), (6, 7, 8)])
def test_targets_are_mixed_as_the_samples_are(settings: dict[str, float], grid: tuple[int, ...]) -> None:
    y = torch.eye(16)
    x = y[:, :, *[None] * len(grid)].expand(-1, -1, *grid)  # channel c of sample i is 1 where c = i
    out, mixed = Augment(**settings)(x, y)
    torch.testing.assert_close(mixed.sum(1), torch.ones(16))
    torch.testing.assert_close(out.flatten(2).mean(2), mixed)
    assert (mixed > 0).sum(1).max() == 2
    if "mixup" not in settings:
        assert ((out == 0) | (out == 1)).all()


def test_regression_targets_are_mixed_linearly() -> None:
    x = torch.rand(32, 1, 10)
    y = torch.cat([x.mean(2), 3 * x.mean(2) - 5], dim=1)  # linear in the sample
    out, mixed = Augment(mixup=1.0)(x, y)
    torch.testing.assert_close(mixed, torch.cat([out.mean(2), 3 * out.mean(2) - 5], dim=1))


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.5, 1.0, 4.0])
def test_weights_of_a_mixture_follow_the_beta_distribution(alpha: float) -> None:
    values = Draw(torch.zeros(20000, 1), torch.Generator().manual_seed(1)).beta(alpha)
    assert ((values >= 0) & (values <= 1)).all()
    for level in (1e-4, 0.01, 0.2, 0.5, 0.8, 0.99, 1 - 1e-4):
        assert (values < level).float().mean() == pytest.approx(stats.beta(alpha, alpha).cdf(level), abs=0.015)


def test_settings_survive_json() -> None:
    augment = Augment(**IMAGE, fill="zero")
    assert Augment.from_dict(json.loads(json.dumps(augment.to_dict()))) == augment


X, Y = torch.zeros(4, 1, 20), torch.zeros(4, 3)


@pytest.mark.parametrize(
    ("settings", "x", "y", "message"),
    [
        ({"rotate": 10}, X, Y, r"rotate: found 10 with inputs of rank 1, but it is for images \(2 axes\)"),
        ({"stretch": 0.1}, torch.zeros(4, 1, 8, 8), Y, r"stretch: .* rank 2, but it is for spectra \(1 axis\)"),
        ({"shift": 1}, torch.zeros(4, 1, 8, 8, 8), Y, r"shift: .* for spectra \(1 axis\) and images \(2 axes\)"),
        ({"shift": 2}, torch.zeros(4, 1, 8, 8), Y, "shift: found 2, expected a fraction of the side, from 0 to 1"),
        ({}, X.int(), Y, "x: found torch.int32, expected floating-point"),
        ({}, X[0], Y, r"x: found a batch of shape \(1, 20\), expected \(batch, channels, \*grid\)"),
        ({}, X, Y.long(), r"y: found torch.int64 of shape \(4, 3\), expected floating-point .* \(4, number\)"),
        ({}, X, Y[:, 0], r"y: found torch.float32 of shape \(4,\)"),
        ({}, X, Y[:3], r"y: found torch.float32 of shape \(3, 3\)"),
    ],
)
def test_a_wrong_batch_is_reported_in_one_line(settings: dict[str, float], x: Tensor, y: Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        Augment(**settings)(x, y)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"noise": -0.1}, "noise: found -0.1, expected a number of at least 0"),
        ({"noise": math.nan}, "noise: found nan, expected a number"),
        ({"mixup": math.inf}, "mixup: found inf, expected a number"),
        ({"shift": "far"}, "shift: found 'far', expected a number"),
        ({"cutmix": True}, "cutmix: found True, expected a number"),
        ({"erase": 1.5}, "erase: found 1.5, expected a number from 0 to 1"),
        ({"rotate": 200}, "rotate: found 200.0, expected a number from 0 to 180"),
        ({"fill": "black"}, "fill: unknown choice 'black'; expected one of: edge, mirror, zero"),
        ({"flip": 1}, "settings: unknown choice 'flip'; expected one of: shift, rotate"),
    ],
)
def test_a_wrong_strength_is_reported_in_one_line(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        Augment.from_dict(settings)
    assert "\n" not in str(error.value)
