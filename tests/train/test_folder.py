"""Files of a run folder: one that parses, but is not what was written there, is one line that names it."""

import contextlib
import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vitreous as vt
from tests.users import fails
from vitreous.core.errors import InputError
from vitreous.data import Axis, Source
from vitreous.run.folder import read_experiment, read_log, read_result
from vitreous.train import SupervisedJob, TrainConfig, train
from vitreous.train.progress import Log

DEEP = "[" * 100_000
READERS = {"experiment.json": read_experiment, "result.json": read_result, "metrics.jsonl": read_log}


def classes() -> SupervisedJob:
    x = np.random.default_rng(0).normal(size=(60, 1, 8)).astype(np.float32)
    source = Source("job", x, np.arange(60) % 2, (Axis(),), ("i",), ("a", "b"))
    model = vt.ViTConfig(input=(1, 8), patch=(4,), dim=4, depth=1, heads=1)
    return SupervisedJob(source, model, TrainConfig(steps=2, batch=8))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folder") / "run"
    train(classes(), folder, bar=False)
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
        ("experiment.json", DEEP, "nested too deeply"),
        ("result.json", DEEP, "nested too deeply"),
        ("metrics.jsonl", DEEP, "nested too deeply"),
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


@pytest.fixture
def earlier(run: Path, tmp_path: Path) -> Path:
    """A copy of the run as an earlier version left it: no checksum finds the damage."""
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    (copy / "checksums.json").unlink()
    return copy


def paths_in(values: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The place of every value in nested lists and dictionaries."""
    inner = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    return [path, *(place for key, value in inner for place in paths_in(value, (*path, key)))]


def changed(values: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The same values with another one at a place."""
    if not path:
        return value
    copy = values.copy()
    copy[path[0]] = changed(values[path[0]], path[1:], value)
    return copy


@pytest.mark.parametrize("name", ["task.json", "config.json"])
@pytest.mark.parametrize("wrong", [None, "x", 7, -1, 1e300, [], {}, [[1]], True], ids=str)
def test_a_wrong_value_anywhere_is_one_line_or_harmless(earlier: Path, name: str, wrong: object) -> None:
    values = json.loads((earlier / name).read_text())
    for place in paths_in(values):
        (earlier / name).write_text(json.dumps(changed(values, place, wrong)))
        with contextlib.suppress(InputError):
            vt.load(earlier)(np.zeros((1, 1, 8))).rows()


@pytest.mark.parametrize("name", ["task.json", "config.json", "result.json"])
def test_deeply_nested_values_are_one_line(earlier: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (earlier / name).write_text(DEEP)
    command = ["compare", str(earlier)] if name == "result.json" else ["predict", str(earlier), "none.csv"]
    assert f"{name}: is damaged (not valid JSON: its values are nested" in fails(capsys, *command)


def test_a_damaged_result_is_one_line_on_resume(earlier: Path) -> None:
    (earlier / "result.json").write_text("{")
    with pytest.raises(InputError, match=r"result\.json: is damaged"):
        train(classes(), earlier, resume=True, bar=False)


def test_a_full_disk_while_metrics_are_appended_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(Path):
        _flavour = type(Path())._flavour  # type: ignore[attr-defined]

        def open(self, mode: str = "r", *args: Any, **options: Any) -> Any:
            if "a" in mode:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().open(mode, *args, **options)

    log = Log(Full(tmp_path / "metrics.jsonl"))
    with pytest.raises(InputError, match=r"metrics\.jsonl: cannot be written .No space left on device"):
        log.step(1, {"loss": 1.0})
