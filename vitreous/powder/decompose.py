"""A powder pattern taken apart: a smooth background and pseudo-Voigt lines that share one profile, fitted at once.

What stands out of the residual becomes a line, what the fit makes insignificant is dropped.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from vitreous.powder.matched import Noise, smoothed, stand_out

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_SURE = 5.0  # area over its standard error for a line to be reported
FAINT = 0.003  # of the strongest line's height: weaker ones are not reported
_MISFIT = 0.03  # of the fitted intensity: no profile describes a real line better
_TAIL = 0.6  # of a Lorentzian's tail: what is weaker beside a strong line belongs to it
MAYBE = 0.3  # of these two limits is enough for a candidate
_SHOULDER = 1.1  # FWHM: a line this near a stronger one is fitted
_SMALL = 0.35  # of its area: but not reported if weaker
_WEAK = 0.01  # of the strongest line's height: three such in a row are one that is broad
_ROW = 2.5  # FWHM between lines in a row
_CLOSE = 0.6  # FWHM: of two lines nearer than this, one is dropped
_BLUR = 0.25  # FWHM: a line placed no better than this is not reported
_ROUNDS = 3  # of adding what stands out of the residual
_NODES = {n: np.polynomial.legendre.leggauss(n) for n in (1, 3, 8)}  # heights in the slit, on [-1, 1]
_BELL = math.sqrt(4 * math.log(2) / math.pi)  # height of a Gaussian of FWHM and area 1
_WIDTH, _TILT, _BEND, _MIXING, _DRIFT, _AXIAL, _RATIO = range(7)  # the profile's parameters
_PRIOR = {  # mean, deviation, least and greatest
    _WIDTH: (0.0, 1.0, -9.0, 9.0),  # logarithm of the FWHM in the middle of the pattern, about the typical one
    _TILT: (0.0, 0.4, -1.0, 1.0),  # its slope over half the pattern
    _BEND: (0.0, 0.15, -0.5, 0.5),  # and its curvature
    _MIXING: (0.5, 0.5, 0.0, 1.0),  # Lorentzian share of the profile
    _DRIFT: (0.0, 0.1, -0.5, 0.5),  # and its slope
    _AXIAL: (0.8, 1.0, 0.0, 40.0),  # square of half the slit's height over the radius, in 1e-4
    _RATIO: (0.25, 0.25, 0.0, 0.6),  # of Kα2 to Kα1
}
_SPREAD = 0.05  # deviation of single lines' log widths from the common one
_ASYMMETRY = 0.6  # 1e-4: what is known of axial divergence at best, whatever the fit says
_STRONG = 30.0  # height over noise from which a line has a width of its own
_CHUNK = 128  # points whose share of the normal matrix is added at once


@dataclass(frozen=True)
class Peaks:
    """The lines of a pattern by rising angle, arrays `(n,)`.

    Attributes:
        two_theta: positions of Kα1, degrees.
        error: their standard errors, degrees.
        intensity: areas (of Kα1), of which the largest is 1.
        width: full widths at half maximum, degrees.
        significance: areas over their standard errors.
    """

    two_theta: Floats
    error: Floats
    intensity: Floats
    width: Floats
    significance: Floats


def second_line(two_theta: Floats, stretch: float) -> Floats:
    """Where Kα2 of a line stands."""
    sine = np.minimum(np.sin(np.radians(two_theta / 2)) * stretch, 1.0)
    result: Floats = 2 * np.degrees(np.arcsin(sine))
    return result


class _Plan(NamedTuple):
    low: Ints  # (lines,), first point of each line
    length: Ints  # (lines,), how many points
    place: Ints  # (lines,), among those with a width of their own, or -1
    chunks: list[tuple[slice, slice, Ints, Ints]]  # points; splines; columns of lines; places in the normal matrix


class Fit:
    """Background, lines and their common profile, fitted to all points of a pattern at once."""

    def __init__(
        self, x: Floats, y: Floats, noise: Noise, variance: Floats, width: float, stretch: float, ratio: float | None,
        at: Floats, height: Floats,
    ) -> None:  # fmt: skip
        self.x, self.y, self.noise, self.variance = x, y, noise, variance
        self.start, self.stretch = width, stretch
        self.splines = _splines(x, width)  # (points, k)
        prior = np.array([_PRIOR[k] for k in range(7)])
        if ratio is not None or not stretch:
            prior[_RATIO] = (ratio or 0.0, 1e-4, 0.0, 1.0)
        self.prior = prior
        self.shape = prior[:, 0].copy()
        self.at, self.area, self.extra = at, height * width / _BELL, np.zeros(len(at))
        self.background = np.zeros(self.splines.shape[1])
        self.scale = 1.0  # of the variance, by the misfit

    def decompose(self, step: float, strongest: float) -> None:
        """Fit; add what stands out; drop what does not."""
        deviation = self.prior[_AXIAL, 1]
        self.prior[_AXIAL, 1] = 0.1  # lines that are not yet there would look like asymmetry
        self._converge(5, 0.01)
        for _ in range(_ROUNDS):
            keep = self._significant(2.0)
            self.variance = self._variance() + (_MISFIT * self.lines) ** 2
            width = float(np.median(self._widths())) if len(self.at) else self.start
            at, height = stand_out(self.x, self.y - self.model, self.scale * self.variance, step, width)
            near = np.abs(at[:, None] - self.at[None, :]).min(axis=1, initial=np.inf)
            new = (near > 0.4 * width) & (height > MAYBE * FAINT * strongest)
            new &= ~self._in_tails(at, height * width / _BELL, MAYBE * _TAIL)
            self._choose(keep, at[new], height[new] * width / _BELL)
            if keep.all() and not new.any():
                break
            self._converge(3, 0.01)
        self.prior[_AXIAL, 1] = deviation
        width = float(np.median(self._widths())) if len(self.at) else self.start
        for _ in range(2):
            keep = self._significant(_SURE)
            self._choose(keep, np.zeros(0), np.zeros(0))
            self.variance = self._variance() * self._misfit(width / step)
            self._converge(6, 3e-4)
            if keep.all():
                break

    def peaks(self, most: int, strongest: float) -> Peaks:
        """Those that are sure."""
        position, area = self._errors()
        width = self._widths()
        # A line wider than the others is several: where each stands is known no better than how far they are apart.
        apart = width * np.sqrt(np.expm1(2 * np.maximum(self.extra - _SPREAD, 0))) / 2.3548
        axial = _ASYMMETRY * self._reach() / 3
        position = np.sqrt(position**2 + (0.5 * apart) ** 2)
        sure = (self.area > _SURE * area) & (position < _BLUR * width)
        position = np.sqrt(position**2 + axial**2)  # which blurs no line, but is not known better
        sure &= self.area * _BELL / width > FAINT * strongest
        sure &= ~self._in_tails(self.at, self.area, _TAIL) & ~self._on_shoulders()
        sure &= ~_rows(self.at, self.area * _BELL / width < _WEAK * strongest, _ROW * width)
        k = np.flatnonzero(sure)[:most]
        top = float(self.area[k].max(initial=0.0)) or 1.0
        return Peaks(self.at[k], position[k], self.area[k] / top, width[k], self.area[k] / area[k])

    def _variance(self) -> Floats:
        return self.noise.variance(self.model)

    def _misfit(self, points: float) -> Floats:
        """χ² around each point where it is more than noise: what is not described must not bend the profile."""
        chi2 = (self.y - self.model) ** 2 / self._variance()
        return np.maximum(1.0, smoothed(chi2, 2 * round(points) + 1))

    def _unit(self) -> Floats:
        """Positions as -1 to 1 over the pattern."""
        result: Floats = 2 * (self.at - self.x[0]) / (self.x[-1] - self.x[0]) - 1
        return result

    def _widths(self) -> Floats:
        unit, s = self._unit(), self.shape
        result: Floats = self.start * np.exp(s[_WIDTH] + s[_TILT] * unit + s[_BEND] * unit**2 + self.extra)
        return result

    def _significant(self, least: float) -> Bools:
        """Which lines are, and are not one with a stronger neighbour; of two that overlap, only the less is not."""
        ratio = self.area / self._errors()[1]
        gap, width = np.diff(self.at), self._widths()[1:]
        drop = ratio < least
        first = ratio[:-1] < ratio[1:]
        pair = (gap < 2 * width) & drop[:-1] & drop[1:]
        drop[:-1] &= ~(pair & ~first)
        drop[1:] &= ~(pair & first)
        one = gap < _CLOSE * width
        weaker = self.area[:-1] < self.area[1:]
        drop[:-1] = (drop[:-1] & ~(one & ~weaker)) | (one & weaker)
        drop[1:] = (drop[1:] & ~(one & weaker)) | (one & ~weaker)
        return ~drop

    def _in_tails(self, at: Floats, area: Floats, share: float) -> Bools:
        """Which lines may be no more than a misfit in the tail of a stronger one."""
        distance = (at[:, None] - self.at[None, :]) / self._widths()[None, :]
        result: Bools = np.any(area[:, None] < share / (1 + 4 * distance**2) * self.area[None, :], axis=1)
        return result

    def _on_shoulders(self) -> Bools:
        """Which lines may be no more than a neighbour's width or tilt: not all planes scatter lines of one shape."""
        distance = np.abs(self.at[:, None] - self.at[None, :]) / self._widths()[None, :]
        result: Bools = np.any((distance < _SHOULDER) & (self.area[:, None] < _SMALL * self.area[None, :]), axis=1)
        return result

    def _choose(self, keep: Bools | Ints, at: Floats, area: Floats) -> None:
        """Keep some lines and add others, in order."""
        position = np.concatenate([self.at[keep], at])
        order = np.argsort(position)
        self.at = position[order]
        self.area = np.concatenate([self.area[keep], area])[order]
        self.extra = np.concatenate([self.extra[keep], np.zeros(len(at))])[order]

    def _errors(self) -> tuple[Floats, Floats]:
        """Standard errors of positions and areas, everything else being free."""
        count, k = len(self.at), len(self.background)
        if not count:
            return np.zeros(0), np.zeros(0)
        inverse, _ = dpotri(dpotrf(self.normal)[0])
        error = np.sqrt(np.maximum(np.diag(inverse)[k : k + 2 * count], 1e-300))
        return error[count:], error[:count]

    def _converge(self, most: int, enough: float) -> None:
        """Levenberg-Marquardt until χ² falls by less than `enough` of itself."""
        damping = 1e-3
        plan = self._plan()
        value = self._evaluate(plan)
        for _ in range(most):
            factor, fault = dpotrf(self.normal + np.diag(damping * np.diag(self.normal)))
            step = dpotrs(factor, self.gradient)[0]
            before = dict(vars(self))
            self._move(step)
            new = self._evaluate(plan)
            if fault or not new <= value:
                vars(self).update(before)
                damping *= 10
                continue
            gain, value = value - new, new
            damping /= 5
            if gain < max(0.3, enough * value):
                break
        self.scale = max(1.0, float(np.median((self.y - self.model) ** 2 / self.variance)) / 0.455)
        order = np.argsort(self.at)
        if (np.diff(order) < 0).any():
            self._choose(order, np.zeros(0), np.zeros(0))
            self._evaluate(self._plan())

    def _move(self, step: Floats) -> None:
        count, k = len(self.at), len(self.background)
        background, area, at, extra, shape = np.split(step, [k, k + count, k + 2 * count, len(step) - 7])
        width = self._widths()
        self.background = self.background + background
        self.area = self.area + area
        self.at = np.clip(self.at + np.clip(at, -0.4 * width, 0.4 * width), self.x[0], self.x[-1])
        self.extra = self.extra.copy()
        self.extra[self.own] = np.clip(self.extra[self.own] + np.clip(extra, -0.3, 0.3), -1.0, 1.0)
        shape = np.clip(shape, -0.3, 0.3 + 3 * (np.arange(7) == _AXIAL))
        self.shape = np.clip(self.shape + shape, self.prior[:, 2], self.prior[:, 3])

    def _plan(self) -> "_Plan":
        """Which points each line reaches, as far as its tails are above the noise, and which lines each chunk holds."""
        width = self._widths()
        sigma = math.sqrt(float(np.quantile(self.variance, 0.25)))
        height = np.maximum(self.area, 0) / width * _BELL
        # A Lorentzian's tail falls as 1 / (2u)² with the distance u in FWHM.
        reach = width * np.clip(0.5 * np.sqrt(height / sigma), 4, 40)
        second = second_line(self.at, self.stretch) - self.at if self.stretch else 0.0
        low = np.searchsorted(self.x, self.at - reach - np.abs(self.shape[_AXIAL] * self._reach()))
        high = np.searchsorted(self.x, self.at + reach + second)
        self.own = np.flatnonzero(height > _STRONG * sigma)
        count, k = len(self.at), len(self.background)
        place = np.full(count, -1)
        place[self.own] = np.arange(len(self.own))
        chunks = []
        for first in range(0, len(self.x), _CHUNK):
            part = slice(first, first + _CHUNK)
            inside = np.flatnonzero(self.splines[part].any(axis=0))
            knots = np.arange(inside[0], inside[-1] + 1)  # also those within a gap of the pattern
            m = np.flatnonzero((low < first + _CHUNK) & (high > first))
            own = place[m]
            lines = np.concatenate([m, m + count, own[own >= 0] + 2 * count])
            index = np.concatenate([knots, k + lines, k + 2 * count + len(self.own) + np.arange(7)])
            chunks.append((part, slice(int(knots[0]), int(knots[-1]) + 1), lines, index))
        return _Plan(low, high - low, place, chunks)

    def _reach(self) -> Floats:
        """How far axial divergence of 1e-4 carries a line to lower angles: half the square of the height × cot 2θ."""
        result: Floats = math.degrees(0.5e-4) / np.tan(np.radians(np.clip(self.at, 1.0, 179.0)))
        return result

    def _evaluate(self, plan: "_Plan") -> float:
        """Model, normal matrix and gradient at the present parameters; χ² with the priors."""
        points, count, k = len(self.x), len(self.at), len(self.background)
        weight = 1 / np.sqrt(self.variance)
        columns = np.zeros((points, 2 * count + len(self.own)))  # by areas, positions and widths
        common = np.zeros((points, 7))
        unit, width, reach = self._unit(), self._widths(), self._reach()
        mixing = np.clip(self.shape[_MIXING] + self.shape[_DRIFT] * unit, 0.0, 1.0)
        share = np.abs(self.shape[_AXIAL] * reach) / width
        for nodes, chosen in ((1, share < 0.02), (3, (share >= 0.02) & (share < 0.6)), (8, share >= 0.6)):
            m = np.flatnonzero(chosen)
            if not len(m):
                continue
            length = plan.length[m]
            column = np.repeat(m, length)
            row = np.arange(len(column)) + np.repeat(plan.low[m] - np.cumsum(length) + length, length)
            profile = self._profile(self.x[row], column, nodes, width, mixing, reach)
            profile[1:] *= self.area[column]
            value, by_position, by_width, by_mixing, by_axial, by_ratio = profile
            columns[row, column] = value
            columns[row, count + column] = by_position
            own = plan.place[column]
            columns[row[own >= 0], 2 * count + own[own >= 0]] = by_width[own >= 0]
            z = unit[column]
            for name, values in (
                (_WIDTH, by_width), (_TILT, by_width * z), (_BEND, by_width * z * z), (_MIXING, by_mixing),
                (_DRIFT, by_mixing * z), (_AXIAL, by_axial), (_RATIO, by_ratio),
            ):  # fmt: skip
                common[:, name] += np.bincount(row, values, minlength=points)
        self.lines = columns[:, :count] @ self.area
        self.model = self.splines @ self.background + self.lines
        residual = (self.y - self.model) * weight
        size = k + columns.shape[1] + 7
        normal, gradient = np.zeros((size, size)), np.zeros(size)
        for part, knots, lines, index in plan.chunks:
            block = np.concatenate([self.splines[part, knots], columns[part][:, lines], common[part]], axis=1)
            block *= weight[part, None]
            normal[index[:, None], index] += block.T @ block
            gradient[index] += residual[part] @ block
        deviation = np.concatenate([np.full(len(self.own), _SPREAD), self.prior[:, 1]])
        penalty = np.concatenate([self.extra[self.own], self.shape - self.prior[:, 0]]) / deviation
        tail = np.arange(size - len(penalty), size)
        normal[tail, tail] += deviation**-2
        gradient[tail] -= penalty / deviation
        diagonal = np.diag(normal)
        normal[np.arange(size), np.arange(size)] += np.where(diagonal > 0, 1e-9 * diagonal, 1.0)
        self.normal, self.gradient = normal, gradient
        return float(residual @ residual + penalty @ penalty)

    def _profile(self, x: Floats, column: Ints, nodes: int, width: Floats, mixing: Floats, reach: Floats) -> Floats:
        """Of lines of area 1, and its derivatives by position, log width, mixing, axial divergence and ratio."""
        inverse, eta = 1 / width[column], mixing[column]
        total = np.zeros((6, len(x)))
        heights, weights = _NODES[nodes]
        squares = ((heights + 1) / 2) ** 2 if nodes > 1 else np.array([1 / 3])
        starts = [(self.at, 1.0, False)]
        if self.stretch:
            starts.append((second_line(self.at, self.stretch), float(self.shape[_RATIO]), True))
        for start, strength, second in starts:
            for square, share in zip(squares, weights / 2, strict=True):
                u = (x - (start - self.shape[_AXIAL] * reach * square)[column]) * inverse
                four = 4 * u * u
                gauss = (_BELL * inverse) * np.exp(-math.log(2) * four)
                bow = 1 / (1 + four)
                lorentz = (2 / math.pi * inverse) * bow
                value = eta * lorentz + (1 - eta) * gauss
                slope = (8 * u) * (eta * lorentz * bow + (math.log(2) * (1 - eta)) * gauss)  # -d value / du
                amount = strength * share
                total[0] += amount * value
                by_position = amount * slope * inverse
                total[1] += by_position
                total[2] += amount * (u * slope - value)
                total[3] += amount * (lorentz - gauss)
                total[4] -= by_position * (square * reach)[column]
                if second:
                    total[5] += share * value
        return total


def _rows(at: Floats, weak: Bools, reach: Floats) -> Bools:
    """Weak lines, three or more in a row and close: one that is too broad to be of the crystal."""
    linked = (np.diff(at) < reach[1:]) & weak[1:] & weak[:-1]
    both = linked[1:] & linked[:-1]  # of the middle one of three
    result = np.zeros(len(at), dtype=bool)
    for shift in range(3):
        result[shift : shift + len(both)] |= both
    return result


def _splines(x: Floats, width: float) -> Floats:
    """Cubic splines `(points, k)` that bend no faster than a background: knots close at low angles, far at high."""
    knots = [float(x[0])]
    while knots[-1] < x[-1]:
        knots.append(knots[-1] + float(np.clip(0.25 * knots[-1], max(1.0, 12 * width), max(5.0, 12 * width))))
    inner = np.array(knots) * (x[-1] - x[0]) / (knots[-1] - x[0]) - x[0] * (x[-1] - knots[-1]) / (knots[-1] - x[0])
    inner[0], inner[-1] = x[0], x[-1]
    full = np.concatenate([[inner[0]] * 3, inner, [inner[-1]] * 3])
    result: Floats = BSpline.design_matrix(x, full, 3).toarray()
    return result
