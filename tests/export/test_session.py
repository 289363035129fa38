"""An ONNX model answers files as its run does, where torch cannot be imported; what is wrong is one line."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image

import vitreous as vt
from tests.users import fails
from vitreous.cli import main
from vitreous.core.errors import InputError
from vitreous.data import digits
from vitreous.run.onnx import ABOUT, load_onnx, open_onnx

WITHOUT_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name=name)

sys.meta_path.insert(0, NoTorch())
from vitreous.cli import main
main(sys.argv[1:])
assert "torch" not in sys.modules
"""


def start_without_torch(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_TORCH, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def without_torch(*words: str) -> str:
    done = start_without_torch(*words)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def model(regression: Path) -> Path:
    main(["export", str(regression / "run"), "--out", str(regression / "model.onnx")])
    return regression / "model.onnx"


def same(found: str, wanted: str) -> None:
    """Two JSON answers: the same records under the same names, numbers to six digits."""
    one, other = json.loads(found), json.loads(wanted)
    assert [list(row) for row in one] == [list(row) for row in other]
    for a, b in zip(one, other, strict=True):
        assert {k: v for k, v in a.items() if isinstance(v, str)} == {k: v for k, v in b.items() if isinstance(v, str)}
        for name in a:
            assert isinstance(a[name], str) or a[name] == pytest.approx(b[name], rel=1e-4, abs=1e-6)


def test_quantities_with_intervals(regression: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(regression / "spectra.csv"), "--interval", "0.7", "--format", "json"]
    main(["predict", str(regression / "run"), *words])
    wanted = capsys.readouterr().out
    assert "height (mm) upper 70%" in wanted
    same(without_torch("predict", str(model), *words), wanted)


def test_classes_of_images(
    pictures: Path, digits_onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for i, image in enumerate(digits().x[:3, 0]):
        Image.fromarray((255 * image).astype(np.uint8)).save(tmp_path / f"{i}.png")
    words = [*(str(tmp_path / f"{i}.png") for i in range(3)), "--format", "json"]
    main(["predict", str(pictures / "vit"), *words])
    same(without_torch("predict", str(digits_onnx), *words), capsys.readouterr().out)


def test_a_run_without_torch_is_told_in_one_line(regression: Path) -> None:
    done = start_without_torch("predict", str(regression / "run"), str(regression / "spectra.csv"))
    assert done.returncode == 2
    assert done.stderr.startswith("vitreous: error: this needs torch, which is not installed")
    assert done.stderr.count("\n") == 1


def test_it_is_loaded_as_a_run_is(regression: Path, model: Path) -> None:
    x = np.random.default_rng(0).normal(size=(3, 24))
    wanted, found = vt.load(regression / "run")(x, coverage=0.5), vt.load(model)(x, coverage=0.5)
    for name in ("values", "lower", "upper"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-4)
    with pytest.raises(InputError, match="is an ONNX model, which computes on the cpu"):
        vt.load(model, device="cuda")


def test_another_axis_is_carried_to_the_models_own(
    regression: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fine = np.linspace(498, 548, 101)
    x = np.random.default_rng(0).normal(size=(2, 101)).cumsum(1)
    np.savetxt(tmp_path / "fine.csv", x, delimiter=",", header=",".join(map(str, fine)), comments="")
    answers = []
    for path in (regression / "run", model):
        main(["predict", str(path), str(tmp_path / "fine.csv"), "--format", "json"])
        answers.append(capsys.readouterr().out)
    same(answers[1], answers[0])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 23)), r"found samples of shape \(1, 23\), expected \(1, 24\)"),
        (np.zeros((2, 2, 24)), r"found samples of shape \(2, 24\), expected \(1, 24\)"),
        (np.full((2, 24), np.nan), "sample 0 has values that are not finite"),
        (np.full((2, 24), "a"), "expected numbers"),
    ],
)
def test_samples_that_do_not_fit_are_told_in_one_line(model: Path, x: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_onnx(model)(x)


def test_files_that_do_not_fit_are_told_in_one_line(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short, gap, bad = tmp_path / "short.csv", tmp_path / "gap.csv", tmp_path / "bad.onnx"
    short.write_text("500,503,506\n1,2,3\n")
    gap.write_text(",".join(str(500 + 2 * i) for i in range(24)) + "\n" + ",".join(["1"] * 23) + ",NaN\n")
    assert "but the model needs 500 to 546" in fails(capsys, "predict", str(model), str(short))
    assert "found nan in row 0, column 546" in fails(capsys, "predict", str(model), str(gap))
    assert "anode: only for powder patterns" in fails(capsys, "predict", str(model), str(short), "--anode", "Cu")
    assert "no such file" in fails(capsys, "predict", str(tmp_path / "none.onnx"), str(short))
    for content in (b"", b"no model", model.read_bytes()[:2000]):
        bad.write_bytes(content)
        assert "bad.onnx: cannot be read as an ONNX model (" in fails(capsys, "predict", str(bad), str(short))
    (tmp_path / "model.pt2").write_bytes(b"PK")
    assert "neither a run folder nor a file of these: .onnx" in fails(
        capsys, "predict", str(tmp_path / "model.pt2"), str(short)
    )


def test_the_model_of_another_maker_is_told_in_one_line(model: Path) -> None:
    found = onnx.load(model)
    (note,) = found.metadata_props
    about = json.loads(note.value)
    for text, message in (
        (json.dumps(about | {"format": 99}), "was written in format 99, this version reads 1"),
        (json.dumps({"format": 1}), "its description is damaged"),
        ("[]", "its description is damaged"),
        ("{", "its description is damaged"),
    ):
        note.value = text
        with pytest.raises(InputError, match=message):
            open_onnx(found.SerializeToString())
    note.key = "other"
    assert note.key != ABOUT
    with pytest.raises(InputError, match="vitreous did not export"):
        open_onnx(found.SerializeToString())
