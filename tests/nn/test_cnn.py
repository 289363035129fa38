"""The baselines: one class for every rank, a non-local block that is its formula, and digits learnt in seconds."""

import json
import math
import time

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

from vitreous.core.errors import InputError
from vitreous.nn import CNN, CNNConfig
from vitreous.nn.cnn import NonLocalBlock, ResidualBlock

LINE = {"input": (2, 47)}
IMAGE = {"input": (3, 13, 10)}
VOLUME = {"input": (1, 8, 9, 8)}
SMALL = {"out": 3, "widths": (4, 6)}
CHOICES = [
    *({"nonlocal_after": after, **shape} for after in ((), (0, 1)) for shape in (LINE, IMAGE, VOLUME)),
    *({"stem": "large", "pool": "flatten", **shape} for shape in (LINE, IMAGE, VOLUME)),
    {"kernel": 5, "blocks": (2, 3), "head": (8, 5), "dropout": 0.1, **LINE},
    {"widths": (4,), "blocks": 2, "pool": "flatten", **IMAGE},
    {"out": 0, **IMAGE},
]


def make(**choices: object) -> CNN:
    torch.manual_seed(0)
    model = CNN(CNNConfig(**{**SMALL, **choices})).eval()
    for name, parameter in model.named_parameters():
        if name.endswith(("project.weight", "project.bias")):  # away from zero, so that non-local blocks show
            torch.nn.init.normal_(parameter, std=0.2)
    return model


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_every_choice_maps_a_batch_to_outputs(choices: dict[str, object]) -> None:
    model = make(**choices)
    assert model(torch.randn(2, *model.config.input)).shape == (2, model.config.out or 6)


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_every_parameter_gets_a_gradient(choices: dict[str, object]) -> None:
    model = make(**choices).train()
    model(torch.randn(4, *model.config.input)).square().sum().backward()
    unused = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not unused


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_exports_with_any_batch_size(choices: dict[str, object]) -> None:
    model = make(**choices)
    x, three = torch.randn(2, *model.config.input), torch.randn(3, *model.config.input)
    shapes = {"x": {0: torch.export.Dim("batch", min=1)}}
    exported = torch.export.export(model, (x,), dynamic_shapes=shapes).module()
    torch.testing.assert_close(exported(three), model(three), atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("grid", [(11,), (5, 4), (3, 4, 2)])
def test_the_non_local_block_is_its_formula(grid: tuple[int, ...]) -> None:
    """Wang et al. 2018: z_i = W_z y_i + x_i, y_i = sum_j exp(theta_i . phi_j) g_j / sum_j exp(theta_i . phi_j)."""
    block = NonLocalBlock(len(grid), 6)
    for parameter in block.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(2, 6, *grid)

    def linear(part: torch.nn.Module, z: torch.Tensor) -> torch.Tensor:
        return z @ part.weight.flatten(1).T + part.bias  # type: ignore[operator, union-attr]

    wanted = torch.empty_like(x.flatten(2))
    for b, sample in enumerate(x.flatten(2).mT):  # (N, D)
        theta, phi, g = (linear(part, sample) for part in (block.theta, block.phi, block.g))
        for i, place in enumerate(sample):
            pairs = [math.exp(theta[i] @ other) for other in phi]
            mean = sum(p * g_j for p, g_j in zip(pairs, g, strict=True)) / sum(pairs)
            wanted[b, :, i] = linear(block.project, mean) + place
    torch.testing.assert_close(block(x), wanted.reshape(x.shape), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("shape", [LINE, IMAGE, VOLUME], ids=str)
def test_the_non_local_block_starts_as_the_identity(shape: dict[str, tuple[int, ...]]) -> None:
    model = CNN(CNNConfig(**shape, **SMALL, nonlocal_after=(0, 1))).eval()
    plain = CNN(CNNConfig(**shape, **SMALL)).eval()
    assert not plain.load_state_dict(model.state_dict(), strict=False).missing_keys
    x = torch.randn(2, *model.config.input)
    assert torch.equal(model(x), plain(x))


def test_the_non_local_block_reaches_where_convolutions_do_not() -> None:
    x = torch.randn(1, 1, 400, requires_grad=True)
    for after, reaches in (((), False), ((0,), True)):
        model = make(input=(1, 400), nonlocal_after=after)
        far = model.stages(model.stem(x))[..., 0].sum()
        (gradient,) = torch.autograd.grad(far, x)
        assert (gradient[0, 0, 300:].abs().max() > 0) == reaches


def test_a_residual_block_is_the_sum_of_branch_and_shortcut() -> None:
    x = torch.randn(2, 4, 9)
    same = ResidualBlock(1, 4, 4, 3).eval()
    torch.testing.assert_close(same(x), F.relu(x + same.branch(x)))
    other = ResidualBlock(1, 4, 6, 3, stride=2).eval()
    assert other(x).shape == (2, 6, 5)


@pytest.mark.parametrize("grid", [(1,), (2,), (9,), (16, 17), (31, 1), (8, 9, 11)])
@pytest.mark.parametrize("stem", ["small", "large"])
def test_the_config_knows_the_grid_of_the_last_stage(grid: tuple[int, ...], stem: str) -> None:
    model = make(input=(1, *grid), stem=stem, widths=(2, 2, 2))
    assert model.stages(model.stem(torch.randn(1, 1, *grid))).shape[2:] == model.config.shape


def test_dropout_is_off_in_evaluation() -> None:
    model = make(**IMAGE, dropout=0.5)
    x = torch.randn(4, 3, 13, 10)
    assert torch.equal(model(x), model(x))


def test_runs_in_bfloat16() -> None:
    model = make(**IMAGE, nonlocal_after=(1,))
    x = torch.randn(2, 3, 13, 10)
    wanted = model(x)
    torch.testing.assert_close(model.bfloat16()(x.bfloat16()).float(), wanted, atol=0.1, rtol=0.1)


def test_a_config_survives_json() -> None:
    config = CNNConfig(input=(2, 30, 20), out=4, widths=(8, 16), blocks=(1, 2), nonlocal_after=(1,), head=(32,))
    assert CNNConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_one_number_of_blocks_serves_every_stage() -> None:
    assert CNNConfig(input=(1, 8, 8), blocks=2).blocks == (2, 2, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({**LINE, "stem": "tiny"}, "stem: unknown choice 'tiny'; expected one of: small, large"),
        ({**LINE, "pool": "cls"}, "pool: unknown choice 'cls'; expected one of: mean, flatten"),
        ({"input": (1,)}, r"input: found \(1,\), expected channels and then samples along 1, 2 or 3 axes"),
        ({"input": (1, 2, 3, 4, 5)}, "input: found .* along 1, 2 or 3 axes"),
        ({"input": (1, 0)}, "input: found 0, expected at least 1"),
        ({**LINE, "widths": ()}, "widths: found none"),
        ({**LINE, "widths": (8, 2.5)}, "widths: found 2.5"),
        ({**LINE, "blocks": (1, 2)}, r"blocks: found \(1, 2\), expected one number for each stage"),
        ({**LINE, "kernel": 4}, "kernel: found 4, expected an odd number"),
        ({"input": (1, 6, 7, 5), "stem": "large"}, "expected 8 or more samples along each axis"),
        ({**LINE, "nonlocal_after": (3,)}, r"nonlocal_after: found \(3,\), expected different stages from 0 to 2"),
        ({**LINE, "nonlocal_after": (1, 1)}, r"nonlocal_after: found \(1, 1\), expected different stages"),
        ({**LINE, "out": -1}, "out: found -1"),
        ({**LINE, "head": 0}, "head: found 0"),
        ({**LINE, "dropout": 1.0}, "dropout: found 1.0, expected a probability"),
        ({**LINE, "depth": 3}, "settings: unknown choice 'depth'; expected one of: input, out, widths"),
    ],
)
def test_a_mistake_is_told_in_one_line(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as fault:
        CNNConfig.from_dict(given)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.zeros(2, 47), r"found a batch of shape \(2, 47\), expected \(batch, 2, 47\)"),
        (torch.zeros(1, 2, 48), r"found a batch of shape \(1, 2, 48\), expected \(batch, 2, 47\)"),
        (torch.zeros(1, 2, 47, dtype=torch.uint8), "found torch.uint8, expected torch.float32"),
    ],
)
def test_a_wrong_batch_is_told_in_one_line(x: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message) as fault:
        make(**LINE)(x)
    assert "\n" not in str(fault.value)


def test_a_small_cnn_learns_digits_in_seconds() -> None:
    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    y = torch.tensor(labels)
    order = torch.randperm(len(x))
    test, train = order[:360], order[360:]
    model = CNN(CNNConfig(input=(1, 8, 8), out=10, widths=(12, 28)))
    assert sum(p.numel() for p in model.parameters()) < 15_000
    start, epochs, size = time.process_time(), 10, 64
    steps = epochs * (len(train) // size)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=1e-2, total_steps=steps)
    for _ in range(epochs):
        for rows in train[torch.randperm(len(train))].split(size)[: len(train) // size]:
            optimiser.zero_grad()
            F.cross_entropy(model(x[rows]), y[rows], label_smoothing=0.1).backward()
            optimiser.step()
            schedule.step()
    with torch.no_grad():
        accuracy = (model.eval()(x[test]).argmax(1) == y[test]).float().mean()
    assert accuracy >= 0.97
    assert time.process_time() - start < 15
