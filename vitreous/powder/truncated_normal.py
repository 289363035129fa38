"""Integrals of intensities that cannot be negative: normal likelihoods times exponential priors.

Isolated intensities have closed forms; overlapping ones are treated by expectation propagation (Minka 2001).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr

Floats = NDArray[np.float64]

_SWEEPS = 30
_DAMPING = 0.8
_SETTLED = 1e-4
_FAR = -50.0  # standard deviations: truncated further out, moments follow from their asymptotic series
_LEAST_PRECISION = 1e-9  # of a site, relative to that of the likelihood


class Prior(NamedTuple):
    """A mixture of exponential distributions: weights `(k,)`, and means `(k, n)` of n intensities."""

    weights: Floats
    means: Floats


class Moments(NamedTuple):
    """Of a normal density times a prior: the logarithm of its integral, its mean and its variance, each `(n,)`."""

    log_integral: Floats
    mean: Floats
    variance: Floats


def moments(mean: Floats, variance: Floats, prior: Prior) -> Moments:
    """Of normal densities of means and variances `(n,)` times a prior on x ≥ 0."""
    rate = 1 / prior.means  # (k, n)
    deviation = np.sqrt(variance)
    z = (mean - rate * variance) / deviation
    left = np.minimum(z, 0)
    near = np.log(erfcx(-left / math.sqrt(2)) / 2) - mean**2 / variance / 2  # no difference of two large numbers
    far = -rate * mean + rate**2 * variance / 2 + log_ndtr(z)
    logs = np.log(prior.weights)[:, None] + np.log(rate) + np.where(z < 0, near, far)
    log_integral = np.logaddexp.reduce(logs, axis=0)
    share = np.exp(logs - log_integral)
    hazard = math.sqrt(2 / math.pi) / erfcx(-z / math.sqrt(2))  # density over tail of a standard normal
    t = 1 / np.minimum(z, _FAR) ** 2
    first = deviation * np.where(z > _FAR, z + hazard, np.sqrt(t) * (1 - 2 * t + 10 * t**2))
    second = variance * np.where(z > _FAR, 1 + z * (z + hazard), 2 * t - 10 * t**2 + 74 * t**3)
    expected = (share * first).sum(0)
    return Moments(log_integral, expected, np.maximum((share * second).sum(0) - expected**2, 1e-12 * variance))


def log_evidence(information: Floats, pull: Floats, prior: Prior) -> float:
    """log ∫ exp(bᵀx - xᵀSx/2) p(x) dx over x ≥ 0, for S `(n, n)`, b `(n,)` and independent priors."""
    if not len(pull):
        return 0.0
    if len(pull) == 1:
        variance = 1 / information[0]
        gauss = 0.5 * float(pull[0] ** 2 * variance[0]) + 0.5 * math.log(2 * math.pi * float(variance[0]))
        return gauss + float(moments(pull * variance, variance, prior).log_integral[0])
    return _expectation_propagation(information, pull, prior)


def _expectation_propagation(information: Floats, pull: Floats, prior: Prior) -> float:
    """The same for several correlated intensities."""
    n = len(pull)
    precision, shift = np.full(n, _LEAST_PRECISION) * np.diag(information), np.zeros(n)
    before = -np.inf
    for _ in range(_SWEEPS):
        covariance = np.linalg.inv(information + np.diag(precision))
        mean = covariance @ (pull + shift)
        own = np.diag(covariance)
        cavity_precision = np.maximum(1 / own - precision, 1e-12 / own)
        cavity_shift = mean / own - shift
        cavity = cavity_shift / cavity_precision
        tilted = moments(cavity, 1 / cavity_precision, prior)
        # log Z of Rasmussen & Williams (2006), 3.65, in natural parameters
        total = _log_partition(information, pull, precision, shift)
        total += float(
            (
                tilted.log_integral
                + 0.5 * np.log1p(precision / cavity_precision)
                + 0.5 * (cavity_shift**2 / cavity_precision)
                - 0.5 * (cavity_shift + shift) ** 2 / (cavity_precision + precision)
            ).sum()
        )
        if abs(total - before) < _SETTLED:
            return total
        before = total
        new_precision = np.maximum(1 / tilted.variance - cavity_precision, _LEAST_PRECISION * np.diag(information))
        new_shift = tilted.mean / tilted.variance - cavity_shift
        precision = _DAMPING * new_precision + (1 - _DAMPING) * precision
        shift = _DAMPING * new_shift + (1 - _DAMPING) * shift
    return before


def _log_partition(information: Floats, pull: Floats, precision: Floats, shift: Floats) -> float:
    """log ∫ exp((b + ν)ᵀx - xᵀ(S + τ)x/2) dx."""
    total, right = information + np.diag(precision), pull + shift
    log_determinant = float(np.linalg.slogdet(total)[1])
    return 0.5 * float(right @ np.linalg.solve(total, right)) + 0.5 * (
        len(pull) * math.log(2 * math.pi) - log_determinant
    )
