"""One answer explained: the input under every map that the model allows, and which of the maps tells the truth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike, NDArray

from vitreous.insight.attention import attends, maps_figure, no_attention
from vitreous.insight.attribution import Question, Trial, all_maps, deletion_test, draw_trials, left_out, verdict
from vitreous.insight.overlay import contrast, draw_map
from vitreous.insight.style import figure
from vitreous.train.predictor import Predictor

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Explanation:
    """A figure, and what there is to say about it."""

    figure: "Figure"
    text: tuple[str, ...]


def explain(predictor: Predictor, sample: ArrayLike, target: str | None = None, name: str = "") -> Explanation:
    """Draw one sample `(channels, *grid)` under all maps, with the test of their truth below.

    Args:
        predictor: of a run.
        sample: raw, as the predictor takes it.
        target: the class or quantity to explain; the predicted class or the first quantity if None.
        name: of the sample, for the title.
    """
    question = Question(predictor, sample, target)
    maps = all_maps(question)
    trials = deletion_test(question, maps)
    answer, truth = question.answer, verdict(trials)
    drawing = explain_figure(question, maps, trials, ": ".join(filter(None, (name, answer))), truth)
    lacking = left_out() if attends(predictor.model) else f"the {no_attention(predictor.model)}"
    return Explanation(drawing, tuple(filter(None, (answer, truth, lacking))))


def explain_figure(
    question: Question, maps: Mapping[str, NDArray[Any]], trials: Sequence[Trial], title: str = "", truth: str = ""
) -> "Figure":
    """The sample under each map, and below it deletion and insertion curves under their verdict, `truth` if known."""
    flat = len(question.predictor.axes) == 1
    rows, columns = (len(maps), 1) if flat else (1, len(maps))
    size = (9, 1.5 * rows) if flat else (max(8, 2.4 * columns), 2.7)
    with figure(size[0], size[1] + 3.2) as drawing:
        halves: Any = drawing.subfigures(2, 1, height_ratios=(size[1], 3.2))
        above, below = halves
        panels = above.subplots(rows, columns, squeeze=False, sharex=flat).ravel()
        for axes, (name, values) in zip(panels, maps.items(), strict=True):
            draw_map(axes, question.predictor, question.sample, values)
            within = values[question.present] if values.shape == question.present.shape else values
            axes.set_title((", " if flat else "\n").join((name, contrast(within))).rstrip(", "), loc="left", fontsize=8)
            if flat and axes is not panels[-1]:
                axes.set_xlabel("")
        above.suptitle(title, fontsize=10)
        draw_trials(below.subplots(1, 2), trials)
        below.suptitle(truth or verdict(trials), fontsize=9)
    return drawing


def explain_heads(
    predictor: Predictor,
    sample: ArrayLike,
    layers: Sequence[int] | None = None,
    target: str | None = None,
    name: str = "",
) -> Explanation:
    """Draw where every head of the given layers looks in one sample; all layers if None."""
    answer = Question(predictor, sample, target).answer
    return Explanation(maps_figure(predictor, sample, layers, ": ".join(filter(None, (name, answer)))), (answer,))
