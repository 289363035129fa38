"""Damaged bytes never answer: a flipped bit in a file of a run or of an export is one line that names the file."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import vitreous as vt
from tests.train.test_resume import begin, heights, supervised
from tests.users import fails
from vitreous.core.errors import InputError
from vitreous.estimators import ViTRegressor
from vitreous.export.files import export_run
from vitreous.run.folder import WITH_CHECKSUMS, read_experiment, read_log, read_result
from vitreous.train import train
from vitreous.train.checkpoint import LAST
from vitreous.zoo import load_model

FLIPS = 100


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checksums") / "run"
    train(supervised(), folder, device="cpu", bar=False)
    export_run(folder, folder.parent / "model.onnx")
    export_run(folder, folder.parent / "model.safetensors", "torch")
    return folder


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "run"))


def flips(path: Path) -> list[bytes]:
    """The content of a file with one bit flipped, at random places."""
    content, rng = path.read_bytes(), np.random.default_rng(0)
    places = rng.integers(0, 8 * len(content), FLIPS)
    return [
        content[: place // 8] + bytes([content[place // 8] ^ 1 << place % 8]) + content[place // 8 + 1 :]
        for place in places.tolist()
    ]


def refused(path: Path, name: str) -> None:
    with pytest.raises(InputError) as error:
        vt.load(path)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "task.json"])
def test_a_flipped_bit_in_a_run_is_refused(copy: Path, name: str) -> None:
    for content in flips(copy / name):
        (copy / name).write_bytes(content)
        refused(copy, name)


@pytest.mark.parametrize("name", ["model.onnx", "model.safetensors"])
def test_a_flipped_bit_in_an_export_is_refused(run: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    shutil.copy(run.parent / name, path)
    vt.load(path)
    for content in flips(path):
        path.write_bytes(content)
        refused(path, name)


def test_a_flipped_bit_in_a_checkpoint_is_refused(tmp_path: Path) -> None:
    begin(supervised(), tmp_path)
    for content in flips(tmp_path / LAST)[:20]:
        (tmp_path / LAST).write_bytes(content)
        with pytest.raises(InputError, match=r"state\.safetensors: is damaged"):
            train(supervised(), tmp_path, resume=True, device="cpu", bar=False)


@pytest.mark.parametrize(
    ("name", "reader"),
    [("experiment.json", read_experiment), ("metrics.jsonl", read_log), ("result.json", read_result)],
)
def test_what_a_report_reads_is_verified(copy: Path, name: str, reader: object) -> None:
    (copy / name).write_bytes((copy / name).read_bytes().replace(b"1", b"2", 1))
    with pytest.raises(InputError, match=f"{name}: is damaged .its content differs from the checksum in checksums"):
        reader(copy)  # type: ignore[operator]


def test_the_command_line_refuses_in_one_line(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = copy / "model.safetensors"
    path.write_bytes(flips(path)[0])
    for command in (["predict", str(copy), "none.csv"], ["export", str(copy), "--out", str(copy / "model.onnx")]):
        assert "model.safetensors: is damaged" in fails(capsys, *command)
    assert "model.safetensors: is damaged" in fails(capsys, "report", str(copy))


def test_a_run_of_an_earlier_version_is_loaded(copy: Path) -> None:
    (copy / "checksums.json").unlink()
    assert vt.load(copy)(heights().x[:2]).values is not None


def test_damaged_checksums_are_one_line(copy: Path) -> None:
    for text in ("{", "[]", "[" * 100_000):
        (copy / "checksums.json").write_text(text)
        refused(copy, "checksums.json")


def test_a_model_saved_to_a_run_again_is_loaded(copy: Path) -> None:
    model = load_model(copy)
    next(model.parameters()).data += 1
    vt.save_model(model, copy)
    vt.load(copy)


def test_checksums_follow_when_a_run_is_finished_later(tmp_path: Path) -> None:
    """Those of a training that was stopped just before its result do not outlast it."""
    begin(supervised(), tmp_path)
    (tmp_path / LAST).unlink()
    train(supervised(), tmp_path, resume=True, device="cpu", bar=False)
    vt.load(tmp_path)


def test_an_estimator_saves_checksums(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(40, 12))
    ViTRegressor(steps=2, dim=8, depth=1, device="cpu").fit(x, x[:, 0]).save(tmp_path / "run")
    ViTRegressor.load(tmp_path / "run")
    for name in ("model.safetensors", "estimator.json"):
        content = (tmp_path / "run" / name).read_bytes()
        (tmp_path / "run" / name).write_bytes(content[:-3] + b" " + content[-2:])
        with pytest.raises(InputError, match=f"{name}: is damaged"):
            ViTRegressor.load(tmp_path / "run")
        (tmp_path / "run" / name).write_bytes(content)


def test_every_file_that_an_answer_depends_on_is_covered(run: Path) -> None:
    unneeded = {"last", "checksums.json"}
    assert {path.name for path in run.iterdir()} - unneeded <= set(WITH_CHECKSUMS)
