"""What every figure has in common: names as they are, and files that are whole or not there."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.powder.figures.test_fit import FIT
from vitreous.core.errors import InputError
from vitreous.data import Axis, Target
from vitreous.insight import evaluation, training_figure
from vitreous.insight.training import effects_figure
from vitreous.powder.figures.fit import fit_figure
from vitreous.run.folder import METRICS
from vitreous.run.predictor import Prediction

NAME = "under $5$ or $x_{$"
ANSWER = Prediction(targets=(Target("assay", "mg", log=True),), values=np.array([[0.001], [1.0], [100.0]]))


def test_a_name_with_dollars_is_drawn_as_it_is() -> None:
    classes, counts, column = [NAME, "dear", "dearer"], np.eye(3, dtype=int), np.array([NAME, "dear"])
    numbers, x = np.array([0.1, 30.0, 1e4]), np.random.default_rng(0).normal(size=(3, 4))
    for drawing in (
        evaluation.confusion_figure(counts, classes),
        evaluation.samples_figure(np.ones((1, 1, 8)), [NAME], (Axis(NAME),)),
        evaluation.parity_figure(numbers, numbers, NAME, log=True),
        evaluation.error_figure(np.array([0.1, 0.2]), column, NAME, NAME),
        evaluation.embedding_figure(x, np.arange(3), NAME, "PCA", classes),
        fit_figure(FIT, NAME),
    ):
        drawing.draw_without_rendering()


def test_what_is_a_formula_is_set_as_one() -> None:
    whole, close = fit_figure(FIT, NAME).axes
    title = whole.get_title("left")
    assert title.replace(r"\$", "$").startswith(NAME)
    assert all(text.get_parse_math() for text in (whole._left_title, *close.texts))


def draw_training(path: Path) -> None:
    run = path.parent.parent / "run"
    run.mkdir(exist_ok=True)
    (run / METRICS).write_text('{"step": 1, "validation": {"loss": 1.0, "rmse": 2.0}}\n')
    assert ANSWER.values is not None
    training_figure([run], ANSWER, ANSWER.values, path)


def draw_effects(path: Path) -> None:
    effects_figure([{"dim": 8, "score": 0.5}, {"dim": 16, "score": 0.7}], ["dim"], "accuracy", path)


@pytest.mark.parametrize("draw", [draw_training, draw_effects])
def test_a_figure_is_written_whole_or_refused_in_one_line(draw: Callable[[Path], None], tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    folder.mkdir()
    draw(folder / "drawn.png")
    assert [path.name for path in folder.iterdir()] == ["drawn.png"]
    (folder / "taken.png").mkdir()
    with pytest.raises(InputError, match=r"taken.png: cannot be written"):
        draw(folder / "taken.png")
