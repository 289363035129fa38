"""Cell and shifts from the line positions of a whole-pattern fit, with standard errors that hold.

A least-squares fit of a profile that is not quite right is sure of positions that are wrong: its formal errors shrink
with the counts, the misfit does not. Here every line may deviate from its calculated position by a systematic error, a
share of its width, one part of which is common to lines at similar angles. The share is estimated from the scatter of
the lines. Cell, zero shift, displacement and transparency follow by generalised least squares, with wide priors for the
shifts; a shift that the data cannot separate from the cell enters the errors of both.
"""

from typing import NamedTuple

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.refinement.problem import Problem, State
from vitreous.powder.refinement.products import LineRows
from vitreous.powder.refinement.profile import Array, Mask
from vitreous.powder.refinement.shifts import SHIFT_COUNT
from vitreous.powder.tuning import REFINEMENT_TUNING, RefinementTuning


class PositionFit(NamedTuple):
    """Metric and shifts, their covariance, and the systematic error of positions as a share of the width."""

    values: Array  # (metric + shifts,)
    covariance: Array
    share: float


class LinePositions(NamedTuple):
    """What a pattern tells of the positions of its lines: offsets δ from those of a fit cost δᵀSδ - 2bᵀδ."""

    information: Array  # S, (lines, lines), 1/degree²
    pull: Array  # b, (lines,), 1/degree
    derivatives: Array  # (lines, metric + shifts), of the positions in degrees
    width: Array  # (lines,), FWHM in degrees
    angle: Array  # (lines,), 2θ in degrees


def line_positions(problem: Problem, state: State) -> LinePositions:
    """The positions of the lines with an intensity; areas, background and profile are eliminated."""
    areas = state.linear[: problem.count]
    lines, windows = state.lines, state.lines.windows
    moved = np.flatnonzero((areas > 0) & (np.diff(windows.starts) > 0))
    slopes = lines.by_position * areas[windows.line] * problem.root[windows.points]
    columns = LineRows(state.columns.blocks, slopes)
    derivatives = problem.positions(state.theta, problem.wavelengths[0])[1][moved]
    if not derivatives.any(axis=0).all():
        raise InputError("cell: has parameters on which no line of the pattern depends")
    information, pull = problem.eliminate(state, columns)
    information, pull, excess = information[np.ix_(moved, moved)], pull[moved], problem.excess(state)
    return LinePositions(information / excess, pull / excess, derivatives, lines.width[moved], state.positions[moved])


def fit_positions(
    lines: LinePositions, start: Array, free: Mask, tuning: RefinementTuning = REFINEMENT_TUNING
) -> PositionFit:
    """Metric and shifts after a correction of `start` by the positions; only `free` parameters change."""
    spread = np.array([*[np.inf] * (len(start) - SHIFT_COUNT), *tuning.shift_spread])
    zero = len(start) - SHIFT_COUNT
    results = []
    for share in tuning.position_shares:
        values = start
        for _ in range(tuning.zero_rounds):  # a Cauchy prior for the zero shift: a large one is not pulled back
            wide = spread.copy()
            wide[zero] = np.hypot(spread[zero], values[zero])
            values, covariance, cost = _solve(lines, start, 1 / wide**2, free, share, tuning)
        results.append((cost, PositionFit(values, covariance, share)))
    return min(results, key=lambda result: result[0])[1]


def _solve(
    lines: LinePositions, start: Array, prior: Array, free: Mask, share: float, tuning: RefinementTuning
) -> tuple[Array, Array, float]:
    """Values, covariance and twice the negative log evidence for one size of the systematic errors."""
    distance = (lines.angle[:, None] - lines.angle) / tuning.common_range
    common = tuning.common_part * np.exp(-0.5 * distance**2)
    kernel = common + (1 - tuning.common_part) * np.eye(len(lines.width))
    errors = (share * lines.width)[:, None] * kernel * (share * lines.width)
    # The offsets ε of the lines are eliminated: with S = L Lᵀ, the information that their errors K leave is
    # S (1 + K S)⁻¹ = L (1 + Lᵀ K L)⁻¹ Lᵀ, which rounding cannot make negative.
    eigenvalues, vectors = np.linalg.eigh((lines.information + lines.information.T) / 2)
    factor = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    inner = np.eye(len(errors)) + factor.T @ errors @ factor
    information = factor @ np.linalg.solve(inner, factor.T)
    information = (information + information.T) / 2
    pull = lines.pull - factor @ np.linalg.solve(inner, factor.T @ (errors @ lines.pull))
    derivatives = lines.derivatives[:, free]
    normal = derivatives.T @ information @ derivatives + np.diag(prior[free])
    right = derivatives.T @ pull - (prior * start)[free]
    size = np.sqrt(np.diag(normal))
    inverse = np.linalg.pinv(normal / size / size[:, None], hermitian=True) / size / size[:, None]
    move = inverse @ right
    covariance = np.zeros((len(start), len(start)))
    covariance[np.ix_(free, free)] = inverse
    values = start.copy()
    values[free] += move
    # Evidence of the offsets, without constants.
    gain = float(right @ move + lines.pull @ errors @ pull)
    volume = float(np.linalg.slogdet(inner)[1] + np.linalg.slogdet(normal / size / size[:, None])[1])
    volume += 2 * float(np.log(size).sum())
    return values, covariance, volume - gain
