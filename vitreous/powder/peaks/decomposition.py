"""Decomposition of a pattern into peaks: fit all candidates, add peaks from the residual, drop insignificant ones."""

from dataclasses import dataclass

import numpy as np

from vitreous.powder.lineshape import FWHM_PER_SIGMA, GAUSS_HEIGHT
from vitreous.powder.peaks.matched_filter import filter_maxima
from vitreous.powder.peaks.model import NO_PEAKS, Evaluation, Parameters, PatternModel, Shape
from vitreous.powder.peaks.noise import Bools, Floats, Noise, running_mean


@dataclass(frozen=True)
class Peaks:
    """The peaks of a pattern by ascending angle, arrays `(n,)`."""

    two_theta: Floats  # positions of Kα1, degrees
    error: Floats  # standard errors of the positions, degrees
    intensity: Floats  # areas (of Kα1) relative to the largest
    width: Floats  # full widths at half maximum, degrees
    significance: Floats  # areas over their standard errors


def decompose(model: PatternModel, noise: Noise, start: Parameters, step: float, strongest: float) -> Evaluation:
    """Fit the pattern, with updated variances, and choose its peaks.

    Args:
        step: between angles, degrees.
        strongest: height of the strongest candidate.
    """
    tuning = model.tuning
    deviation = model.prior[Shape.AXIAL, 1]
    model.prior[Shape.AXIAL, 1] = 0.1  # peaks that are still missing would look like asymmetry
    state, factor = model.fit(start, 5, 0.01)
    for _ in range(tuning.rounds):
        keep = _significant(model, state, 2.0)
        model.variance = noise.variance(state.fitted) + (tuning.misfit * state.peaks) ** 2
        width = model.median_width(state.parameters)
        residual, variance = model.y - state.fitted, factor * model.variance
        position, height = filter_maxima(model.x, residual, variance, step, width, tuning)
        area = height * width / GAUSS_HEIGHT
        near = np.abs(position[:, None] - state.parameters.position[None, :]).min(axis=1, initial=np.inf)
        new = (near > 0.4 * width) & (height > tuning.candidate_share * tuning.faintest * strongest)
        new &= ~_in_tails(model, state.parameters, position, area, tuning.candidate_share * tuning.tail)
        if keep.all() and not new.any():
            break
        state, factor = model.fit(state.parameters.select(keep, position[new], area[new]), 3, 0.01)
    model.prior[Shape.AXIAL, 1] = deviation
    width = model.median_width(state.parameters)
    for _ in range(2):
        keep = _significant(model, state, tuning.significance)
        model.variance = noise.variance(state.fitted) * _misfit(model, noise, state, width / step)
        state, _ = model.fit(state.parameters.select(keep, NO_PEAKS, NO_PEAKS), 6, 3e-4)
        if keep.all():
            break
    return state


def report(model: PatternModel, state: Evaluation, most: int, strongest: float) -> Peaks:
    """The certain peaks, up to `most` of lowest angle."""
    tuning, parameters = model.tuning, state.parameters
    position_error, area_error = state.errors()
    width = model.widths(parameters)
    height = parameters.area * GAUSS_HEIGHT / width
    # A peak wider than the others is several overlapping ones, which limits what its position means.
    excess = np.maximum(parameters.log_width - tuning.width_spread, 0)
    overlap = width * np.sqrt(np.expm1(2 * excess)) / FWHM_PER_SIGMA
    axial = tuning.axial_error * model.axial_reach(parameters) / 3
    position_error = np.sqrt(position_error**2 + (0.5 * overlap) ** 2)
    certain = (parameters.area > tuning.significance * area_error) & (position_error < tuning.position_error * width)
    position_error = np.sqrt(position_error**2 + axial**2)  # shifts a peak without blurring it
    certain &= height > tuning.faintest * strongest
    certain &= ~_in_tails(model, parameters, parameters.position, parameters.area, tuning.tail)
    certain &= ~_on_shoulders(model, parameters)
    certain &= ~_weak_rows(parameters.position, height < tuning.weak * strongest, tuning.row_distance * width)
    k = np.flatnonzero(certain)[:most]
    area = parameters.area[k]
    largest = float(area.max(initial=0.0)) or 1.0
    return Peaks(parameters.position[k], position_error[k], area / largest, width[k], area / area_error[k])


def _misfit(model: PatternModel, noise: Noise, state: Evaluation, points: float) -> Floats:
    """χ² around each point, at least 1: reduces the weight of regions that the model cannot describe."""
    chi2 = (model.y - state.fitted) ** 2 / noise.variance(state.fitted)
    return np.maximum(1.0, running_mean(chi2, 2 * round(points) + 1))


def _significant(model: PatternModel, state: Evaluation, least: float) -> Bools:
    """Peaks to keep: area over its error at least `least`, and not merged with a stronger neighbour.

    Of two overlapping peaks that are both insignificant, only the less significant one is dropped.
    """
    parameters = state.parameters
    ratio = parameters.area / state.errors()[1]
    gap, width = np.diff(parameters.position), model.widths(parameters)[1:]
    drop = ratio < least
    first_is_less = ratio[:-1] < ratio[1:]
    pair = (gap < 2 * width) & drop[:-1] & drop[1:]
    drop[:-1] &= ~(pair & ~first_is_less)
    drop[1:] &= ~(pair & first_is_less)
    merged = gap < model.tuning.merge_distance * width
    first_is_weaker = parameters.area[:-1] < parameters.area[1:]
    drop[:-1] = (drop[:-1] & ~(merged & ~first_is_weaker)) | (merged & first_is_weaker)
    drop[1:] = (drop[1:] & ~(merged & first_is_weaker)) | (merged & ~first_is_weaker)
    return ~drop


def _in_tails(model: PatternModel, parameters: Parameters, position: Floats, area: Floats, share: float) -> Bools:
    """Peaks that may be a misfit in the tail of a stronger one."""
    distance = (position[:, None] - parameters.position[None, :]) / model.widths(parameters)[None, :]
    tail = share / (1 + 4 * distance**2) * parameters.area[None, :]
    return np.asarray(np.any(area[:, None] < tail, axis=1))


def _on_shoulders(model: PatternModel, parameters: Parameters) -> Bools:
    """Peaks that may be the wrong width or asymmetry of a neighbour: profiles differ between reflections."""
    position, area, tuning = parameters.position, parameters.area, model.tuning
    distance = np.abs(position[:, None] - position[None, :]) / model.widths(parameters)[None, :]
    small = area[:, None] < tuning.shoulder_area * area[None, :]
    return np.asarray(np.any((distance < tuning.shoulder) & small, axis=1))


def _weak_rows(position: Floats, weak: Bools, reach: Floats) -> Bools:
    """Three or more weak peaks in close succession: one maximum that is too broad for a crystal."""
    linked = (np.diff(position) < reach[1:]) & weak[1:] & weak[:-1]
    both = linked[1:] & linked[:-1]  # of the middle one of three
    result = np.zeros(len(position), dtype=bool)
    for shift in range(3):
        result[shift : shift + len(both)] |= both
    return result
