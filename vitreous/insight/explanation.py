"""Explain one prediction: the input with every map that the model allows, and the faithfulness of the maps.

A map is faithful if it ranks the parts of an input by their effect on the prediction. Deletion and insertion (Petsiuk
et al. 2018) remove regions, or put them back, in the order of a map. A faithful map changes the prediction sooner than
a random order.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitreous.insight.attention import maps_figure, no_attention_note
from vitreous.insight.attribution import ExplainedSample, compute_maps, missing_methods
from vitreous.insight.regions import contrast, draw_map, to_array
from vitreous.insight.style import Figure, figure
from vitreous.run.predictor import Predictor

RANDOM_ORDER = "random order"
_SHARES = np.linspace(0, 1, 10)  # of the regions that are removed or put back; with ninths no share is half a region
_SIGNIFICANCE = 0.05  # probability that any of the maps is better than random orders by chance
_MIN_CHANGE = 0.05  # change of the agreement below which there is nothing to explain


@dataclass(frozen=True)
class Faithfulness:
    """Deletion and insertion curves of one map: agreement with the prediction at each share of the regions.

    Args:
        beaten: share of random orders with a lower score.
        samples: number of samples that the curves are averaged over.
        maps: number of maps that were tested together; more maps need a stricter test.
    """

    name: str
    shares: NDArray[np.float64]
    deletion: NDArray[np.float64]
    insertion: NDArray[np.float64]
    beaten: float = 0.5
    samples: int = 1
    maps: int = 1

    @property
    def score(self) -> float:
        """Area under the insertion curve minus area under the deletion curve; higher is more faithful."""
        return float(np.trapezoid(self.insertion - self.deletion, self.shares))

    @property
    def significant(self) -> bool:
        """Whether the map is better than random orders, for which `beaten` is uniform in each sample."""
        level = _SIGNIFICANCE / self.maps
        return self.beaten >= min(1 - level, NormalDist(0.5, 1 / math.sqrt(12 * self.samples)).inv_cdf(1 - level))

    @property
    def reversed(self) -> "Faithfulness":
        """The curves of the reverse order, which puts back last what this order removes first."""
        return replace(self, deletion=self.insertion[::-1], insertion=self.deletion[::-1])


def deletion_test(explained: ExplainedSample, maps: Mapping[str, NDArray[Any]], seed: int = 0) -> list[Faithfulness]:
    """Test maps on one sample against random orders, whose mean comes last.

    The number of random orders is chosen so that the chance of any map being better than all of them is 5 %.
    """
    rng = np.random.default_rng(seed)
    regions = np.flatnonzero(explained.present)
    orders = [rng.permutation(regions) for _ in range(round(len(maps) / (2 * _SIGNIFICANCE)) - 1)]
    random = [deletion_curves(explained, order, RANDOM_ORDER) for order in orders]
    random += [test.reversed for test in random]
    tests = [deletion_curves(explained, explained.rank(values), name) for name, values in maps.items()]
    beaten = [float(np.mean([test.score > other.score for other in random])) for test in tests]
    compared = [replace(test, beaten=share, maps=len(maps)) for test, share in zip(tests, beaten, strict=True)]
    return [*compared, replace(_average(random), samples=1)]


def deletion_curves(explained: ExplainedSample, order: NDArray[np.intp], name: str = "") -> Faithfulness:
    """Deletion and insertion curves for the regions in a given order."""
    rank = np.full(len(explained.present), len(order))
    rank[order] = np.arange(len(order))
    first = rank < np.round(_SHARES * len(order))[:, None]  # (shares, regions)
    agreement = to_array(explained.agreement(explained.outputs(np.concatenate([~first, first]))))
    return Faithfulness(name, _SHARES, agreement[: len(_SHARES)], agreement[len(_SHARES) :])


def average_tests(tests: Iterable[Sequence[Faithfulness]]) -> list[Faithfulness]:
    """The mean over samples of the results of `deletion_test`."""
    return [_average(same) for same in zip(*tests, strict=True)]


def _average(tests: Sequence[Faithfulness]) -> Faithfulness:
    deletion, insertion = (np.mean([getattr(test, name) for test in tests], 0) for name in ("deletion", "insertion"))
    beaten = float(np.mean([test.beaten for test in tests]))
    return replace(tests[0], deletion=deletion, insertion=insertion, beaten=beaten, samples=len(tests))


def verdict(tests: Sequence[Faithfulness]) -> str:
    """Which of the maps is the most faithful, in one line."""
    whole = tests[0].deletion[0]
    if max(np.abs(curve - whole).max() for test in tests for curve in (test.deletion, test.insertion)) < _MIN_CHANGE:
        return "there is nothing to explain: the answer hardly changes, whatever is taken away"
    best = max((test for test in tests if test.name != RANDOM_ORDER), key=lambda test: (test.significant, test.score))
    text = f"insertion − deletion {best.score:.2f}, better than {best.beaten:.0%} of random orders".replace("%", " %")
    if not best.significant:
        return f"no map is better than chance (best: {best.name}; {text})"
    return f"{best.name} tells most of the truth ({text})"


def faithfulness_figure(tests: Sequence[Faithfulness], title: str = "") -> Figure:
    """Deletion and insertion curves of every map."""
    with figure(8, 3.2) as drawing:
        _draw_faithfulness(drawing, tests, title)
    return drawing


def _draw_faithfulness(drawing: Any, tests: Sequence[Faithfulness], title: str = "") -> None:
    panels = drawing.subplots(1, 2)
    for axes, name, action in zip(panels, ("deletion", "insertion"), ("taken away", "put back"), strict=True):
        for i, test in enumerate(tests):
            style = {"color": "0.5", "ls": "--"} if test.name == RANDOM_ORDER else {"color": f"C{i}"}
            axes.plot(test.shares, getattr(test, name), lw=1.2, label=f"{test.name}: {test.score:.2f}", **style)
        axes.set(xlabel=f"share {action}", ylabel="agreement", ylim=(0, 1.02))
        axes.set_title(name, loc="left", fontsize=8)
    place = {"loc": "upper left", "bbox_to_anchor": (1, 1)}
    panels[-1].legend(frameon=False, fontsize=7, title="area between", title_fontsize=7, **place)
    drawing.suptitle(title or verdict(tests), fontsize=9)


@dataclass(frozen=True)
class Explanation:
    """A figure and the sentences that describe it."""

    figure: Figure
    text: tuple[str, ...]


def explain(predictor: Predictor, sample: ArrayLike, target: str | None = None, name: str = "") -> Explanation:
    """Draw one sample `(channels, *grid)` with all maps, and test the faithfulness of the maps.

    Args:
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
    explained: ExplainedSample, maps: Mapping[str, NDArray[Any]], tests: Sequence[Faithfulness], title: str
) -> Figure:
    """The sample with each map; below it deletion and insertion curves, titled with the verdict."""
    flat = len(explained.predictor.axes) == 1
    rows, columns = (len(maps), 1) if flat else (1, len(maps))
    width, height = (9, 1.5 * rows) if flat else (max(8, 2.4 * columns), 2.7)
    with figure(width, height + 3.2) as drawing:
        halves: Any = drawing.subfigures(2, 1, height_ratios=(height, 3.2))
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
        _draw_faithfulness(below, tests)
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
