"""Position encodings: S1.3's values, the learned table of S0.4, relative biases of S4.1, resampling."""

import math

import pytest
import torch

import vitreous as vt
from vitreous.nn import GridPosition, RelativeBias, resample, sinusoidal


def places(count: int) -> torch.Tensor:
    return torch.arange(float(count)).unsqueeze(-1)


def test_sinusoidal_equals_the_formula_at_the_worked_examples_positions_and_width() -> None:
    table = sinusoidal(places(6), 4)  # S1.3: P(0) … P(5), d_model = 4, i = 0, 0, 1, 1
    for k in range(6):
        wanted = [math.sin(k), math.cos(k), math.sin(k / 10000 ** (2 / 4)), math.cos(k / 10000 ** (2 / 4))]
        torch.testing.assert_close(table[k], torch.tensor(wanted))


def test_sinusoidal_contains_the_worked_example_as_printed() -> None:
    """S1.3's worked example writes the exponent of its second pair as 1/4, where its formula makes it 2i/d = 2/4.

    1/4 is 2i/d for d = 8, so the values as printed are the first four columns at that width.
    """
    table = sinusoidal(places(6), 8)[:, :4]
    for k in range(6):
        printed = [math.sin(k), math.cos(k), math.sin(k / 10000 ** (1 / 4)), math.cos(k / 10000 ** (1 / 4))]
        torch.testing.assert_close(table[k], torch.tensor(printed))


def test_sinusoidal_at_the_size_of_the_heat_map() -> None:
    table = sinusoidal(places(512), 10)  # S0.4
    assert table.shape == (512, 10)
    k, i = 300, 3
    assert table[k, 2 * i].item() == pytest.approx(math.sin(k / 10000 ** (2 * i / 10)), abs=1e-4)
    assert len(table.unique(dim=0)) == 512  # 'a unique encoding for the positions'


@pytest.mark.parametrize(("axes", "dim"), [(2, 8), (2, 10), (3, 12), (3, 16)])
def test_several_axes_are_encoded_apart(axes: int, dim: int) -> None:
    steps = torch.randint(0, 9, (20, axes)).float()
    table = sinusoidal(steps, dim)
    share = dim // (2 * axes) * 2
    for axis in range(axes):
        part = table[:, axis * share : (axis + 1) * share]
        torch.testing.assert_close(part, sinusoidal(steps[:, axis : axis + 1], share))
    assert (table[:, axes * share :] == 0).all()


def test_learned_positions_have_the_sources_shape() -> None:
    model = vt.create_model("vit_spectrum_4500")
    assert isinstance(model.position, GridPosition)
    assert model.position.table.shape == (1, 451, 64)  # S0.4: (1, num_patches + 1, embedding_dim)


def test_relative_bias_depends_on_the_displacement_alone() -> None:
    steps = torch.cartesian_prod(torch.arange(3), torch.arange(4))
    bias = RelativeBias(steps, (3, 4), depth=2, heads=5, prefix=1)
    torch.nn.init.normal_(bias.table)
    p = bias(1)[0, :, 1:, 1:]  # (heads, N, N)
    assert bias(1).shape == (1, 5, 13, 13)
    value: dict[tuple[float, ...], torch.Tensor] = {}
    for i, a in enumerate(steps):
        for j, b in enumerate(steps):
            moved = tuple((a - b).tolist())
            assert torch.equal(p[:, i, j], value.setdefault(moved, p[:, i, j]))
    assert len(value) == 5 * 7
    assert len({tuple(v.tolist()) for v in value.values()}) == 5 * 7  # and every displacement has its own


@pytest.mark.parametrize(("old", "new"), [((8,), (20,)), ((6, 7), (9, 5))])
def test_a_relative_bias_keeps_its_shape_on_another_grid(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    def bowl(grid: tuple[int, ...]) -> torch.Tensor:  # a bias that falls with the distance, in units of the grid
        axes = [torch.arange(1 - n, n) / n for n in grid]
        return -sum(axis**2 for axis in torch.meshgrid(*axes, indexing="ij")).flatten()  # type: ignore[union-attr]

    table = torch.cat([bowl(old), torch.tensor([5.0, 6.0, 7.0])]).expand(2, 3, -1)
    moved = RelativeBias.resample(table, old, new)
    assert torch.equal(moved[..., -3:], table[..., -3:])
    assert (moved[0, 0, :-3] - bowl(new)).abs().max() < 0.25
    assert moved.shape == (2, 3, math.prod(2 * n - 1 for n in new) + 3)


def test_resampling_to_the_same_grid_changes_nothing() -> None:
    table = torch.randn(1, 13, 6)
    assert torch.equal(resample(table, (3, 4), (3, 4), prefix=1), table)


@pytest.mark.parametrize(
    ("old", "new"), [((50,), (80,)), ((50,), (30,)), ((16, 16), (24, 12)), ((12, 12, 12), (18, 10, 14))]
)
def test_resampling_keeps_the_prefix_and_a_linear_ramp(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    def ramp(grid: tuple[int, ...]) -> torch.Tensor:
        axes = [(torch.arange(n) + 0.5) / n for n in grid]
        return sum(torch.meshgrid(*axes, indexing="ij")).flatten()  # type: ignore[union-attr]

    table = torch.cat([torch.randn(1, 2, 1), ramp(old).reshape(1, -1, 1)], dim=1)
    out = resample(table, old, new, prefix=2)
    assert out.shape == (1, 2 + math.prod(new), 1)
    assert torch.equal(out[:, :2], table[:, :2])
    inside = torch.ones(new, dtype=torch.bool)
    for axis, n in enumerate(new):  # the border is extrapolated
        edge = math.ceil(n * 2.5 / old[axis])
        for index in (*range(edge), *range(n - edge, n)):
            inside.select(axis, index).fill_(False)
    assert inside.any()
    error = (out[0, 2:, 0] - ramp(new)).abs()[inside.flatten()]
    assert error.max() < 0.03
