"""Exported to ONNX, every recipe and every kind of model answers as it did, for any number of samples."""

from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from tests.insight.predictors import CLASSES, KINDS, QUANTITIES, predictor, sample
from tests.recipes import SUPERVISED, choices, narrow, two_steps
from vitreous.core.errors import InputError
from vitreous.data.scale import Scaling
from vitreous.data.source import Axis
from vitreous.export.files import check_parity, example_samples
from vitreous.export.onnx_file import to_onnx
from vitreous.nn import CNNConfig, ViTConfig, build
from vitreous.nn.models import Config
from vitreous.run.answers import read_answers
from vitreous.run.onnx import OnnxPredictor, open_onnx
from vitreous.run.task import Regression, Task
from vitreous.train import Predictor, load, train

SMALL: dict[str, Any] = {"dim": 12, "depth": 1, "heads": 2}
FURTHER: dict[str, tuple[Config, Task, Scaling]] = {
    "relative bias, post norm, stem, point scaling": (
        ViTConfig(input=(1, 9, 8), patch=(4,), stem=(4,), bias="relative", norm="post", qk_norm=True, **SMALL),
        CLASSES,
        Scaling("point", tuple(np.linspace(-1, 1, 72).tolist()), tuple(np.linspace(1, 2, 72).tolist())),
    ),
    "additive score, branch norm, sinusoidal, sample scaling": (
        ViTConfig(input=(2, 30), patch=(6,), position="sinusoidal", score="additive", norm="branch", **SMALL),
        QUANTITIES,
        Scaling("sample"),
    ),
    "two channels, flat, curvature": (
        ViTConfig(input=(2, 30), patch=(6,), cls=False, pool="flatten", **SMALL),
        QUANTITIES,
        Scaling("curvature", tuple(np.linspace(-1, 1, 60).tolist()), tuple(np.linspace(1, 2, 60).tolist())),
    ),
    "location score, layer scale, channel scaling, gaussian": (
        ViTConfig(input=(1, 30), patch=(6,), score="location", layer_scale=0.5, embed_norm=True, head=(7,), **SMALL),
        Regression(QUANTITIES.targets, (2.4e6, 1.0), (0.5, 0.5), "gaussian"),
        Scaling("channel", (3.0,), (2.0,)),
    ),
    "a volume in a CNN with a non-local block, root scaling": (
        CNNConfig(input=(1, 4, 6, 8), widths=(4, 6), nonlocal_after=(1,), pool="flatten"),
        CLASSES,
        Scaling("root"),
    ),
}


def further(name: str) -> Predictor:
    config, task, scaling = FURTHER[name]
    model = build(type(config).from_dict({**config.to_dict(), "out": task.outputs}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return Predictor(model, task, scaling, [Axis()] * len(config.grid), ["c"] * config.input[0], name)


@lru_cache
def content(kind: str) -> bytes:
    return to_onnx(predictor(kind))


def exported(kind: str) -> OnnxPredictor:
    return open_onnx(content(kind))


def agrees(run: Predictor, exported: OnnxPredictor, x: np.ndarray[Any, Any]) -> None:
    """The same raw outputs, and of these the same quantities, whatever the number of samples."""
    for size in (1, len(x)):
        found = exported.outputs(x[:size])
        np.testing.assert_allclose(found, run.outputs(x[:size]), atol=2e-5, rtol=1e-4)
        wanted, answer = run.answer(torch.from_numpy(found)), exported(x[:size])
        for name in ("probabilities", "values"):
            if getattr(wanted, name) is not None:
                np.testing.assert_allclose(getattr(answer, name), getattr(wanted, name), rtol=1e-9)
        assert answer.rows()[0].keys() == run(x[:size]).rows()[0].keys()


@pytest.mark.parametrize(
    ("name", "choice"),
    [(name, choice) for name in SUPERVISED for choice in choices(name)[: 2 if name == "digits" else 1]],
)
def test_every_recipe(name: str, choice: dict[str, str], tmp_path: Any) -> None:
    train(narrow(two_steps(name, choice)), tmp_path / "run", bar=False)
    run, kept = load(tmp_path / "run"), read_answers(tmp_path / "run")
    assert kept is not None
    agrees(run, open_onnx(to_onnx(run)), kept.samples[:5])


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"peaks", "lines", "cnn picture", "cnn spectrum"}))
def test_every_kind_of_model_that_no_recipe_has(kind: str) -> None:
    agrees(predictor(kind), exported(kind), np.stack([sample(kind, seed) for seed in range(5)]))


@pytest.mark.parametrize("name", FURTHER)
def test_further_choices(name: str) -> None:
    run = further(name)
    agrees(run, open_onnx(to_onnx(run)), 3 * np.random.default_rng(0).random((5, *run.input)))


def test_a_set_may_have_fewer_elements() -> None:
    run, x = predictor("set"), np.stack([sample("set", seed) for seed in range(3)])
    for count in (1, 4, 6):
        np.testing.assert_allclose(exported("set").outputs(x[..., :count]), run.outputs(x[..., :count]), atol=1e-5)
    for answers in (run, exported("set")):
        with pytest.raises(InputError, match=r"found samples of shape \(3, 7\), expected \(3, 6\)"):
            answers(np.zeros((1, 3, 7)))


@pytest.mark.parametrize("kind", ["packed", "jet", "stations", "deep set"])
def test_a_packed_set_may_have_fewer_elements_but_not_none(kind: str) -> None:
    run, x = predictor(kind), np.stack([sample(kind, seed) for seed in range(3)])
    for count in (1, 4, 6):
        np.testing.assert_allclose(exported(kind).outputs(x[..., :count]), run.outputs(x[..., :count]), atol=1e-5)
    x[1] = 0
    for answers in (run, exported(kind)):
        with pytest.raises(InputError, match="sample 1 is an empty set, expected an element that is not zero"):
            answers(x)


def test_more_samples_than_fit_into_a_batch_keep_their_order() -> None:
    run = predictor("spectrum")
    x = np.random.default_rng(0).normal(size=(300, 47)).astype(np.float32)
    np.testing.assert_allclose(exported("spectrum").outputs(x), run.outputs(x), atol=1e-5)


def test_whole_numbers_are_taken_as_a_run_takes_them() -> None:
    run = predictor("picture")
    x = np.random.default_rng(0).integers(0, 255, (2, 12, 8), dtype=np.uint8)
    np.testing.assert_allclose(exported("picture").outputs(x), run.outputs(x), rtol=1e-4, atol=1e-4)


def test_the_file_names_its_parts_and_nothing_of_the_machine() -> None:
    model = onnx.load_model_from_string(content("picture"))
    onnx.checker.check_model(model, full_check=True)
    (x,) = model.graph.input
    assert [size.dim_param or size.dim_value for size in x.type.tensor_type.shape.dim] == ["batch", 1, 12, 8]
    assert [output.name for output in model.graph.output] == ["outputs", "probabilities"]
    names = [node.name for node in model.graph.node]
    assert "model.blocks.0.attention.qkv/MatMul" in names
    assert len(set(names)) == len(names)
    assert b".py" not in content("picture")
    assert b"site-packages" not in content("picture")


def test_a_model_that_answers_otherwise_is_not_exported() -> None:
    run = predictor("spectrum")
    with pytest.raises(InputError, match="differs from the run by"):
        check_parity(run, predictor("spectrum", seed=1), example_samples(run, None))


def test_weights_that_one_file_cannot_hold_are_told_in_one_line() -> None:
    with pytest.raises(InputError, match="one ONNX file holds 2; use --format torch"):
        to_onnx(predictor("spectrum"), max_bytes=1000)
