"""Eight bits: smaller, close to the run, with what it costs measured on the run's own test part."""

import contextlib
import io
import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.insight.predictors import QUANTITIES
from tests.users import fails
from vitreous.cli import main
from vitreous.data import Axis, digits
from vitreous.data.scale import Scaling
from vitreous.export.int8 import to_int8
from vitreous.export.onnx_file import to_onnx
from vitreous.nn import ViTConfig, build
from vitreous.recipes import jobs
from vitreous.run.onnx import load_onnx, open_onnx
from vitreous.run.provenance import Provenance
from vitreous.train import Predictor, load

PRODUCTS = {"vit": "MatMulInteger", "cnn": "QuantizeLinear"}


@pytest.fixture(scope="module")
def small(pictures: Path) -> dict[str, tuple[Path, str]]:
    """For each run, its int8 model and what was printed."""
    found = {}
    for model in PRODUCTS:
        path, told = pictures / f"{model}-int8.onnx", io.StringIO()
        with contextlib.redirect_stdout(told):
            main(["export", str(pictures / model), "--int8", "--out", str(path)])
        found[model] = path, told.getvalue()
    return found


@pytest.mark.parametrize("model", PRODUCTS)
def test_the_loss_that_is_printed_is_the_loss_on_the_test_part(
    model: str, pictures: Path, small: dict[str, tuple[Path, str]]
) -> None:
    path, told = small[model]
    assert "360 samples of the test part of digits" in " ".join(told.split())
    assert "Largest difference from the run: " in told
    row = next(line for line in told.splitlines() if "accuracy" in line)
    printed = [float(number) for number in re.findall(r"[+-]?\d[\d.e-]*", row)]
    source = digits()
    assert source.y is not None
    x, y = source.x[source.parts["test"]], source.y[source.parts["test"]]
    runs = load(pictures / model), load_onnx(path)
    before, after = ((np.asarray(run.outputs(x)).argmax(1) == y).mean() for run in runs)
    np.testing.assert_allclose(printed, [before, after, after - before], atol=1e-4)
    assert after > before - 0.02
    assert runs[1].precision == "int8"
    assert PRODUCTS[model] in [node.op_type for node in onnx.load(path).graph.node]


def test_the_first_layer_and_the_head_stay_in_float32(small: dict[str, tuple[Path, str]], digits_onnx: Path) -> None:
    path, _ = small["vit"]
    nodes = onnx.load(path).graph.node
    exact = [node.name for node in nodes if node.op_type in ("MatMul", "Gemm")]
    eight = [node.name for node in nodes if node.op_type == "MatMulInteger"]
    assert [name.split("/")[0] for name in exact] == ["model.tokenizer.project", "model.head.layers.0"]
    assert len(eight) == 4 + 5  # in the last block the class token alone asks: queries apart from keys and values
    assert all(name.startswith("model.blocks.") for name in eight)
    assert path.stat().st_size < digits_onnx.stat().st_size


@pytest.mark.parametrize("score", ["general", "location"])
def test_scores_with_weights_of_their_own_stay_as_they_are(score: str) -> None:
    config, task = ViTConfig(input=(1, 20), patch=(5,), dim=8, depth=1, heads=2, score=score, out=2), QUANTITIES
    run = Predictor(build(config), task, Scaling(), [Axis()], ["c"])
    x = np.random.default_rng(0).normal(size=(4, 1, 20)).astype(np.float32)
    found = open_onnx(to_int8(to_onnx(run), run, x)).outputs(x)
    np.testing.assert_allclose(found, run.outputs(x), atol=0.05)


def test_quantities_are_measured_too(regression: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["export", str(regression / "run"), "--int8", "--out", str(tmp_path / "small.onnx")])
    out = capsys.readouterr().out
    assert "of the test part of spectra.csv" in " ".join(out.split())
    assert all(score in out for score in ("mae", "rmse", "r2"))


def test_a_run_whose_data_are_gone_needs_others(
    regression: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, words = regression / "spectra.csv", ["export", str(regression / "run"), "--int8"]
    words += ["--out", str(tmp_path / "small.onnx")]
    moved = data.rename(tmp_path / "moved.csv")
    try:
        assert "name labelled data with --data" in fails(capsys, *words)
    finally:
        moved.rename(data)
    monkeypatch.setattr(jobs, "read_provenance", lambda _: Provenance())
    assert "does not say which data it was trained on" in fails(capsys, *words)
    assert not list(tmp_path.iterdir())


def test_mistakes_are_one_line(regression: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, out = str(regression / "run"), str(tmp_path / "small.onnx")
    weights = str(tmp_path / "m.safetensors")
    assert "int8: is for --format onnx" in fails(capsys, "export", run, "--format", "torch", "--int8", "--out", weights)
    assert "the loss of --int8" in fails(capsys, "export", run, "--out", out, "--data", "digits")
    assert "found labels 0, 1, 2" in fails(capsys, "export", run, "--int8", "--out", out, "--data", "digits")
    assert not list(tmp_path.iterdir())
