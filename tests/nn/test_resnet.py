"""ResNets are settings of the CNN, hexagonal kernels are hexagons, traces are encoded where they lie."""

import itertools
import json
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.data.scale import Scaling
from vitreous.data.source import Axis
from vitreous.export.int8 import to_int8
from vitreous.export.onnx_file import to_onnx
from vitreous.nn import CNN, CNNConfig
from vitreous.nn.cnn import HexagonalConv
from vitreous.nn.tokens.sets import Traces
from vitreous.run.onnx import open_onnx
from vitreous.run.predictor import Predictor
from vitreous.run.task import Classification

WIDTHS: dict[str, Any] = {"widths": (64, 128, 256, 512), "stem": "large"}
RESNETS: dict[str, tuple[dict[str, Any], int]] = {  # parameters as torchvision publishes them
    "resnet18": ({**WIDTHS, "blocks": (2, 2, 2, 2)}, 11_689_512),
    "resnet34": ({**WIDTHS, "blocks": (3, 4, 6, 3)}, 21_797_672),
    "resnet50": ({**WIDTHS, "blocks": (3, 4, 6, 3), "block": "bottleneck"}, 25_557_032),
}
STATIONS: dict[str, Any] = {
    "input": (33, 7, 6), "out": 3, "widths": (4, 6), "samples": 30, "traces": (5, 8), "hexagonal": True
}  # fmt: skip


def make(**choices: Any) -> CNN:
    torch.manual_seed(0)
    return CNN(CNNConfig(**choices)).eval()


@pytest.mark.parametrize("name", RESNETS)
def test_the_networks_of_the_field_have_their_parameters(name: str) -> None:
    choices, published = RESNETS[name]
    with torch.device("meta"):
        model = CNN(CNNConfig(input=(3, 224, 224), out=1000, **choices))
    assert sum(p.numel() for p in model.parameters()) == published
    assert model.config.shape == (7, 7)


def test_a_bottleneck_hands_on_four_times_its_width() -> None:
    model = make(input=(2, 9, 8), block="bottleneck", widths=(4, 6), blocks=(2, 1), nonlocal_after=(0,))
    x = torch.randn(2, 2, 9, 8)
    assert model.stages(model.stem(x)).shape == (2, 24, 5, 4)
    assert model(x).shape == (2, model.config.features) == (2, 24)
    flat = make(input=(2, 9), block="bottleneck", widths=(4, 6), pool="flatten", out=3)
    assert flat(torch.randn(2, 2, 9)).shape == (2, 3)


def seen(kernel: int) -> set[tuple[int, int]]:
    """Places, in steps from the middle, that the middle of a hexagonal convolution sees."""
    conv = HexagonalConv(1, 1, kernel)
    torch.nn.init.ones_(conv.weight)
    x = torch.zeros(1, 1, 11, 11, requires_grad=True)
    conv(x)[0, 0, 5, 5].backward()
    assert x.grad is not None
    assert set(x.grad.unique().tolist()) == {0, 1}
    return {(q - 5, r - 5) for q, r in x.grad[0, 0].nonzero().tolist()}


def test_a_place_sees_itself_and_its_six_neighbours() -> None:
    """On a lattice of two vectors 60° apart, the six nearest are at distance 1, the two corners left out at √3."""
    lattice = np.array([[1.0, 0.0], [0.5, 0.75**0.5]])
    apart = {step: float(np.linalg.norm(step @ lattice)) for step in itertools.product((-1, 0, 1), repeat=2)}
    assert seen(3) == {step for step, distance in apart.items() if distance < 1.01}
    assert len(seen(3)) == 7
    assert HexagonalConv(2, 5, 3).weight.numel() == 2 * 5 * 7  # and has no weights for what it does not see


@pytest.mark.parametrize("kernel", [3, 5, 7])
def test_a_hexagon_turned_by_a_sixth_is_itself(kernel: int) -> None:
    places = seen(kernel)
    assert {(-r, q + r) for q, r in places} == places
    reach = kernel // 2
    assert len(places) == 3 * reach * (reach + 1) + 1


@pytest.mark.parametrize("moved", [(1, 0), (0, 1), (1, -1), (2, 3)])
def test_what_moves_on_the_lattice_moves_in_the_answer(moved: tuple[int, int]) -> None:
    torch.manual_seed(0)
    first, second = HexagonalConv(2, 3, 3), HexagonalConv(3, 4, 3)

    def answer(x: Tensor) -> Tensor:
        return second(F.relu(first(x)))

    x = F.pad(torch.randn(1, 2, 5, 5), (6, 6, 6, 6))  # nothing near the edge
    torch.testing.assert_close(answer(x.roll(moved, (2, 3))), answer(x).roll(moved, (2, 3)))
    halved = HexagonalConv(2, 3, 3, stride=2)
    torch.testing.assert_close(halved(x.roll((2, -2), (2, 3))), halved(x).roll((1, -1), (2, 3)))


