"""The benchmark of the gallery keeps every training and goes on where it was stopped."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gallery
from tests.recipes import narrow, two_steps
from vitreous.errors import InputError
from vitreous.gallery import ENTRIES
from vitreous.train import Experiment
from vitreous.train.folder import EXPERIMENT


def test_every_row_is_of_an_entry_and_every_reference_of_its_models() -> None:
    assert gallery.TABLE.keys() <= ENTRIES.keys()
    for name, row in gallery.TABLE.items():
        for system, models in row.reference.items():
            assert system in (ENTRIES[name].systems or (gallery._ALONE,))
            assert models.keys() <= {*ENTRIES[name].models}


def test_a_table_is_trained_once_and_shown_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[Experiment] = []

    def recipe(name: str) -> Any:
        def make(**choice: str) -> Experiment:
            made.append(narrow(two_steps(name, choice, monkeypatch)))
            return made[-1]

        return make

    monkeypatch.setattr(gallery, "RECIPES", {name: recipe(name) for name in ENTRIES})
    monkeypatch.setattr(gallery, "_SECONDS", 0.01)
    monkeypatch.setattr(gallery, "_AT_ONCE", {"cpu": 4})
    asked: dict[str, Any] = {"models": ("vit",), "systems": ("skewed",), "seeds": 2, "steps": 2, "device": "cpu"}
    trial = tmp_path / "trial of 2 steps"
    gallery.main(tmp_path, only=("ising-temperature",), **asked)
    gallery.main(tmp_path, only=("lensing",), draw=False, **asked | {"systems": (), "seeds": 1})
    assert not [*(trial / "lensing_-_vit_0").glob("*.png")]
    known = json.loads((trial / "table.json").read_text())
    assert sorted(known) == ["ising-temperature/skewed/vit/0", "ising-temperature/skewed/vit/1", "lensing/-/vit/0"]
    told = [json.loads((trial / f"ising-temperature_skewed_vit_{seed}" / EXPERIMENT).read_text()) for seed in (0, 1)]
    assert [each["train"]["seed"] for each in told] == [0, 1]
    assert (trial / "ising-temperature_skewed_vit_0" / "spins.png").is_file()
    assert not (trial / "ising-temperature_skewed_vit_1" / "spins.png").is_file()
    assert [found.get("simulated/s", 0) > 0 for found in known.values()] == [True, False, True]  # of first seeds
    assert all(found["seconds"] > 0 for found in known.values())
    capsys.readouterr()
    gallery.main(tmp_path, only=("lensing",), **asked | {"systems": (), "seeds": 1})
    assert len(made) == 3
    assert (trial / "lensing_-_vit_0" / "lenses.png").is_file()
    assert "strong gravitational lenses" in capsys.readouterr().out


def test_the_first_of_each_model_is_timed_and_one_that_fails_costs_the_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one(job: gallery.Job, steps: Any, out: Path, device: str, alone: bool = False) -> gallery.Numbers:
        if job.seed == 1 and job.model == "vit":
            raise InputError("it would not learn")
        return {"accuracy": 0.5, "parameters": 1} | ({"seconds": 1.0} if alone else {})

    monkeypatch.setattr(gallery, "one", one)
    monkeypatch.setattr(gallery, "ProcessPoolExecutor", lambda count, context: ThreadPoolExecutor(count))
    asked: dict[str, Any] = {"only": ("ising",), "systems": ("skewed",), "seeds": 3, "together": 2, "device": "cpu"}
    with pytest.raises(SystemExit, match=r"ising/skewed/vit/1: .*it would not learn"):
        gallery.main(tmp_path, **asked)
    known = json.loads((tmp_path / "table.json").read_text())
    assert len(known) == 3 * 3 - 1
    assert {words for words, found in known.items() if "seconds" in found} == {
        f"ising/skewed/{model}/0" for model in ENTRIES["ising"].models
    }


@pytest.mark.parametrize(
    "asked", [{"only": ("nothere",)}, {"only": ("lensing",), "models": ("resnet-50",)}, {"together": 0}]
)
def test_what_there_is_not_is_told(tmp_path: Path, asked: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(reversed(asked))):
        gallery.main(tmp_path, **asked)
