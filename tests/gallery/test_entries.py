"""Every entry of the gallery is listed, trains and ends with figures, whatever its model."""

import math
from pathlib import Path

import pytest
from PIL import Image

from tests.recipes import choices, narrow, small_recipe, two_steps
from vitreous.cli import main
from vitreous.recipes import GALLERY, load_recipe
from vitreous.train import train


def test_the_gallery_lists_every_entry(capsys: pytest.CaptureFixture[str]) -> None:
    main(["gallery"])
    shown = capsys.readouterr().out
    for entry in map(load_recipe, GALLERY):
        assert entry.name in shown
        for word in (*entry.models, *entry.systems):
            assert word in shown


@pytest.mark.parametrize(("name", "choice"), [(name, choice) for name in GALLERY for choice in choices(name)], ids=str)
def test_a_training_of_two_steps_can_be_drawn(name: str, choice: dict[str, str], tmp_path: Path) -> None:
    job = narrow(two_steps(name, choice))
    result = train(job, tmp_path / "run", bar=False, device="cpu")
    assert result["steps"] == 2
    assert all(math.isfinite(value) for value in result["test"].values())
    draw = small_recipe(name).figures
    assert draw is not None
    paths = draw(tmp_path / "run")
    assert 1 <= len(paths) <= 3
    for path in paths:
        assert path.parent == tmp_path / "run"
        with Image.open(path) as picture:
            assert min(picture.size) > 300
