"""The least-squares problem of a refinement, and the points of a pattern that are fitted.

Areas of the reflections (≥ 0) and the background are linear; they are solved exactly for every trial of the few other
parameters (variable projection).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from vitreous.core.errors import InputError
from vitreous.powder.bragg import bragg_angle
from vitreous.powder.least_squares import Damping, Trial, minimise
from vitreous.powder.pattern import MIN_POINTS, normalise_intensity
from vitreous.powder.radiation import CU_KALPHA1
from vitreous.powder.refinement.products import LineBlocks, LineRows
from vitreous.powder.refinement.profile import HIGHEST, LOWEST, Array, Mask, Profiles, Shape, profiles
from vitreous.powder.refinement.shifts import SHIFT_COUNT, shift_functions

_REFERENCE_S = 0.17  # 1/Å, half of 1/d at the reference angle of the profile; 30° for copper radiation
_KNOT_DISTANCE = 4.0  # degrees of 2θ between knots of the background, for copper radiation: amorphous humps are wider
_KNOT_LIMITS = (1.5, 6.0)  # degrees, for other wavelengths
_GAP = 1.5  # usual steps: a larger one is a gap
_SETTLED = 0.1  # standard errors: smaller steps end the refinement
_LARGEST_SINE = 0.99999
_RIDGE = 1e-6  # relative: separates reflections at the same position
_DAMPING = Damping(least=1e-7, least_rejected=1e-3)
_MEDIAN_OF_CHI2 = 0.455  # of one degree of freedom


class Data(NamedTuple):
    """Angles in degrees, intensities over 2ⁿ, their variances, whether the intensities are counts, and n."""

    x: Array
    y: Array
    variance: Array
    counted: bool
    exponent: int = 0

    def before(self, angle: float) -> "Data":
        """Points below an angle."""
        used = self.x < angle
        return self._replace(x=self.x[used], y=self.y[used], variance=self.variance[used])

    def averaged(self, count: int) -> "Data":
        """Averages of `count` neighbouring points, none across a gap of the angles."""
        if count < 2:
            return self
        steps = np.diff(self.x)
        ends = np.flatnonzero(steps > _GAP * np.median(steps)) + 1
        ranges = zip([0, *ends.tolist()], [*ends.tolist(), len(self.x)], strict=True)
        starts = np.concatenate([np.arange(first, last, count) for first, last in ranges])
        sizes = np.diff(starts, append=len(self.x))
        x, y, variance = (np.add.reduceat(each, starts) / sizes for each in (self.x, self.y, self.variance))
        return self._replace(x=x, y=y, variance=variance / sizes)


class State(NamedTuple):
    """The problem at one trial of the parameters."""

    theta: Array
    cost: float
    present: Mask  # linear unknowns that are not zero: reflections, and all of the background
    linear: Array
    lines: Profiles
    positions: Array
    columns: LineRows  # the lines over the standard errors
    gram: Array
    background: Array
    calculated: Array
    residual: Array  # over the standard errors


class Problem:
    """Least squares for one range of the data and its reflections.

    The parameters `theta` are the free elements of the reciprocal metric, the shifts of all lines (`Shifts`), and those
    of the profile (`Shape`).

    Args:
        form: `(reflections, metric)`: factors of the free elements of the metric in 1/d².
        wavelengths: of Kα1 and of Kα2 (None without a doublet), in ångström.
        spread: standard errors of the expected parameters; infinite where nothing is known.
        free: which parameters are refined.
    """

    def __init__(
        self, data: Data, form: Array, wavelengths: tuple[float, float | None], expected: Array, spread: Array,
        free: Mask,
    ) -> None:  # fmt: skip
        self.data, self.form, self.wavelengths, self.expected, self.free = data, form, wavelengths, expected, free
        self.count, self.metric = form.shape
        self.first_shape = self.metric + SHIFT_COUNT
        self.prior = 1 / spread**2
        self.reference = math.degrees(2 * math.asin(min(0.5, _REFERENCE_S * wavelengths[0])))
        self.low, self.high = (
            np.array([*[end] * self.first_shape, *shape]) for end, shape in ((-np.inf, LOWEST), (np.inf, HIGHEST))
        )
        self.root = 1 / np.sqrt(data.variance)
        self.splines = _splines(data.x, wavelengths[0])
        self.strict = np.arange(self.count + len(self.splines)) < self.count  # linear unknowns that must be ≥ 0
        self._curves = np.concatenate([self.splines, data.y[None]]) * self.root
        self._splines_root = self._curves[:-1]
        self._splines_gram = self._splines_root @ self._splines_root.T
        self._splines_target = self._splines_root @ self._curves[-1]

    def positions(self, theta: Array, wavelength: float) -> tuple[Array, Array]:
        """2θ of the reflections in degrees, and its derivatives `(reflections, metric + shifts)`."""
        k = self.metric
        s = np.sqrt(np.clip(self.form @ theta[:k], 1e-12, None))
        angle = bragg_angle(s, wavelength, _LARGEST_SINE)
        by_metric = np.degrees(self.form * wavelength**2 / (2 * np.sin(2 * angle))[:, None])
        shifts = shift_functions(angle)
        positions = np.degrees(2 * angle) + shifts @ theta[k : self.first_shape]
        return positions, np.column_stack([by_metric, shifts])

    def evaluate(self, theta: Array, present: Mask | None = None, blocks: LineBlocks | None = None) -> State:
        """The best areas and background for these parameters.

        `present` of a nearby state is a good first guess, and `blocks` are those of a state whose windows are used.
        """
        first, second = self.wavelengths
        positions = self.positions(theta, first)[0]
        partners = None if second is None else self.positions(theta, second)[0]
        shape, windows = Shape(*theta[self.first_shape :]), None if blocks is None else blocks.windows
        lines = profiles(self.data.x, positions, partners, shape, self.reference, windows)
        blocks = blocks or LineBlocks(lines.windows, len(self.data.x))
        columns = LineRows(blocks, lines.value * self.root[lines.windows.points])
        own, cross = columns.products(self._curves)
        gram = np.block([[own, cross[:, :-1]], [cross[:, :-1].T, self._splines_gram]])
        right = np.concatenate([cross[:, -1], self._splines_target])
        guess = np.ones_like(self.strict) if present is None else present
        linear, present = _solve_nonnegative(gram, right, self.strict, guess)
        background = linear[self.count :] @ self.splines
        calculated = background + self.sum_of_lines(lines, linear[: self.count])
        residual = (self.data.y - calculated) * self.root
        cost = float(residual @ residual + self.prior @ (theta - self.expected) ** 2)
        curves = background, calculated, residual
        return State(theta, cost, present, linear, lines, positions, columns, gram, *curves)

    def sum_of_lines(self, lines: Profiles, areas: Array) -> Array:
        """The curve `(points,)` of lines with these areas."""
        values = lines.value * areas[lines.windows.line]
        return np.bincount(lines.windows.points, values, len(self.data.x)).astype(np.float64)

    def jacobian(self, state: State) -> Array:
        """Derivatives of the calculated curve over the standard errors by free parameters, `(free, points)`.

        The linear unknowns are fixed.
        """
        lines, shape, size = state.lines, self.free[self.first_shape :], len(self.data.x)
        points, line, starts = lines.windows[:3]
        strength = state.linear[: self.count][line]
        moved = csr_array((lines.by_position * strength, points, starts), shape=(self.count, size))
        derivatives = self.positions(state.theta, self.wavelengths[0])[1][:, self.free[: self.first_shape]]
        parts = [part * strength for part, free in zip(lines.by_shape, shape, strict=True) if free]
        by_shape = [np.bincount(points, part, size) for part in parts]
        return np.asarray(np.concatenate([(moved.T @ derivatives).T, *(row[None] for row in by_shape)]) * self.root)

    def normal(self, state: State) -> tuple[Array, Array]:
        """Normal matrix of the free parameters with the linear ones projected out, and its right-hand side."""
        jacobian = self.jacobian(state)
        cross = np.concatenate([state.columns.cross_products(jacobian), self._splines_root @ jacobian.T])
        cross = cross[state.present]
        away = (self.expected - state.theta)[self.free] * self.prior[self.free]
        with np.errstate(over="ignore", invalid="ignore"):  # a step from a state that far off is rejected
            solved = np.linalg.solve(_add_ridge(state.gram[np.ix_(state.present, state.present)]), cross)
            matrix = jacobian @ jacobian.T - cross.T @ solved + np.diag(self.prior[self.free])
        return matrix, jacobian @ state.residual + away

    def eliminate(self, state: State, columns: LineRows) -> tuple[Array, Array]:
        """Normal equations of one further unknown a line, given the other ones of the pattern are fitted along.

        `columns` are derivatives of the calculated curve over the standard errors. The areas, the background and the
        free parameters of the profile are eliminated. Returns `(lines, lines)` and `(lines,)`.
        """
        shape = np.flatnonzero(self.free[self.first_shape :]) + self.first_shape
        jacobian = self.jacobian(state)[int(self.free[: self.first_shape].sum()) :]
        dense = np.concatenate([self._splines_root, jacobian, state.residual[None]])
        every = LineRows.gram_matrix([state.columns, columns], dense)
        new = np.arange(self.count, 2 * self.count)
        linear = np.flatnonzero(state.present)
        linear = np.where(linear < self.count, linear, linear + self.count)
        others = np.concatenate([linear, np.arange(len(every) - 1 - len(shape), len(every) - 1)])
        gram, cross, residual = every[np.ix_(others, others)], every[np.ix_(others, new)], every[others, -1]
        gram[len(linear) :, len(linear) :] += np.diag(self.prior[shape])
        residual[len(linear) :] += (self.expected - state.theta)[shape] * self.prior[shape]
        solved = np.linalg.solve(_add_ridge(gram), np.column_stack([cross, residual]))
        return every[np.ix_(new, new)] - cross.T @ solved[:, :-1], every[new, -1] - cross.T @ solved[:, -1]

    def excess(self, state: State) -> float:
        """Variance of the fit relative to pure noise, at least 1.

        χ² times the correction of Bérar & Lelann (1991) for residuals that are correlated from point to point.
        """
        residual = state.residual
        runs = np.concatenate([[0], np.flatnonzero(np.diff(np.sign(residual))) + 1])
        square = max(float(residual @ residual), 1e-300)
        correlated = float(np.sum(np.add.reduceat(residual, runs) ** 2)) / (1 + 4 / math.pi) / square  # 1 for noise
        freedom = len(residual) - int(state.present.sum()) - int(self.free.sum())
        return max(1.0, square / max(1, freedom)) * max(1.0, correlated)

    def minimise(self, state: State, steps: int) -> tuple[State, bool]:
        """Levenberg-Marquardt steps that move no line by more than its width; also whether they converged."""

        def settled(state: State, gain: float) -> bool:
            return gain < _SETTLED**2 * max(1.0, state.cost / len(self.data.x))

        return minimise(state, self._linearise, settled, steps=steps, retries=6, damping=_DAMPING)

    def _linearise(self, state: State) -> Callable[[float], Trial[State]]:
        if not state.lines.suited:
            state = self.evaluate(state.theta, state.present)
        matrix, right = self.normal(state)
        low, high, values = self.low[self.free], self.high[self.free], state.theta[self.free]
        loose = ~(((values <= low) & (right < 0)) | ((values >= high) & (right > 0)))  # not pressed against a bound
        free = np.flatnonzero(self.free)[loose]
        matrix, right = matrix[np.ix_(loose, loose)], right[loose]
        scale = np.sqrt(np.maximum(np.diag(matrix), 1e-30))
        with np.errstate(over="ignore", invalid="ignore"):  # as in `normal`
            matrix = matrix / scale / scale[:, None]

        def attempt(damping: float) -> Trial[State]:
            move = np.zeros_like(state.theta)
            move[free] = np.linalg.solve(matrix + damping * np.eye(len(scale)), right / scale) / scale
            predicted = float(right @ move[free])
            shift = self.positions(state.theta + move, self.wavelengths[0])[0] - state.positions
            move *= min(1.0, float(np.min(state.lines.width / (np.abs(shift) + 1e-9))))
            theta = np.clip(state.theta + move, self.low, self.high)
            trial = self.evaluate(theta, state.present, state.columns.blocks)
            negligible = predicted < 0.1 * max(1.0, state.cost / len(self.data.x))
            return Trial(trial, trial.cost < state.cost, state.cost - trial.cost, negligible)

        return attempt


def background_pieces(extent: float, wavelength: float) -> int:
    """Number of pieces of the background's spline over so many degrees of 2θ; it has three parameters more."""
    distance = float(np.clip(_KNOT_DISTANCE * wavelength / CU_KALPHA1, *_KNOT_LIMITS))
    return max(1, round(extent / distance))


