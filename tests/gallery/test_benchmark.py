"""The benchmark of the gallery stores every training and resumes after an interruption."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gallery
from tests.recipes import narrow, shorten, small_recipe
from vitreous.core.errors import InputError
from vitreous.recipes import GALLERY, load_recipe
from vitreous.run.folder import EXPERIMENT
from vitreous.train import Recipe, SupervisedJob


def test_rows_and_references_belong_to_entries_and_their_models() -> None:
    assert gallery.TABLE.keys() <= {*GALLERY}
    for name, row in gallery.TABLE.items():
        for system, models in row.reference.items():
            assert system in (load_recipe(name).systems or (gallery.NO_SYSTEM,))
            assert models.keys() <= {*load_recipe(name).models}


def test_finished_trainings_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained: list[SupervisedJob] = []

    def recorded_recipe(name: str) -> Recipe:
        recipe = small_recipe(name)

        def create(source: Any, model: str, system: str) -> SupervisedJob:
            job = recipe.job(source, model, system)
            assert isinstance(job, SupervisedJob)
            trained.append(narrow(shorten(job)))
            return trained[-1]

        return replace(recipe, job=create)

    monkeypatch.setattr(gallery, "load_recipe", recorded_recipe)
    choice: dict[str, Any] = {
        "models": ("vit",),
        "systems": ("skewed",),
        "seeds": 2,
        "steps": 2,
        "device": "cpu",
        "timing": 0.01,
    }
    trial = tmp_path / "trial of 2 steps"
    gallery.main(tmp_path, only=("ising-temperature",), **choice)
    gallery.main(tmp_path, only=("lensing",), draw=False, **choice | {"systems": (), "seeds": 1})
    assert not [*(trial / "lensing_-_vit_0").glob("*.png")]
    results = json.loads((trial / "table.json").read_text())
    assert sorted(results) == ["ising-temperature/skewed/vit/0", "ising-temperature/skewed/vit/1", "lensing/-/vit/0"]
    experiments = [
        json.loads((trial / f"ising-temperature_skewed_vit_{seed}" / EXPERIMENT).read_text()) for seed in (0, 1)
    ]
    assert [each["train"]["seed"] for each in experiments] == [0, 1]
    assert (trial / "ising-temperature_skewed_vit_0" / "spins.png").is_file()
    assert not (trial / "ising-temperature_skewed_vit_1" / "spins.png").is_file()
    assert [numbers.get("simulated/s", 0) > 0 for numbers in results.values()] == [True, False, True]  # of first seeds
    assert all(numbers["seconds"] > 0 for numbers in results.values())
    capsys.readouterr()
    gallery.main(tmp_path, only=("lensing",), **choice | {"systems": (), "seeds": 1})
    assert len(trained) == 3
    assert (trial / "lensing_-_vit_0" / "lenses.png").is_file()
    assert "strong gravitational lenses" in capsys.readouterr().out


def test_first_seeds_are_timed_and_a_failure_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train_one(
        job: gallery.Job, steps: Any, out: Path, device: str, alone: bool = False, timing: float = 2.0
    ) -> gallery.Numbers:
        if job.seed == 1 and job.model == "vit":
            raise InputError("it would not learn")
        return {"accuracy": 0.5, "parameters": 1} | ({"seconds": 1.0} if alone else {})

    monkeypatch.setattr(gallery, "train_one", train_one)
    monkeypatch.setattr(gallery, "ProcessPoolExecutor", lambda count, context: ThreadPoolExecutor(count))
    choice: dict[str, Any] = {"only": ("ising",), "systems": ("skewed",), "seeds": 3, "together": 2, "device": "cpu"}
    with pytest.raises(SystemExit, match=r"ising/skewed/vit/1: .*it would not learn"):
        gallery.main(tmp_path, **choice)
    results = json.loads((tmp_path / "table.json").read_text())
    assert len(results) == 3 * 3 - 1
    assert {job for job, numbers in results.items() if "seconds" in numbers} == {
        f"ising/skewed/{model}/0" for model in load_recipe("ising").models
    }


@pytest.mark.parametrize(
    "invalid", [{"only": ("nothere",)}, {"only": ("lensing",), "models": ("resnet-50",)}, {"together": 0}]
)
def test_unknown_choices_are_refused(tmp_path: Path, invalid: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(reversed(invalid))):
        gallery.main(tmp_path, **invalid)
