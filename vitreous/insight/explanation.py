"""Explain one prediction: the input with every map that the model allows, and the faithfulness of the maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike, NDArray

from vitreous.insight.attention import maps_figure, no_attention_note
from vitreous.insight.attribution import ExplainedSample, compute_maps, missing_methods
from vitreous.insight.faithfulness import Faithfulness, deletion_test, draw_faithfulness, verdict
from vitreous.insight.heatmap import contrast, draw_map
from vitreous.insight.style import figure
from vitreous.run.predictor import Predictor

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Explanation:
    """A figure and the sentences that describe it."""

    figure: "Figure"
    text: tuple[str, ...]


def explain(predictor: Predictor, sample: ArrayLike, target: str | None = None, name: str = "") -> Explanation:
    """Draw one sample `(channels, *grid)` with all maps, and test the faithfulness of the maps.

    Args:
        predictor: of a run.
        sample: raw, as the predictor takes it.
        target: the class or quantity to explain; the predicted class or the first quantity if None.
        name: of the sample, for the title.
    """
    explained = ExplainedSample(predictor, sample, target)
    maps = compute_maps(explained)
    tests = deletion_test(explained, maps)
    answer = explained.answer
    drawing = explain_figure(explained, maps, tests, _title(name, answer))
    missing = missing_methods() if predictor.model.attends else f"the {no_attention_note(predictor.model)}"
    return Explanation(drawing, tuple(filter(None, (answer, verdict(tests), missing))))


def explain_figure(
    explained: ExplainedSample, maps: Mapping[str, NDArray[Any]], tests: Sequence[Faithfulness], title: str = ""
) -> "Figure":
    """The sample with each map; below it deletion and insertion curves, titled with the verdict."""
    flat = len(explained.predictor.axes) == 1
    rows, columns = (len(maps), 1) if flat else (1, len(maps))
    size = (9, 1.5 * rows) if flat else (max(8, 2.4 * columns), 2.7)
    with figure(size[0], size[1] + 3.2) as drawing:
        halves: Any = drawing.subfigures(2, 1, height_ratios=(size[1], 3.2))
        above, below = halves
        panels = above.subplots(rows, columns, squeeze=False, sharex=flat).ravel()
        for axes, (name, values) in zip(panels, maps.items(), strict=True):
            draw_map(axes, explained.predictor, explained.sample, values)
            present = values[explained.present] if values.shape == explained.present.shape else values
            caption = (", " if flat else "\n").join((name, contrast(present))).rstrip(", ")
            axes.set_title(caption, loc="left", fontsize=8)
            if flat and axes is not panels[-1]:
                axes.set_xlabel("")
        above.suptitle(title, fontsize=10)
        draw_faithfulness(below.subplots(1, 2), tests)
        below.suptitle(verdict(tests), fontsize=9)
    return drawing


def explain_heads(
    predictor: Predictor,
    sample: ArrayLike,
    layers: Sequence[int] | None = None,
    target: str | None = None,
    name: str = "",
) -> Explanation:
    """Draw the attention of every head of the given layers over one sample; all layers if None."""
    answer = ExplainedSample(predictor, sample, target).answer
    return Explanation(maps_figure(predictor, sample, layers, _title(name, answer)), (answer,))


def _title(name: str, answer: str) -> str:
    return ": ".join(filter(None, (name, answer)))
