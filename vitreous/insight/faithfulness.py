"""Faithfulness of maps: does a map rank the parts of an input by their effect on the prediction?

Deletion and insertion (Petsiuk et al. 2018): regions are removed, or put back, in the order of a map. A faithful map
changes the prediction sooner than a random order.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vitreous.insight.attribution import ExplainedSample, compute_maps
from vitreous.insight.regions import to_array
from vitreous.insight.style import figure
from vitreous.run.predictor import Predictor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RANDOM_ORDER = "random order"
_SHARES = np.linspace(0, 1, 10)  # of the regions that are removed or put back; with ninths no share is half a region
_SIGNIFICANCE = 0.05  # probability that any of the maps is better than random orders by chance
_MIN_CHANGE = 0.05  # change of the agreement below which there is nothing to explain


@dataclass(frozen=True)
class Faithfulness:
    """Deletion and insertion curves of one map.

    Args:
        name: of the map.
        shares: of the regions.
        deletion, insertion: agreement with the prediction at each share.
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


def faithfulness(predictor: Predictor, samples: ArrayLike, target: str | None = None) -> list[Faithfulness]:
    """Faithfulness of every map, averaged over samples `(n, channels, *grid)`."""
    explained = [ExplainedSample(predictor, sample, target) for sample in predictor.check(samples)]
    return average_tests([deletion_test(each, compute_maps(each), seed) for seed, each in enumerate(explained)])


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


def faithfulness_figure(tests: Sequence[Faithfulness], title: str = "") -> "Figure":
    """Deletion and insertion curves of every map."""
    with figure(8, 3.2) as drawing:
        draw_faithfulness(drawing.subplots(1, 2), tests)
        drawing.suptitle(title or verdict(tests), fontsize=9)
    return drawing


def draw_faithfulness(panels: Sequence[Any], tests: Sequence[Faithfulness]) -> None:
    """Draw the curves in two panels: deletion, then insertion."""
    for axes, name in zip(panels, ("deletion", "insertion"), strict=True):
        for i, test in enumerate(tests):
            style = {"color": "0.5", "ls": "--"} if test.name == RANDOM_ORDER else {"color": f"C{i}"}
            axes.plot(test.shares, getattr(test, name), lw=1.2, label=f"{test.name}: {test.score:.2f}", **style)
        action = "taken away" if name == "deletion" else "put back"
        axes.set(xlabel=f"share {action}", ylabel="agreement", ylim=(0, 1.02))
        axes.set_title(name, loc="left", fontsize=8)
    panels[-1].legend(
        frameon=False, fontsize=7, loc="upper left", bbox_to_anchor=(1, 1), title="area between", title_fontsize=7
    )
