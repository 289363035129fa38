"""Samples without spread: a run and its ONNX file scale them alike, and no answer is NaN."""

from functools import lru_cache

import numpy as np
import pytest
import torch

from tests.insight.predictors import QUANTITIES
from vitreous.core.errors import InputError
from vitreous.data.scale import Scaling
from vitreous.data.source import Axis
from vitreous.export.onnx_file import to_onnx
from vitreous.nn import ViTConfig, build
from vitreous.run.onnx import OnnxPredictor, open_onnx
from vitreous.run.predictor import Predictor

POINTS = 40
KINDS = ("sample", "root", "slope", "curvature")
LINE = np.linspace(0, 1, POINTS)
DEGENERATE = {
    "constant": np.full(POINTS, 0.1), "large constant": np.full(POINTS, 1234.567), "zeros": np.zeros(POINTS),
    "tiny constant": np.full(POINTS, 3e-20), "negative": np.full(POINTS, -2.0), "line": 3 + 0.1 * LINE,
    "flat line": 1 + 1e-9 * LINE, "rounding": 7.7 + 4e-7 * np.sin(1e3 * LINE),
}  # fmt: skip


def make(kind: str) -> Predictor:
    torch.manual_seed(0)
    config = ViTConfig(input=(1, POINTS), patch=(8,), dim=12, depth=1, heads=2, out=QUANTITIES.outputs)
    fitted = ((0.0,) * POINTS, (1.0,) * POINTS) if kind in ("slope", "curvature") else ((), ())
    return Predictor(build(config), QUANTITIES, Scaling(kind, *fitted), [Axis()], ["c"], "lines")


@lru_cache
def pair(kind: str) -> tuple[Predictor, OnnxPredictor]:
    return make(kind), open_onnx(to_onnx(make(kind)))


@pytest.mark.parametrize("sample", DEGENERATE)
@pytest.mark.parametrize("kind", KINDS)
def test_onnx_answers_as_the_run_does(kind: str, sample: str) -> None:
    run, exported = pair(kind)
    x = DEGENERATE[sample][None].astype(np.float32)
    np.testing.assert_allclose(exported.outputs(x), run.outputs(x), atol=1e-4)


@pytest.mark.parametrize("kind", ["sample", "slope", "curvature"])
@pytest.mark.parametrize("height", [0.0, 0.1, 1 / 3, 1e-20, 1234.567, -3e5])
def test_a_constant_sample_is_scaled_to_zeros(kind: str, height: float) -> None:
    scaled = make(kind).scaling(torch.full((2, 1, POINTS), height))
    assert not scaled.any()


@pytest.mark.parametrize("which", [0, 1])
def test_an_answer_that_is_not_finite_is_an_error_that_names_the_sample(which: int) -> None:
    x = np.stack([LINE, LINE * 1e300])
    with pytest.raises(InputError, match=r"the answer for sample 1 is not finite"):
        pair("sample")[which](x)
