"""The benchmark of the gallery keeps every training and goes on where it was stopped."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gallery
from tests.recipes import narrow, two_steps
from vitreous.gallery import ENTRIES
from vitreous.train import Experiment


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
    gallery.main(tmp_path, only=("ising-temperature",), **asked)
    gallery.main(tmp_path, only=("lensing",), draw=False, **asked | {"systems": (), "seeds": 1})
    assert not [*(tmp_path / "lensing_-_vit_0").glob("*.png")]
    known = json.loads((tmp_path / "table.json").read_text())
    assert sorted(known) == ["ising-temperature/skewed/vit/0", "ising-temperature/skewed/vit/1", "lensing/-/vit/0"]
    assert [experiment.train.seed for experiment in made] == [0, 0, 0]  # the recipe's, which the benchmark replaces
    assert (tmp_path / "ising-temperature_skewed_vit_0" / "spins.png").is_file()
    assert not (tmp_path / "ising-temperature_skewed_vit_1" / "spins.png").is_file()
    assert [found.get("simulated/s", 0) > 0 for found in known.values()] == [True, False, True]  # of first seeds
    assert all(found["seconds"] > 0 for found in known.values())
    capsys.readouterr()
    gallery.main(tmp_path, only=("lensing",), **asked | {"systems": (), "seeds": 1})
    assert len(made) == 3
    assert (tmp_path / "lensing_-_vit_0" / "lenses.png").is_file()
    assert "strong gravitational lenses" in capsys.readouterr().out