def _splines(x: Array, wavelength: float) -> Array:
    """Cubic B-splines on even knots for the background: `(n, points)`."""
    pieces = background_pieces(float(x[-1] - x[0]), wavelength)
    place = (x - x[0]) * pieces / (x[-1] - x[0])
    piece = np.minimum(place.astype(np.int64), pieces - 1)
    splines = np.zeros((pieces + 3, len(x)))
    for number in range(4):  # a point is within the reach of four splines
        u = np.abs(place - piece + 1 - number)
        values = np.where(u < 1, 4 - 6 * u**2 + 3 * u**3, np.clip(2 - u, 0, None) ** 3) / 6
        splines[piece + number, np.arange(len(x))] = values
    return splines


def _add_ridge(gram: Array) -> Array:
    return gram + np.diag(_RIDGE * np.diag(gram) + 1e-300)


def _solve_nonnegative(gram: Array, right: Array, strict: Mask, present: Mask) -> tuple[Array, Mask]:
    """Least squares in which `strict` unknowns must be ≥ 0, by block principal pivoting (Kim & Park 2011).

    `gram` `(n, n)` and `right` `(n,)` are the normal equations, `present` is a first guess of the unknowns that are not
    zero. Returns the solution, and which unknowns are not held at zero.
    """
    size = np.sqrt(np.maximum(np.diag(gram), 1e-30))
    gram, right = _add_ridge(gram / size / size[:, None]), right / size
    present = present | ~strict
    fewest, patience = len(right) + 1, 3
    for _ in range(60):
        solution = np.zeros_like(right)
        inside = np.flatnonzero(present)
        solution[inside] = np.linalg.solve(gram[np.ix_(inside, inside)], right[inside])
        pull = gram @ solution - right
        wrong = strict & np.where(present, solution < 0, pull < -1e-10)
        count = int(wrong.sum())
        if count == 0:
            break
        if count < fewest:
            fewest, patience = count, 3
        elif patience > 0:
            patience -= 1
        else:  # exchanging one at a time cannot cycle
            wrong &= np.arange(len(wrong)) == np.flatnonzero(wrong)[-1]
        present = present ^ wrong
    else:
        solution = _solve_by_active_set(gram, right, strict)
        present = ~strict | (solution > 0)
    return np.maximum(solution, np.where(strict, 0, -np.inf)) / size, present


