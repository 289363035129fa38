"""Lattices that may explain what the fit of a related lattice leaves: superlattices, and distortions to lower symmetry.

Both are tried on the residual of the fit, which is quick; only promising ones are refined afterwards.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch

from vitreous.powder.bragg import s_from_two_theta, two_theta_from_s
from vitreous.powder.bravais import Bravais, bravais, bravais_options
from vitreous.powder.cell import PAIRS, cells_of, free_indices, full_cell, metrics_of, volumes
from vitreous.powder.lattice import derivatives, niggli, primitive
from vitreous.powder.peaks import Peaks
from vitreous.powder.peaks.matched_filter import signal_to_noise
from vitreous.powder.refinement.metric import ReciprocalMetric, cell_from_elements, metric_of_cell, reflection_forms
from vitreous.powder.refinement.problem import Problem
from vitreous.powder.refinement.profile import Array
from vitreous.powder.refinement.refine import Refinement
from vitreous.powder.refinement.shifts import shift_functions
from vitreous.powder.tuning import COMPARISON_TUNING, ComparisonTuning

_MEDIAN_OF_NORMAL = 0.6745  # median of the absolute value of a normal variable
_SMALL = 1e-4  # relative change of a parameter, for derivatives
_FEWEST_WIDTHS = 6  # peaks from which the spread of widths is estimated
_LEAST_EXCESS = 0.05  # of χ², by which gains are divided at least
_EQUAL = 1e-6  # relative difference of the 1/d² of equivalent reflections
_EXACT = 1e-6  # relative: the symmetry of a superlattice of an exactly symmetric lattice


@dataclass(frozen=True)
class RelatedLattice:
    """A lattice to refine, and what it loses beforehand because many such lattices are tried."""

    lattice: Bravais
    cost: float  # log-likelihood
    remaining_misfit: float  # share of the misfit that it may leave


def superlattices(
    refined: Refinement, centring: str, tuning: ComparisonTuning = COMPARISON_TUNING
) -> list[RelatedLattice]:
    """The superlattices that explain the lines in the residual of a fit better than chance does, best first."""
    lines = _residual_lines(refined, tuning)
    if not len(lines):
        return []
    parent = niggli(primitive(np.array([refined.fit.cell]), centring))
    cells = derivatives(parent[0], tuning.largest_multiple)
    multiples = (volumes(cells) / volumes(parent)).round()
    cells, multiples = cells[multiples > 1], multiples[multiples > 1]
    promising, inverses = [], np.linalg.inv(metrics_of(cells))
    for cell, inverse, multiple in zip(cells, inverses, multiples, strict=True):
        positions = _additional_reflections(refined, cell, inverse, tuning)
        tolerance = tuning.position_tolerance * _width(refined)
        explained = int((np.abs(lines[:, None] - positions).min(axis=1, initial=np.inf) < tolerance).sum())
        covered = min(1.0, 2 * tolerance * len(positions) / float(np.ptp(refined.problem.data.x)))
        cost = tuning.superlattice_cost * math.log2(multiple) + math.log((multiples == multiple).sum())
        score = -explained * math.log(max(covered, tuning.least_covered)) - cost
        score -= tuning.unexplained_cost * (len(lines) - explained)
        if score > 0 and covered < tuning.most_covered:
            promising.append((score, cost, cell))
    promising.sort(key=lambda each: -each[0])
    promising = promising[: tuning.related]
    return [RelatedLattice(bravais(cell, _EXACT), cost, tuning.remaining_misfit) for _, cost, cell in promising]


def _width(refined: Refinement) -> float:
    """The full width at half maximum of a typical line in degrees."""
    return float(np.median(refined.state.lines.width))


def _residual_lines(refined: Refinement, tuning: ComparisonTuning) -> Array:
    """2θ in degrees `(n,)` of clear lines in the residual of a fit, away from the reflections of its lattice."""
    problem, state, width = refined.problem, refined.state, _width(refined)
    data = problem.data
    variance = data.variance + (tuning.misfit * (state.calculated - state.background)) ** 2
    grid, signal = signal_to_noise(data.x, data.y - state.calculated, variance, width)
    signal = signal / max(1.0, float(np.median(np.abs(signal))) / _MEDIAN_OF_NORMAL)
    top = np.flatnonzero((signal[1:-1] > signal[:-2]) & (signal[1:-1] >= signal[2:])) + 1
    top = top[signal[top] > tuning.clear_signal]
    far = np.abs(grid[top, None] - state.positions).min(axis=1, initial=np.inf) > tuning.apart * width
    return np.asarray(grid[top[far]])


def _additional_reflections(refined: Refinement, cell: Array, inverse: Array, tuning: ComparisonTuning) -> Array:
    """Observed 2θ in degrees of those reflections of a superlattice that are apart from the lattice's own, `(n,)`.

    `inverse` is the reciprocal metric of its cell.
    """
    problem, state, width = refined.problem, refined.state, _width(refined)
    low, high = (s_from_two_theta(float(end), problem.wavelengths[0]) for end in problem.data.x[[0, -1]])
    a, b, c = (cell[:3] * high).astype(int)
    hkl = np.mgrid[0 : a + 1, -b : b + 1, -c : c + 1].reshape(3, -1).T
    square = np.sort(((hkl @ inverse) * hkl).sum(axis=1))
    square = square[(square > low**2) & (square < high**2)]
    square = square[np.diff(square, prepend=0.0) > _EQUAL * square]  # one of each set of equivalent reflections
    angle = two_theta_from_s(np.sqrt(square), problem.wavelengths[0])
    angle = angle + shift_functions(np.radians(angle) / 2) @ state.theta[problem.metric : problem.first_shape]
    return np.asarray(angle[_distance(angle, np.sort(state.positions)) > tuning.apart * width])


def _distance(values: Array, ordered: Array) -> Array:
    """The distance of each value `(n,)` to the nearest of ascending ones."""
    above = np.clip(np.searchsorted(ordered, values), 1, len(ordered) - 1)
    return np.asarray(np.minimum(np.abs(values - ordered[above - 1]), np.abs(ordered[above] - values)))


def distortions(
    refined: Refinement, system: str, centring: str, peaks: Peaks, tuning: ComparisonTuning = COMPARISON_TUNING
) -> list[RelatedLattice]:
    """Lattices of lower symmetry that explain a fit's residual better when they are slightly distorted, highest first.

    Lines that split without being resolved have different widths; without that, nothing is tried. A profile that does
    not fit gains by any splitting: a distortion must gain more than a second lattice of another size does.
    """
    if not 1 + tuning.least_misfit < refined.fit.chi2 < tuning.hopeless_chi2:
        return []
    if _width_spread(peaks) < tuning.width_spread:
        return []
    parent = niggli(primitive(np.array([refined.fit.cell]), centring))[0]
    options = bravais_options(parent, _EXACT)
    own = next(each for each in options if (each.system, each.centring) == (system, centring))
    metric = metric_of_cell(own.conventional.tolist(), own.system)
    sizes = (1 + sign * strain for strain in tuning.distortions for sign in (1, -1))
    chance = max(_gain_at(refined, own, metric, tuning, size) for size in sizes)
    promising = []
    for option in options:
        metrics = [] if option is own else _distorted_metrics(own, option, tuning.distortions)
        gains = [_gain_at(refined, option, metric, tuning) for metric in metrics]
        if max(gains, default=chance) > chance + tuning.distortion_gain:
            best = metrics[int(np.argmax(gains))]
            lattice = replace(option, conventional=cell_from_elements(best.first * best.scale, best.forms))
            related = RelatedLattice(lattice, math.log(len(options)), tuning.remaining_distorted)
            promising.append((len(free_indices(option.system)), -max(gains), related))
    promising.sort(key=lambda each: each[:2])
    return [related for *_, related in promising[: tuning.related_distortions]]


def _width_spread(peaks: Peaks) -> float:
    """The standard deviation of the logarithms of the widths of clear peaks about a smooth curve."""
    clear = peaks.significance >= np.quantile(peaks.significance, 0.3)
    if clear.sum() < _FEWEST_WIDTHS:
        return 0.0
    angle, logs = peaks.two_theta[clear], np.log(peaks.width[clear])
    unit = (angle - angle.mean()) / max(float(np.ptp(angle)), 1e-6)
    return float(np.std(logs - np.polyval(np.polyfit(unit, logs, 2), unit)))


def _distorted_metrics(own: Bravais, option: Bravais, strains: Sequence[float]) -> list[ReciprocalMetric]:
    """Metrics of a lower symmetry, strained in both senses along each direction that breaks the own symmetry."""
    metric = metric_of_cell(option.conventional.tolist(), option.system)
    to_option = np.linalg.inv(own.transformation) @ option.transformation  # from the own conventional axes
    kept = []
    for place in free_indices(own.system):
        changed = own.conventional.copy()
        changed[place] *= 1 + _SMALL
        full = full_cell(own.system, torch.from_numpy(changed)[None, free_indices(own.system)]).numpy()
        cell = cells_of(to_option.T @ metrics_of(full) @ to_option)[0]
        kept.append((metric_of_cell(cell.tolist(), option.system).inverse - metric.inverse) / _SMALL)
    lead = [PAIRS[int(np.flatnonzero(row)[0])] for row in metric.forms]
    columns = np.array([[change[pair] for pair in lead] for change in kept]) / metric.scale
    _, values, directions = np.linalg.svd(columns)
    broken = directions[int((values > _EXACT * values.max()).sum()) :]
    return [
        metric._replace(first=metric.first + sign * strain * direction)
        for direction, strain, sign in product(broken, strains, (1, -1))
    ]


def _gain_at(
    refined: Refinement, option: Bravais, metric: ReciprocalMetric, tuning: ComparisonTuning, second: float = 1.0
) -> float:
    """The share of a fit's cost beyond noise that another metric removes with the same profile and shifts.

    With `second`, there is a second lattice, whose 1/d² are that many times as large.
    """
    old, state = refined.problem, refined.state
    limits, most = (float(old.data.x[0]), float(old.data.x[-1])), tuning.reflections
    _, form, angles = reflection_forms(metric, option.system, option.centring, old.wavelengths[0], limits, most)
    data = old.data if len(form) < most else old.data.before(float(angles[-1]))
    thin = slice(None, None, max(1, int(_width(refined) / float(np.median(np.diff(data.x))) / tuning.points_per_width)))
    data = data._replace(x=data.x[thin], y=data.y[thin], variance=data.variance[thin])
    if second != 1.0:
        form = np.concatenate([form, second * form])
    theta = np.concatenate([metric.first, state.theta[old.metric :]])
    problem = Problem(data, form, old.wavelengths, theta, np.full(len(theta), np.inf), np.zeros(len(theta), dtype=bool))
    before, noise = float(np.sum(state.residual[thin][: len(data.x)] ** 2)), len(data.x)
    return (before - problem.evaluate(theta).cost) / max(before - noise, _LEAST_EXCESS * noise)
