"""Predictions say how familiar their samples are: the same number everywhere, small for unfamiliar samples."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import vitreous as vt
from tests.recipes import narrow, two_steps
from vitreous.cli import main
from vitreous.core.checksums import CHECKSUMS
from vitreous.core.errors import InputError
from vitreous.estimators import ViTRegressor
from vitreous.run.familiarity import FAMILIARITY, Familiarity
from vitreous.train import train

POINTS = 24
GRID = np.linspace(0, 1, POINTS)


def spectra(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Peaks of several heights and places on a baseline, and their heights."""
    rng = np.random.default_rng(seed)
    height, place, slope = rng.uniform(1, 2, count), rng.uniform(0.45, 0.55, count), rng.normal(0, 0.1, count)
    peaks = height[:, None] * np.exp(-(((GRID - place[:, None]) / 0.1) ** 2)) + slope[:, None] * GRID
    return peaks + rng.normal(0, 0.01, peaks.shape), height


def write(path: Path, x: np.ndarray, y: np.ndarray | None = None) -> Path:
    header = [f"{500 + 2 * i}" for i in range(POINTS)] + ([] if y is None else ["height"])
    rows = x if y is None else np.column_stack([x, y])
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows.tolist()])
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a `run`, `model.onnx` and `model.safetensors`, and `new.csv`, whose rows 1 and 3 are unfamiliar."""
    folder = tmp_path_factory.mktemp("familiarity")
    data = write(folder / "spectra.csv", *spectra(300, 0))
    words = ["--target", "height:mm", "--steps", "20", "--batch", "16", "--device", "cpu"]
    main(["train", str(data), "--out", str(folder / "run"), *words])
    main(["export", str(folder / "run"), "--out", str(folder / "model.onnx")])
    main(["export", str(folder / "run"), "--out", str(folder / "model.safetensors"), "--format", "torch"])
    x = spectra(5, 1)[0]
    x[1], x[3] = x[1] * 1e6, x[3, ::-1] + GRID
    write(folder / "new.csv", x)
    return folder


def old_run(folder: Path, to: Path) -> Path:
    """The run as versions without familiarity and checksums wrote it."""
    shutil.copytree(folder / "run", to)
    for name in (FAMILIARITY, CHECKSUMS):
        (to / name).unlink()
    return to


def test_false_alarms_are_as_rare_as_the_number_says(folder: Path) -> None:
    p = vt.load(folder / "run")(spectra(2000, 2)[0]).familiarity
    assert p is not None
    assert p.min() > 0
    assert (p < 0.01).mean() < 0.03
    assert 0.01 < (p < 0.05).mean() < 0.1


@pytest.mark.parametrize(
    "change",
    {
        "noise": lambda x: np.random.default_rng(0).normal(x.mean(), x.std(), x.shape),
        "shifted": lambda x: np.roll(x, 4, axis=1),
        "times 1e6": lambda x: x * 1e6,
        "constant": lambda x: np.full_like(x, x.mean()),
        "upside down": lambda x: -x,
    }.items(),
    ids=lambda change: change[0],
)
def test_samples_unlike_the_training_data_are_found(folder: Path, change: tuple) -> None:
    p = vt.load(folder / "run")(change[1](spectra(100, 3)[0])).familiarity
    assert p is not None
    assert (p < 0.01).mean() >= 0.95


@pytest.mark.parametrize("file", ["model.onnx", "model.safetensors"])
def test_exported_files_give_the_number_of_the_run(folder: Path, file: str) -> None:
    x = np.concatenate([spectra(50, 4)[0], spectra(50, 4)[0][:, ::-1] * 1.5])
    found, wanted = (vt.load(folder / name)(x).familiarity for name in (file, "run"))
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_a_run_or_file_made_without_it_still_predicts(folder: Path, tmp_path: Path) -> None:
    run = old_run(folder, tmp_path / "run")
    main(["export", str(run), "--out", str(tmp_path / "old.onnx")])
    for path in (run, tmp_path / "old.onnx"):
        prediction = vt.load(path)(spectra(3, 5)[0])
        assert prediction.familiarity is None
        assert "familiarity" not in prediction.rows()[0]


def test_a_damaged_description_is_told_in_one_line(folder: Path, tmp_path: Path) -> None:
    run = old_run(folder, tmp_path / "run")
    (run / FAMILIARITY).write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"familiarity.safetensors: .* is damaged"):
        vt.load(run)


@pytest.mark.parametrize("model", ["run", "model.onnx"])
def test_predict_has_a_column_and_warns_of_unfamiliar_rows(
    folder: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["predict", str(folder / model), str(folder / "new.csv"), "--format", "json"])
    out, err = capsys.readouterr()
    assert [row["familiarity"] < 0.01 for row in json.loads(out)] == [False, True, False, True, False]
    said = "2 of 5 samples are unlike the training data (familiarity below 0.01): rows 1, 3"
    assert err == f"vitreous: warning: {said}\n"


def test_unfamiliar_samples_can_be_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "predictions.csv"
    with pytest.raises(SystemExit) as end:
        main(["predict", str(folder / "run"), str(folder / "new.csv"), "--refuse-unfamiliar", "--out", str(out)])
    assert end.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not out.exists()


def test_a_run_that_does_not_know_cannot_refuse(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = old_run(folder, tmp_path / "run")
    with pytest.raises(SystemExit) as end:
        main(["predict", str(run), str(folder / "new.csv"), "--refuse-unfamiliar"])
    assert end.value.code == 2
    assert "does not say how familiar" in capsys.readouterr().err


def test_an_estimator_knows_and_remembers(tmp_path: Path) -> None:
    x, y = spectra(200, 6)
    model = ViTRegressor(steps=5, dim=8, depth=1).fit(x, y)
    model.save(tmp_path / "run")
    new = np.concatenate([x[:5], -x[:5]])
    p = model.familiarity(new)
    assert (p[5:] < 0.01).all()
    np.testing.assert_allclose(ViTRegressor.load(tmp_path / "run").familiarity(new), p)


def test_images_have_a_familiarity(tmp_path: Path) -> None:
    train(narrow(two_steps("digits", {})), tmp_path / "run", bar=False)
    predictor = vt.load(tmp_path / "run")
    p = predictor(np.random.default_rng(0).random((40, *predictor.input))).familiarity
    assert p is not None
    assert (p < 0.01).mean() > 0.9


def test_sets_are_compared_by_their_embedding() -> None:
    embeddings = np.random.default_rng(0).normal(size=(400, 8))
    familiarity = Familiarity.fit((None, embeddings[:200]), (None, embeddings[200:300]))
    assert familiarity is not None
    assert (familiarity.p_values(embeddings[300:], embeddings[300:]) < 0.05).mean() < 0.15
    assert (familiarity.p_values(embeddings[300:], 9 * embeddings[300:]) < 0.01).mean() > 0.9


def test_large_images_are_averaged() -> None:
    rng = np.random.default_rng(0)
    x, e = rng.random((60, 3, 224, 224), dtype=np.float32), rng.normal(size=(60, 8))
    familiarity = Familiarity.fit((x[:40], e[:40]), (x[40:], e[40:]))
    assert familiarity is not None
    assert len(familiarity.to_bytes()) < 1e6
    assert (familiarity.p_values(2 * x[40:], e[40:]) < 0.01).all()


def test_without_a_validation_part_training_samples_calibrate_it() -> None:
    x, y = spectra(200, 7)
    model = ViTRegressor(steps=3, dim=8, depth=1, validation_fraction=0.0).fit(x, y)
    assert (model.familiarity(-x) < 0.01).all()
    assert (model.familiarity(spectra(200, 8)[0]) < 0.05).mean() < 0.15
