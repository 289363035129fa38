"""The probability that the first lattice of an answer is right, and the reasons against it in words.

A logistic regression of features of the solutions; `tools/fit_index_probability.py` fits its weights.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from vitreous.powder.solution import Solution
from vitreous.powder.tuning import SEARCH_TUNING, SearchTuning


def with_probabilities(solutions: Sequence[Solution], tuning: SearchTuning = SEARCH_TUNING) -> list[Solution]:
    """Solutions, best first, with probabilities: the first by logistic regression, the others share the remainder."""
    first = probability_from(features(solutions), tuning)
    highest = next_evidence(solutions)
    total = math.exp(-highest) + sum(math.exp(s.evidence - highest) for s in solutions[1:])
    others = [min(first, (1 - first) * math.exp(s.evidence - highest) / total) for s in solutions[1:]]
    best = replace(solutions[0], margin=solutions[0].evidence - highest)
    return [replace(s, probability=p) for s, p in zip([best, *solutions[1:]], [first, *others], strict=True)]


def probability_from(values: Sequence[float], tuning: SearchTuning = SEARCH_TUNING) -> float:
    """The probability of a first solution with these features."""
    weighted = sum(value * weight for value, weight in zip(values, tuning.logistic, strict=True))
    return 1 / (1 + math.exp(-weighted))


def next_evidence(solutions: Sequence[Solution]) -> float:
    """The evidence of the best rival of the first solution, at least that of chance."""
    return max([0.0, *(s.evidence for s in solutions[1:])])


def features(solutions: Sequence[Solution]) -> tuple[float, ...]:
    """The features from which the probability of the first solution is calculated.

    A constant; its margin of evidence over the next solution; its evidence per line and in all; the shortage of lines;
    the share of unexplained lines; the logarithm of calculated lines per observed line; by how much the share of the
    intensity that is at no reflection is above one half. M20 and Rwp add nothing to these.
    """
    best = solutions[0]
    margin = min(max(best.evidence - next_evidence(solutions), -10.0), 20.0) / 10
    strength = min(max(best.evidence / best.lines, -1.0), 4.0)
    total = min(max(best.evidence, 0.0), 60.0) / 10
    shortage = math.log(max(1.0, 20 / best.lines))
    density = math.log(max(best.possible, 1) / best.lines)
    minor = 0.0 if best.fit is None else max(0.0, best.fit.unexplained - 0.5)
    return 1.0, margin, strength, total, shortage, best.unexplained, density, minor
