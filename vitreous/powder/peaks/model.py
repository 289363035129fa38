"""Least-squares model of a whole pattern: a spline background and pseudo-Voigt peaks that share one profile."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from vitreous.powder.bragg import second_wavelength
from vitreous.powder.least_squares import Damping, Trial, minimise
from vitreous.powder.lineshape import GAUSS_HEIGHT, LORENTZ_HEIGHT, lorentz_and_gauss, slit_quadrature
from vitreous.powder.peaks.noise import Bools, Floats, Ints, background_splines
from vitreous.powder.tuning import PeakTuning

NO_PEAKS = np.zeros(0)
_CHUNK = 128  # points whose part of the normal matrix is added at once


class Shape(IntEnum):
    """Parameters of the common profile."""

    WIDTH = 0  # log FWHM at the middle of the pattern, relative to the typical one
    TILT = 1  # slope of the log FWHM over half the pattern
    BEND = 2  # curvature of the log FWHM
    MIXING = 3  # Lorentzian share
    DRIFT = 4  # slope of the Lorentzian share
    AXIAL = 5  # axial divergence: squared ratio of half the slit height to the radius, in 1e-4
    RATIO = 6  # Kα2 to Kα1


_PRIOR = {  # mean, standard deviation, minimum and maximum
    Shape.WIDTH: (0.0, 1.0, -9.0, 9.0),
    Shape.TILT: (0.0, 0.4, -1.0, 1.0),
    Shape.BEND: (0.0, 0.15, -0.5, 0.5),
    Shape.MIXING: (0.5, 0.5, 0.0, 1.0),
    Shape.DRIFT: (0.0, 0.1, -0.5, 0.5),
    Shape.AXIAL: (0.8, 1.0, 0.0, 40.0),
    Shape.RATIO: (0.25, 0.25, 0.0, 0.6),
}


@dataclass(frozen=True)
class Parameters:
    """Parameters of the model: arrays `(peaks,)` and those of background and profile."""

    position: Floats
    area: Floats
    log_width: Floats  # relative to the common width
    background: Floats
    shape: Floats  # (7,), by `Shape`

    def select(self, keep: Bools | Ints, position: Floats, area: Floats) -> "Parameters":
        """Keep some peaks and add others, sorted by position."""
        positions = np.concatenate([self.position[keep], position])
        order = np.argsort(positions)
        return replace(
            self,
            position=positions[order],
            area=np.concatenate([self.area[keep], area])[order],
            log_width=np.concatenate([self.log_width[keep], np.zeros(len(position))])[order],
        )


@dataclass(frozen=True)
class Chunk:
    """A part of the pattern, and what of the model is not zero there."""

    points: slice
    splines: slice
    places: slice  # of the derivatives by its peaks among all, one column after another, `_CHUNK` points each
    index: Ints  # places of splines, columns of peaks and shape in the normal matrix


@dataclass(frozen=True)
class Windows:
    """Points that each peak covers, and peaks with a width of their own."""

    low: Ints  # (peaks,), first point
    length: Ints  # (peaks,), number of points
    individual: Ints  # peaks with a width of their own
    place: Ints  # (peaks,), place among `individual`, or -1
    chunks: list[Chunk]
    first: Ints  # (chunks, columns), place of the first point of each column of peaks in each chunk


@dataclass(frozen=True)
class Evaluation:
    """The model at given parameters."""

    parameters: Parameters
    peaks: Floats  # (points,), intensity without background
    fitted: Floats  # (points,)
    normal: Floats
    gradient: Floats
    cost: float  # χ² and the penalty of the priors

    def errors(self) -> tuple[Floats, Floats]:
        """Standard errors of positions and areas, with all other parameters free."""
        count, k = len(self.parameters.position), len(self.parameters.background)
        if not count:
            return NO_PEAKS, NO_PEAKS
        inverse, _ = dpotri(dpotrf(self.normal)[0])
        error = np.sqrt(np.maximum(np.diag(inverse)[k : k + 2 * count], 1e-300))
        return error[count:], error[:count]


class PatternModel:
    """The fit of one pattern; `variance` `(points,)` may be changed between fits.

    Args:
        x: 2θ in degrees; `y` are the intensities and `variance` their variances.
        width: typical FWHM, degrees.
        wavelength_ratio: wavelength of Kα2 over Kα1; 0 without a doublet.
        ratio: intensity of Kα2 over Kα1; None to fit it.
    """

    def __init__(
        self, x: Floats, y: Floats, variance: Floats, width: float, wavelength_ratio: float, ratio: float | None,
        tuning: PeakTuning,
    ) -> None:  # fmt: skip
        self.x, self.y, self.variance = x, y, variance
        self.width, self.wavelength_ratio, self.tuning = width, wavelength_ratio, tuning
        self.splines = background_splines(x, width)  # (points, k)
        self.prior = np.array([_PRIOR[name] for name in Shape])
        if ratio is not None or not wavelength_ratio:
            self.prior[Shape.RATIO] = (ratio or 0.0, 1e-4, 0.0, 1.0)

    def start(self, position: Floats, height: Floats) -> Parameters:
        """Parameters for candidates of these positions and heights."""
        area, background = height * self.width / GAUSS_HEIGHT, np.zeros(self.splines.shape[1])
        return Parameters(position, area, np.zeros(len(position)), background, self.prior[:, 0].copy())

    def widths(self, parameters: Parameters) -> Floats:
        """FWHM `(peaks,)` in degrees."""
        unit, s = self._unit(parameters), parameters.shape
        exponent = s[Shape.WIDTH] + s[Shape.TILT] * unit + s[Shape.BEND] * unit**2 + parameters.log_width
        return np.asarray(self.width * np.exp(exponent))

    def median_width(self, parameters: Parameters) -> float:
        """FWHM in degrees."""
        return float(np.median(self.widths(parameters))) if len(parameters.position) else self.width

    def axial_reach(self, parameters: Parameters) -> Floats:
        """Degrees by which an axial divergence of 1e-4 extends a peak to lower angles."""
        angle = np.radians(np.clip(parameters.position, 1.0, 179.0))
        return np.asarray(math.degrees(0.5e-4) / np.tan(angle))

    def fit(self, parameters: Parameters, steps: int, tolerance: float) -> tuple[Evaluation, float]:
        """Fit until the cost falls by less than `tolerance` of itself; also returns the factor of the variance."""
        windows = self._windows(parameters)

        def linearise(state: Evaluation) -> Callable[[float], Trial[Evaluation]]:
            def attempt(damping: float) -> Trial[Evaluation]:
                factor, fault = dpotrf(state.normal + np.diag(damping * np.diag(state.normal)))
                if fault:
                    return Trial(state, False, 0.0)
                step = dpotrs(factor, state.gradient)[0]
                trial = self._evaluate(self._move(state.parameters, windows, step), windows)
                return Trial(trial, trial.cost <= state.cost, state.cost - trial.cost)

            return attempt

        def settled(state: Evaluation, gain: float) -> bool:
            return gain < max(0.3, tolerance * state.cost)

        first = self._evaluate(parameters, windows)
        state, _ = minimise(first, linearise, settled, steps=steps, damping=Damping(decrease=5.0))
        factor = max(1.0, float(np.median((self.y - state.fitted) ** 2 / self.variance)) / 0.455)
        order = np.argsort(state.parameters.position)
        if (np.diff(order) < 0).any():
            parameters = state.parameters.select(order, NO_PEAKS, NO_PEAKS)
            state = self._evaluate(parameters, self._windows(parameters))
        return state, factor

    def _unit(self, parameters: Parameters) -> Floats:
        """Positions mapped to -1 to 1."""
        return np.asarray(2 * (parameters.position - self.x[0]) / (self.x[-1] - self.x[0]) - 1)

    def _move(self, parameters: Parameters, windows: Windows, step: Floats) -> Parameters:
        """Parameters after a step, limited in size and to the bounds."""
        count, k = len(parameters.position), len(parameters.background)
        background, area, position, log_width, shape = np.split(step, [k, k + count, k + 2 * count, len(step) - 7])
        reach, own = 0.4 * self.widths(parameters), windows.individual
        log_widths = parameters.log_width.copy()
        log_widths[own] = np.clip(log_widths[own] + np.clip(log_width, -0.3, 0.3), -1.0, 1.0)
        shape = np.clip(shape, -0.3, 0.3 + 3 * (np.arange(7) == Shape.AXIAL))
        return Parameters(
            np.clip(parameters.position + np.clip(position, -reach, reach), self.x[0], self.x[-1]),
            parameters.area + area,
            log_widths,
            parameters.background + background,
            np.clip(parameters.shape + shape, self.prior[:, 2], self.prior[:, 3]),
        )

    def _windows(self, parameters: Parameters) -> Windows:
        """Points of each peak as far as its tails exceed the noise, and peaks and splines of each chunk of points."""
        position, width = parameters.position, self.widths(parameters)
        sigma = math.sqrt(float(np.quantile(self.variance, 0.25)))
        height = np.maximum(parameters.area, 0) / width * GAUSS_HEIGHT
        # A Lorentzian's tail falls as 1 / (2u)² with the distance u in FWHM.
        reach = width * np.clip(0.5 * np.sqrt(height / sigma), 4, 40)
        second = second_wavelength(position, self.wavelength_ratio) - position if self.wavelength_ratio else 0.0
        axial = np.abs(parameters.shape[Shape.AXIAL] * self.axial_reach(parameters))
        low = np.searchsorted(self.x, position - reach - axial)
        high = np.searchsorted(self.x, position + reach + second)
        individual = np.flatnonzero(height > self.tuning.individual_width * sigma)
        count, k = len(position), len(parameters.background)
        place = np.full(count, -1)
        place[individual] = np.arange(len(individual))
        chunks: list[Chunk] = []
        filled = 0
        starts = np.zeros((-(-len(self.x) // _CHUNK), 2 * count + len(individual)), dtype=np.int64)
        for first in range(0, len(self.x), _CHUNK):
            part = slice(first, first + _CHUNK)
            inside = np.flatnonzero(self.splines[part].any(axis=0))
            knots = np.arange(inside[0], inside[-1] + 1)  # also those within a gap of the pattern
            m = np.flatnonzero((low < first + _CHUNK) & (high > first))
            own = place[m]
            columns = np.concatenate([m, m + count, own[own >= 0] + 2 * count])
            index = np.concatenate([knots, k + columns, k + 2 * count + len(individual) + np.arange(7)])
            starts[len(chunks), columns] = filled + _CHUNK * np.arange(len(columns))
            places = slice(filled, filled + _CHUNK * len(columns))
            chunks.append(Chunk(part, slice(int(knots[0]), int(knots[-1]) + 1), places, index))
            filled = places.stop
        return Windows(low, high - low, individual, place, chunks, starts)

    def _evaluate(self, parameters: Parameters, windows: Windows) -> Evaluation:
        peaks, columns, common = self._derivatives(parameters, windows)
        weight = 1 / np.sqrt(self.variance)
        fitted = self.splines @ parameters.background + peaks
        residual = (self.y - fitted) * weight
        size = len(parameters.background) + windows.first.shape[1] + 7
        normal, gradient = np.zeros((size, size)), np.zeros(size)
        for chunk in windows.chunks:
            part = chunk.points
            lines = columns[chunk.places].reshape(-1, _CHUNK)[:, : len(weight[part])]
            block = np.concatenate([self.splines[part, chunk.splines].T, lines, common[:, part]])
            block *= weight[part]
            normal[chunk.index[:, None], chunk.index] += block @ block.T
            gradient[chunk.index] += block @ residual[part]
        own = windows.individual
        deviation = np.concatenate([np.full(len(own), self.tuning.width_spread), self.prior[:, 1]])
        penalty = np.concatenate([parameters.log_width[own], parameters.shape - self.prior[:, 0]]) / deviation
        tail = np.arange(size - len(penalty), size)
        normal[tail, tail] += deviation**-2
        gradient[tail] -= penalty / deviation
        diagonal = np.diag(normal)
        normal[np.arange(size), np.arange(size)] += np.where(diagonal > 0, 1e-9 * diagonal, 1.0)
        cost = float(residual @ residual + penalty @ penalty)
        return Evaluation(parameters, peaks, fitted, normal, gradient, cost)

    def _derivatives(self, parameters: Parameters, windows: Windows) -> tuple[Floats, Floats, Floats]:
        """The sum of all peaks `(points,)`, its derivatives by areas, positions and single widths, and by the shape.

        The derivatives of peaks lie as `Windows` says, those by the shape are `(7, points)`.
        """
        points, count = len(self.x), len(parameters.position)
        columns = np.zeros(windows.chunks[-1].places.stop)
        peaks, common = np.zeros(points), np.zeros((7, points))
        unit, width, reach = self._unit(parameters), self.widths(parameters), self.axial_reach(parameters)
        share = np.abs(parameters.shape[Shape.AXIAL] * reach) / width
        for nodes, chosen in ((1, share < 0.02), (3, (share >= 0.02) & (share < 0.6)), (8, share >= 0.6)):
            m = np.flatnonzero(chosen)
            if not len(m):
                continue
            length = windows.length[m]
            column = np.repeat(m, length)
            row = np.arange(len(column)) + np.repeat(windows.low[m] - np.cumsum(length) + length, length)
            profile = self._profiles(parameters, self.x[row], column, nodes)
            profile[1:] *= parameters.area[column]
            value, by_position, by_width, by_mixing, by_axial, by_ratio = profile
            peaks += np.bincount(row, value * parameters.area[column], minlength=points)
            chunk, point = np.divmod(row, _CHUNK)
            columns[windows.first[chunk, column] + point] = value
            columns[windows.first[chunk, count + column] + point] = by_position
            own = windows.place[column]
            single = own >= 0
            columns[windows.first[chunk[single], 2 * count + own[single]] + point[single]] = by_width[single]
            z = unit[column]
            by_shape = (by_width, by_width * z, by_width * z * z, by_mixing, by_mixing * z, by_axial, by_ratio)
            for name, values in zip(Shape, by_shape, strict=True):
                common[name] += np.bincount(row, values, minlength=points)
        return peaks, columns, common

    def _profiles(self, parameters: Parameters, x: Floats, column: Ints, nodes: int) -> Floats:
        """Profiles of area 1 and derivatives by position, log width, mixing, axial divergence and ratio `(6, n)`."""
        position, shape, unit = parameters.position, parameters.shape, self._unit(parameters)
        reach = self.axial_reach(parameters)
        mixing = np.clip(shape[Shape.MIXING] + shape[Shape.DRIFT] * unit, 0.0, 1.0)
        inverse, eta = 1 / self.widths(parameters)[column], mixing[column]
        total = np.zeros((6, len(x)))
        heights, weights = slit_quadrature(nodes)
        squares = heights**2 if nodes > 1 else np.array([1 / 3])
        lines = [(position, 1.0, False)]
        if self.wavelength_ratio:
            lines.append((second_wavelength(position, self.wavelength_ratio), float(shape[Shape.RATIO]), True))
        for centre, strength, second in lines:
            for square, share in zip(squares, weights, strict=True):
                u = (x - (centre - shape[Shape.AXIAL] * reach * square)[column]) * inverse
                bow, bell = lorentz_and_gauss(u)
                lorentz, gauss = (LORENTZ_HEIGHT * inverse) * bow, (GAUSS_HEIGHT * inverse) * bell
                value = eta * lorentz + (1 - eta) * gauss
                slope = (8 * u) * (eta * lorentz * bow + (math.log(2) * (1 - eta)) * gauss)  # -d value / du
                amount = strength * share
                by_position = amount * slope * inverse
                total[0] += amount * value
                total[1] += by_position
                total[2] += amount * (u * slope - value)
                total[3] += amount * (lorentz - gauss)
                total[4] -= by_position * (square * reach)[column]
                if second:
                    total[5] += share * value
        return total
