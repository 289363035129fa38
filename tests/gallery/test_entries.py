"""Every entry of the gallery is listed, trains and ends with figures, whatever its model."""

import inspect
import math
from pathlib import Path

import pytest
from PIL import Image

from tests.recipes import choices, narrow, two_steps
from vitreous.cli import main
from vitreous.gallery import ENTRIES
from vitreous.train import RECIPES, train


def test_the_gallery_lists_every_entry(capsys: pytest.CaptureFixture[str]) -> None:
    main(["gallery"])
    shown = capsys.readouterr().out
    for entry in ENTRIES.values():
        assert entry.recipe in shown
        for word in (*entry.models, *entry.systems):
            assert word in shown


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_offers_what_its_recipe_takes(name: str) -> None:
    entry, taken = ENTRIES[name], inspect.signature(RECIPES[name]).parameters
    assert taken["model"].default == entry.models[0]
    assert [taken["system"].default] == [*entry.systems[:1]] if "system" in taken else not entry.systems


@pytest.mark.parametrize(("name", "choice"), [(name, choice) for name in ENTRIES for choice in choices(name)], ids=str)
def test_a_training_of_two_steps_can_be_drawn(
    name: str, choice: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = narrow(two_steps(name, choice, monkeypatch))
    result = train(made, tmp_path / "run", bar=False, device="cpu")
    assert result["steps"] == 2
    assert all(math.isfinite(value) for value in result["test"].values())
    paths = ENTRIES[name].draw(tmp_path / "run")
    assert 1 <= len(paths) <= 3
    for path in paths:
        assert path.parent == tmp_path / "run"
        with Image.open(path) as picture:
            assert min(picture.size) > 300