def _solve_by_active_set(gram: Array, right: Array, strict: Mask) -> Array:
    """The same by Lawson and Hanson's method, which is slower and does not cycle."""
    from scipy.optimize import nnls  # takes long to import

    loose = ~strict
    inverse = np.linalg.inv(gram[np.ix_(loose, loose)])
    cross = gram[np.ix_(strict, loose)] @ inverse
    factor = np.linalg.cholesky(_add_ridge(gram[np.ix_(strict, strict)] - cross @ gram[np.ix_(loose, strict)]))
    target = np.linalg.solve(factor, right[strict] - cross @ right[loose])
    solution = np.zeros_like(right)
    solution[strict] = nnls(factor.T, target)[0]
    solution[loose] = inverse @ (right[loose] - gram[np.ix_(loose, strict)] @ solution[strict])
    return solution


def select_data(two_theta: Array, intensity: Array, sigma: Array | None, limit: tuple[float, float] | None) -> Data:
    """Points within the limits, checked; zeros at the start are angles that were not measured."""
    x, y = np.asarray(two_theta, dtype=float), np.asarray(intensity, dtype=float)
    errors = None if sigma is None else np.asarray(sigma, dtype=float)
    for name, values in (("two_theta", x), ("intensity", y), ("sigma", errors)):
        if values is not None and (values.ndim != 1 or len(values) != len(x)):
            raise InputError(f"{name}: found shape {values.shape}, expected as many numbers as angles")
        if values is not None and not np.all(np.isfinite(values)):
            raise InputError(f"{name}: found a number that is not finite")
    low, high = limit or (0.0, 180.0)
    used = (x >= low) & (x <= high) & (x > 0) & (np.maximum.accumulate(np.abs(y)) > 0)
    if used.sum() < MIN_POINTS:
        raise InputError(
            f"two_theta: found {used.sum()} measured point(s) between {low:g} and {high:g}°, expected {MIN_POINTS} "
            "or more"
        )
    x, y = x[used], y[used]
    if np.any(np.diff(x) <= 0) or x[-1] >= 180:
        raise InputError("two_theta: expected ascending angles between 0 and 180°")
    y, errors, exponent = normalise_intensity(y, None if errors is None else errors[used])
    counted = False
    near = np.convolve(np.pad(np.maximum(y, 0), 2, mode="edge"), np.full(5, 0.2), mode="valid")
    if errors is not None:
        if not np.any(errors > 0):
            raise InputError("sigma: found no standard error above 0")
        variance = np.maximum(errors, errors[errors > 0].min()) ** 2
    elif counted := bool(np.all(y >= 0) and np.all(y == np.round(y))):
        variance = np.maximum(near, 1.0)
    else:
        variance = _estimate_variance(y, near)
    return Data(x, y, variance, counted, exponent)


def _estimate_variance(y: Array, near: Array) -> Array:
    """Variances of intensities in an unknown unit: a constant plus a multiple of the intensity."""
    rough = (y[:-3] - 3 * y[1:-2] + 3 * y[2:-1] - y[3:]) ** 2 / 20  # third differences remove smooth curves
    level = np.maximum(y[1:-2] + y[2:-1], 0) / 2
    flat = level <= np.median(level)
    floor = max(float(np.median(rough[flat])) / _MEDIAN_OF_CHI2, (1e-4 * float(np.ptp(y))) ** 2, 1e-30)
    high = level > np.quantile(level, 0.8)
    gain = max(0.0, float(np.median((rough[high] / _MEDIAN_OF_CHI2 - floor) / np.maximum(level[high], 1e-30))))
    return np.asarray(floor + gain * near)