def test_the_square_kernel_is_the_convolution() -> None:
    conv, x = HexagonalConv(2, 3, 3), torch.randn(2, 2, 6, 7)
    torch.testing.assert_close(conv(x), F.conv2d(x, conv.square(), padding=1))
    assert (conv.square()[:, :, [0, 2], [0, 2]] == 0).all()


def test_traces_are_encoded_each_by_itself_whatever_its_height() -> None:
    torch.manual_seed(0)
    encode = Traces(37, (4, 8), 6)
    x = torch.randn(2, 5, 37)
    found = encode(x)
    assert found.shape == (2, 5, 6)
    torch.testing.assert_close(encode(x[:, 3:4]), found[:, 3:4], atol=1e-5, rtol=1e-5)
    assert encode(x[:, :0]).shape == (2, 0, 6)
    louder = (encode(10 * x) - encode.project.bias).norm() / (found - encode.project.bias).norm()
    assert 5 < louder < 20  # no norm hides how high they are


def test_every_place_of_a_grid_has_its_trace_beside_its_other_channels() -> None:
    model = make(**STATIONS)
    x = torch.randn(2, 33, 7, 6)
    assert model.traces is not None
    inputs: list[Tensor] = []
    model.stem.register_forward_pre_hook(lambda _, arguments: inputs.extend(arguments))
    model(x)
    (encoded,) = inputs
    assert encoded.shape == (2, 4 + 3, 7, 6)
    assert torch.equal(encoded[:, 4:], x[:, 30:])
    one = model.traces(x[1, :30, 2, 5][None, None])[0, 0]
    torch.testing.assert_close(encoded[1, :4, 2, 5], one, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "choices",
    [
        STATIONS,
        {**STATIONS, "input": (30, 7, 6), "block": "bottleneck"},
        {**STATIONS, "hexagonal": False, "input": (31, 20), "kernel": 5},
        {"input": (2, 8, 9), "out": 3, "widths": (4, 6), "hexagonal": True, "kernel": 5},
    ],
    ids=str,
)
def test_every_parameter_gets_a_gradient(choices: dict[str, Any]) -> None:
    model = make(**choices).train()
    model(torch.randn(4, *model.config.input)).square().sum().backward()
    unused = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not unused


def test_exports_as_it_answers() -> None:
    task = Classification(("p", "He", "Fe"))
    predictor = Predictor(make(**STATIONS), task, Scaling(), (Axis("q"), Axis("r")), ["c"] * 33, "stations")
    x = np.random.default_rng(0).normal(size=(8, 33, 7, 6)).astype(np.float32)
    content, wanted = to_onnx(predictor), predictor.outputs(x).numpy()
    np.testing.assert_allclose(open_onnx(content).outputs(x), wanted, atol=1e-5)
    small = open_onnx(to_int8(content, predictor, x)).outputs(x)
    assert np.abs(small - wanted).max() < 0.2 * np.ptp(wanted)


def test_a_config_survives_json_and_one_of_before_is_read() -> None:
    config = CNNConfig(**STATIONS, block="bottleneck")
    assert CNNConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    before = {"input": (1, 8, 8), "out": 3, "widths": (4,), "blocks": (1,), "kernel": 3, "stem": "small"}
    assert CNNConfig.from_dict(before) == CNNConfig(input=(1, 8, 8), out=3, widths=(4,))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"block": "wide"}, "block: unknown choice 'wide'; expected one of: basic, bottleneck"),
        ({"input": (33, 42)}, r"hexagonal: found input \(33, 42\) and stem 'small', expected 2-D and 'small'"),
        ({"stem": "large"}, "hexagonal: found input .* and stem 'large', expected 2-D and 'small'"),
        ({"traces": ()}, r"samples: found 30 with traces = \(\), expected both or neither"),
        ({"samples": 0}, r"samples: found 0 with traces = \(5, 8\), expected both or neither"),
        ({"samples": 34}, r"samples: found 34, but input \(33, 7, 6\) has 33 channels"),
        ({"traces": (4, 0)}, "traces: found 0, expected at least 1"),
    ],
)
def test_a_mistake_is_told_in_one_line(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as fault:
        make(**{**STATIONS, **choices})
    assert "\n" not in str(fault.value)
