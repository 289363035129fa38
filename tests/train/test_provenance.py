"""Provenance of a run: recipe, data, model and system, also of runs that were pruned or made by earlier versions."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.recipes import few_samples, narrow, small_recipe
from tests.spectra import spectra_file
from vitreous.cli import main
from vitreous.core.errors import InputError
from vitreous.data import Axis, Source
from vitreous.recipes.jobs import create_prune_job, load_run_data
from vitreous.run.folder import read_provenance
from vitreous.train import Provenance, SupervisedJob, TrainConfig, train
from vitreous.train.finetune import read_start

FEW_STEPS = TrainConfig(steps=2, batch=4, evaluate_every=2)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on spins of two systems, and the antiperiodic one pruned."""
    folder = tmp_path_factory.mktemp("runs")
    for system in ("periodic", "antiperiodic"):
        job = narrow(small_recipe("ising").create(system=system))
        train(replace(job, settings=FEW_STEPS), folder / system, device="cpu", bar=False)
    with pytest.MonkeyPatch.context() as monkeypatch:
        few_samples(monkeypatch)
        out = str(folder / "pruned")
        main(["prune", str(folder / "antiperiodic"), "--steps", "2", "--batch", "4", "--device", "cpu", "--out", out])
    return folder


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    few_samples(monkeypatch)


def earlier_version(run: Path, copy: Path, command: Sequence[str]) -> Path:
    """A copy of a run with the `experiment.json` of earlier versions, which stored the command and no fields."""
    shutil.copytree(run, copy)
    (copy / "checksums.json").unlink()
    path = copy / "experiment.json"
    experiment = json.loads(path.read_text())
    for name in ("recipe", "data", "targets", "model", "system"):
        del experiment[name]
    pruned = command[1] == "prune"
    path.write_text(json.dumps(experiment | {"command": list(command), "from": "the run" if pruned else ""}))
    return copy


def test_a_pruned_run_keeps_the_system_of_its_parent(runs: Path) -> None:
    provenance, parent = (read_provenance(runs / name) for name in ("pruned", "antiperiodic"))
    assert (provenance.recipe, provenance.model, provenance.system) == ("ising", "vit", "antiperiodic")
    assert provenance.start == str(runs / "antiperiodic")
    assert (parent.recipe, parent.model, parent.system) == ("ising", "vit", "antiperiodic")


def test_a_report_of_a_pruned_run_uses_its_system(runs: Path, tmp_path: Path) -> None:
    expected = small_recipe("ising").load_data(system="antiperiodic")
    periodic = small_recipe("ising").load_data(system="periodic")
    assert not np.array_equal(expected.x, periodic.x)
    np.testing.assert_array_equal(load_run_data(runs / "pruned", "ising").x, expected.x)
    main(["report", str(runs / "pruned"), "--data", "ising", "--out", str(tmp_path / "report.html")])
    text = (tmp_path / "report.html").read_text()
    assert f"of {expected.name}" in text
    assert periodic.name not in text


@pytest.mark.parametrize(
    ("name", "options", "system"),
    [("antiperiodic", ["--system", "antiperiodic"], "antiperiodic"), ("periodic", [], "periodic")],
)
def test_runs_of_earlier_versions_have_the_same_data(
    runs: Path, tmp_path: Path, name: str, options: list[str], system: str
) -> None:
    command = ["vitreous", "train", "ising", "--model", "vit", *options, "--steps", "2"]
    run = earlier_version(runs / name, tmp_path / name, command)
    provenance = read_provenance(run)
    assert (provenance.recipe, provenance.model) == ("ising", "vit")
    assert provenance.command == tuple(command)
    expected = small_recipe("ising").load_data(system=system)
    for data in (None, "ising"):
        np.testing.assert_array_equal(load_run_data(run, data).x, expected.x)


def test_a_pruning_of_a_run_of_an_earlier_version_stores_all_fields(runs: Path, tmp_path: Path) -> None:
    words = ["vitreous", "train", "ising", "--system", "antiperiodic"]
    run = earlier_version(runs / "antiperiodic", tmp_path / "run", words)
    provenance = create_prune_job(run, 0.5, None, (), {}).provenance
    assert replace(provenance, command=()) == Provenance("ising", model="vit", system="antiperiodic", start=str(run))


def test_a_run_pruned_by_an_earlier_version_has_the_provenance_of_its_parent(runs: Path, tmp_path: Path) -> None:
    words = ["vitreous", "train", "ising", "--system", "antiperiodic"]
    parent = earlier_version(runs / "antiperiodic", tmp_path / "parent", words)
    words = ["vitreous", "prune", str(parent), "--budget=0.5", "--steps=2"]
    pruned = earlier_version(runs / "pruned", tmp_path / "pruned", words)
    assert read_provenance(pruned) == read_provenance(parent)
    expected = small_recipe("ising").load_data(system="antiperiodic")
    np.testing.assert_array_equal(load_run_data(pruned, "ising").x, expected.x)


def test_without_its_parent_a_run_pruned_by_an_earlier_version_has_no_system(runs: Path, tmp_path: Path) -> None:
    words = ["vitreous", "prune", str(tmp_path / "nowhere"), "--budget=0.5"]
    pruned = earlier_version(runs / "pruned", tmp_path / "pruned", words)
    with pytest.raises(InputError, match="does not say which of the systems"):
        load_run_data(pruned, "ising")
    with pytest.raises(InputError, match="does not say which data"):
        load_run_data(pruned)


def test_spectra_of_a_run_of_an_earlier_version_are_read_with_its_targets(tmp_path: Path) -> None:
    data, run = str(spectra_file(tmp_path / "spectra.csv", rows=60)), tmp_path / "run"
    main(["train", data, "--target", "height:mm", "--steps", "2", "--batch", "8", "--device", "cpu", "--out", str(run)])
    now = read_provenance(run)
    assert (now.recipe, now.data, now.targets) == ("", data, ("height:mm",))
    old = earlier_version(run, tmp_path / "old", now.command)
    assert (read_provenance(old).origin, read_provenance(old).targets) == (now.origin, now.targets)
    assert load_run_data(old).targets == load_run_data(run).targets
    assert create_prune_job(old, 0.5, None, (), {}).provenance.data == data


def test_a_fine_tuned_run_does_not_take_the_data_of_the_run_it_begins_with(runs: Path, tmp_path: Path) -> None:
    """A run made in Python with samples of its own names the other run, and no data."""
    start = read_start(runs / "antiperiodic")
    x = np.random.default_rng(0).choice([-1.0, 1.0], (40, *start.model.config.input)).astype(np.float32)
    source = Source("own", x, np.arange(40) % 2, (Axis(), Axis()), ("spin",), ("a", "b"))
    job = SupervisedJob(source, start.model.config, FEW_STEPS, start=start)
    train(job, tmp_path / "run", device="cpu", bar=False)
    provenance = read_provenance(tmp_path / "run")
    assert provenance.origin == ""
    assert provenance.start == str(runs / "antiperiodic")
