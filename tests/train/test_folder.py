"""Files of a run folder: one that parses, but is not what was written there, is one line that names it."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import vitreous as vt
from vitreous.core.errors import InputError
from vitreous.data import Axis, Source
from vitreous.run.folder import read_experiment, read_log, read_result
from vitreous.train import SupervisedJob, TrainConfig, train

READERS = {"experiment.json": read_experiment, "result.json": read_result, "metrics.jsonl": read_log}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    x = np.random.default_rng(0).normal(size=(60, 1, 8)).astype(np.float32)
    source = Source("job", x, np.arange(60) % 2, (Axis(),), ("i",), ("a", "b"))
    model = vt.ViTConfig(input=(1, 8), patch=(4,), dim=4, depth=1, heads=1)
    folder = tmp_path_factory.mktemp("folder") / "run"
    train(SupervisedJob(source, model, TrainConfig(steps=2, batch=8)), folder, bar=False)
    return folder


def test_what_training_wrote_is_read(run: Path) -> None:
    assert sum(read_experiment(run)["samples"].values()) == 60
    assert set(read_result(run)) == {"parameters", "validation", "test", "steps", "seconds"}
    assert "accuracy" in read_log(run)[-1]["validation"]


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("experiment.json", '{"command": []}', "'train'"),
        ("experiment.json", "[]", "its content"),
        ("experiment.json", "\xff", "experiment.json"),
        ("result.json", "5", "its content"),
        ("result.json", '{"test": 5}', "'test'"),
        ("result.json", '{"test": {"accuracy": "high"}}', "'accuracy'"),
        ("result.json", '{"steps": "many"}', "'steps'"),
        ("metrics.jsonl", "5", "its content"),
        ("metrics.jsonl", '{"step": 1}', "'loss'"),
        ("metrics.jsonl", '{"step": 1, "validation": []}', "'validation'"),
        ("metrics.jsonl", '{"step": 1, "validation": {"accuracy": 1}}', "'loss'"),
    ],
)
def test_what_it_did_not_write_is_one_line(run: Path, tmp_path: Path, name: str, text: str, what: str) -> None:
    (tmp_path / name).write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=f"{name}: is damaged") as fault:
        READERS[name](tmp_path)
    assert what in str(fault.value)


@pytest.mark.parametrize(("key", "value"), [("command", [1]), ("samples", {"train": 3}), ("train", {}), ("test", "")])
def test_every_part_of_an_experiment_is_checked(run: Path, tmp_path: Path, key: str, value: object) -> None:
    shutil.copy(run / "experiment.json", tmp_path)
    about = read_experiment(tmp_path) | {key: value}
    (tmp_path / "experiment.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match=r"experiment\.json: is damaged"):
        read_experiment(tmp_path)
