"""A resumed training has the data, the model and the choices that it was begun with, or one line says what differs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
from safetensors import safe_open

import vitreous as vt
from tests.spectra import spectra_file
from tests.users import fails
from vitreous.cli import main
from vitreous.core.errors import InputError
from vitreous.data import Axis, Source, Target
from vitreous.data.augment import Augment
from vitreous.nn.pretraining import PretrainConfig
from vitreous.text.job import TranslationJob
from vitreous.text.pairs import split_pairs
from vitreous.text.transformer import TransformerConfig
from vitreous.train import PruneJob, SupervisedJob, TrainConfig, pretrain_job, read_start, train
from vitreous.train.checkpoint import LAST
from vitreous.train.job import Job

SETTINGS = TrainConfig(steps=2, batch=8, evaluate_every=1)
MODEL = vt.ViTConfig(input=(1, 12), patch=(4,), dim=4, depth=1, heads=1)


def heights(**changes: Any) -> Source:
    """Spectra of 12 points and their heights."""
    x = np.random.default_rng(0).normal(size=(60, 1, 12)).astype(np.float32)
    return replace(
        Source("heights", x, x.max(2).astype(np.float64), (Axis("at", "nm"),), ("i",), (), (Target("height", "mm"),)),
        **changes,
    )


def supervised(**changes: Any) -> SupervisedJob:
    return replace(SupervisedJob(heights(), MODEL, SETTINGS), **changes)


def other_labels() -> Source:
    labels = np.array(heights().y)
    labels[17] += 1e-9
    return heights(y=labels)


def other_samples() -> Source:
    samples = np.array(heights().x)
    samples[17, 0, 3] += 1e-6
    return heights(x=samples)


def translation(word: str = "eins", **changes: Any) -> TranslationJob:
    pairs = split_pairs("numbers", [(f"one {i}", f"{word if i == 7 else 'eins'} {i}") for i in range(100)])
    config = TransformerConfig(60, 16, dim=8, depth=1, heads=1)
    return replace(TranslationJob(pairs, config, SETTINGS, ("English", "German"), 60, scored=False), **changes)


def begin(job: Job, folder: Path) -> None:
    """Leave a training that can be resumed."""
    train(job, folder, device="cpu", bar=False)
    (folder / "result.json").unlink()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


SUPERVISED: dict[str, tuple[Callable[[], Any], str]] = {
    "labels": (lambda: supervised(source=other_labels()), "the labels differ from those that the run was begun with"),
    "samples": (lambda: supervised(source=other_samples()), "the samples differ from those that the run was begun"),
    "unit": (lambda: supervised(source=heights(targets=(Target("height", "cm"),))), "'height .mm.'.*'height .cm.'"),
    "axis": (lambda: supervised(source=heights(axes=(Axis("at", "µm"),))), r"axes = .*nm"),
    "scale": (lambda: supervised(scale="sample"), "was begun with scale = 'channel', not 'sample'"),
    "loss": (lambda: supervised(loss_name="l1"), "was begun with loss = '', not 'l1'"),
    "augment": (lambda: supervised(augment=Augment(noise=0.5)), r"was begun with augment.noise = 0.0, not 0.5"),
    "model": (lambda: supervised(config=MODEL.replace(dim=8)), "was begun with model.dim = 4, not 8"),
    "share": (lambda: supervised(validation=0.2), "was begun with validation = 0.1, not 0.2"),
    "parts": (lambda: supervised(source=heights(parts={"test": np.arange(6)})), "the parts of the samples differ"),
}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resume") / "run"
    begin(supervised(), folder)
    return folder


@pytest.mark.parametrize("name", SUPERVISED)
def test_what_differs_is_named_before_anything_is_written(begun: Path, name: str) -> None:
    create, message = SUPERVISED[name]
    before = contents(begun)
    with pytest.raises(InputError, match=message):
        train(create(), begun, resume=True, device="cpu", bar=False)
    assert contents(begun) == before


def test_the_recipe_and_the_system_are_compared(tmp_path: Path) -> None:
    job = supervised()
    job.provenance = replace(job.provenance, recipe="powder-vit", system="cubic")
    begin(job, tmp_path / "run")
    job.provenance = replace(job.provenance, system="monoclinic")
    with pytest.raises(InputError, match="was begun with system = 'cubic', not 'monoclinic'"):
        train(job, tmp_path / "run", resume=True, device="cpu", bar=False)


def test_a_pre_training_compares_samples_and_method(tmp_path: Path) -> None:
    begin(pretrain_job(supervised(), PretrainConfig()), tmp_path / "run")
    for job, message in (
        (pretrain_job(supervised(source=other_samples()), PretrainConfig()), "the samples differ"),
        (pretrain_job(supervised(), PretrainConfig(ratio=0.5)), "was begun with method.ratio = "),
    ):
        with pytest.raises(InputError, match=message):
            train(job, tmp_path / "run", resume=True, device="cpu", bar=False)


def test_a_pruning_compares_budget_and_weights(tmp_path: Path) -> None:
    for seed in (0, 1):
        train(supervised(settings=replace(SETTINGS, seed=seed)), tmp_path / str(seed), device="cpu", bar=False)
    config = MODEL.replace(thresholds=True)

    def pruning(run: str, budget: float) -> PruneJob:
        return PruneJob(heights(), config, SETTINGS, start=read_start(tmp_path / run), budget=budget)

    begin(pruning("0", 0.5), tmp_path / "run")
    for job, message in ((pruning("0", 0.7), "budget = 0.5, not 0.7"), (pruning("1", 0.5), "weights to begin with")):
        with pytest.raises(InputError, match=message):
            train(job, tmp_path / "run", resume=True, device="cpu", bar=False)


def test_a_translation_compares_its_texts(tmp_path: Path) -> None:
    begin(translation(), tmp_path / "run")
    with pytest.raises(InputError, match="texts differ from those that the run was begun with"):
        train(translation("ein"), tmp_path / "run", resume=True, device="cpu", bar=False)
    with pytest.raises(InputError, match=r"was begun with languages = \['English', 'German'\], not"):
        train(translation(languages=("en", "de")), tmp_path / "run", resume=True, device="cpu", bar=False)


def test_a_finished_run_is_not_returned_for_other_labels(tmp_path: Path) -> None:
    train(supervised(), tmp_path / "run", device="cpu", bar=False)
    assert train(supervised(), tmp_path / "run", resume=True, bar=False)["steps"] == 2
    with pytest.raises(InputError, match="the labels differ"):
        train(supervised(source=other_labels()), tmp_path / "run", resume=True, bar=False)


def test_another_scaling_on_the_command_line_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = spectra_file(tmp_path / "spectra.csv", rows=40)
    command = ["train", str(data), "--target", "height:mm", "--steps", "2", "--out", str(tmp_path / "run")]
    main(command)
    (tmp_path / "run" / "result.json").unlink()
    assert "scale = " in fails(capsys, *command, "--scale", "slope", "--resume")
    data.rename(tmp_path / "moved.csv")  # its content counts, not its name
    command[1] = str(tmp_path / "moved.csv")
    main([*command, "--resume"])
    assert (tmp_path / "run" / "result.json").is_file()


def without_fingerprint(folder: Path) -> None:
    """Make the checkpoint one of an earlier version."""
    path = folder / LAST
    with safe_open(path, "pt") as file:
        text = file.metadata()["vitreous"]
    start = text.index(', "fingerprint"')
    path.write_bytes(safetensors.torch.save(safetensors.torch.load_file(path), {"vitreous": text[:start] + "}"}))


def test_a_checkpoint_of_an_earlier_version_is_resumed(tmp_path: Path) -> None:
    begin(supervised(), tmp_path / "run")
    without_fingerprint(tmp_path / "run")
    assert train(supervised(), tmp_path / "run", resume=True, device="cpu", bar=False)["steps"] == 2


def test_a_checkpoint_of_an_earlier_version_and_another_model_is_one_line(tmp_path: Path) -> None:
    begin(supervised(), tmp_path / "run")
    without_fingerprint(tmp_path / "run")
    with pytest.raises(InputError, match=r"state.safetensors: is of another model"):
        train(supervised(config=MODEL.replace(dim=8)), tmp_path / "run", resume=True, device="cpu", bar=False)


def test_spectra_that_stay_in_their_file_train_and_resume_as_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    h5py = pytest.importorskip("h5py", reason="needs the extra files")
    x = np.random.default_rng(0).normal(size=(60, 12)).astype(np.float32)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"], file["y"] = x, x.max(1).astype(np.float64)
    in_memory = SupervisedJob(vt.data.read(tmp_path / "x.h5"), MODEL, SETTINGS)
    train(in_memory, tmp_path / "memory", bar=False)
    monkeypatch.setenv("VITREOUS_MAX_MEMORY", "1e-6")
    by_rows = replace(in_memory, source=vt.data.read(tmp_path / "x.h5"))
    assert not isinstance(by_rows.source.x, np.ndarray)
    train(by_rows, tmp_path / "rows", bar=False)
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("memory", "rows"))
    assert first == second
    (tmp_path / "memory/result.json").unlink()
    train(by_rows, tmp_path / "memory", resume=True, bar=False)  # the same content
