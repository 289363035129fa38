"""The profile of a powder pattern and its least squares for given reflections.

Lines are pseudo-Voigt with Caglioti's width, axial divergence and Kα2. Their areas (≥ 0) and the background are linear
and solved exactly for every trial of the few other parameters: variable projection.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_REACH = 20.0  # full widths at half maximum that a line is followed to either side
_AXIAL = (  # Gauss-Legendre points and weights on [0, 1]: where in the height of the slit
    (0.0469101, 0.2307653, 0.5, 0.7692347, 0.9530899),
    (0.1184634, 0.2393143, 0.2844444, 0.2393143, 0.1184634),
)
_SLIGHT = 0.15  # of the width: an asymmetry below this only shifts a line
_NARROWEST = 0.05  # the least width², relative to the one at the pivot
_PIVOT = 0.17  # 1/Å, half of 1/d: where width and mixing are told; 30° for copper radiation
_KNOT = 6.0  # degrees of 2θ from knot to knot of the background
_BLOCK = 256  # points
_RIDGE = 1e-9  # keeps reflections at one place apart
_SETTLED = 0.1  # standard errors: smaller steps end the refinement
_GAUSS = 4 * math.log(2)


class Shape(NamedTuple):
    """What the instrument and the grains do to a line; `slope` and `dip` are relative to width² at the pivot."""

    log_width: float  # of the full width at half maximum in degrees, at the pivot
    slope: float  # of width² with tan²θ
    dip: float  # of width² with tan θ
    mixing: float  # Lorentzian share at the pivot
    drift: float  # of the share for 100° of 2θ
    axial: float  # degrees: half the square of the slit's height over the radius
    ratio: float  # of Kα2 to Kα1


START = Shape(math.log(0.1), 0.1, -0.05, 0.5, 0.0, 0.003, 0.0)
LOWEST = Shape(math.log(0.003), -0.3, -1.0, 0.0, -1.0, 0.0, 0.0)
HIGHEST = Shape(math.log(3.0), 3.0, 1.0, 1.0, 1.0, 0.1, 1.0)


class Profiles(NamedTuple):
    """Lines of unit area on the points around them, one line after the other: all `(entries,)` but the last two."""

    points: NDArray[np.int64]  # where on the grid
    value: Array
    by_place: Array  # derivative with respect to the line's place, in degrees
    by_shape: tuple[Array, ...]  # with respect to each number of the shape, in its order
    starts: NDArray[np.int64]  # (lines + 1,), of the entries of each line
    width: Array  # (lines,), degrees


def profiles(x: Array, place: Array, second: Array | None, shape: Shape, pivot: float) -> Profiles:
    """Lines on a grid.

    Args:
        x: 2θ of the grid, degrees, rising.
        place: `(lines,)` 2θ of the lines, in degrees.
        second: the same of their Kα2 partners.
        shape: of the lines.
        pivot: 2θ in degrees at which the shape's width and mixing hold.
    """
    t = np.tan(np.radians(np.clip(place, 0.5, 178) / 2)) / math.tan(math.radians(pivot / 2))
    square = 1 + shape.slope * (t**2 - 1) + shape.dip * (t - 1)
    low = square < _NARROWEST
    square = np.where(low, _NARROWEST, square)
    width = math.exp(shape.log_width) * np.sqrt(square)  # (lines,)
    far = (place - pivot) / 100
    share = shape.mixing + shape.drift * far
    edge = (share < 0) | (share > 1)
    share = np.clip(share, 0, 1)
    cot = 1 / np.tan(np.radians(np.clip(place, 1, 179)))
    skewed = np.abs(shape.axial * cot) > _SLIGHT * width

    first, last = np.searchsorted(x, place - _REACH * width), np.searchsorted(x, place + _REACH * width)
    starts = np.concatenate([[0], np.cumsum(last - first)])
    line = np.repeat(np.arange(len(place)), last - first)
    points = np.arange(starts[-1]) + (first - starts[:-1])[line]
    at = x[points] - place[line]

    value, slope, stretch, mix, axial, partner = (np.zeros_like(at) for _ in range(6))
    for chosen, heights, weights in ((skewed, *_AXIAL), (~skewed, (3**-0.5,), (1.0,))):
        entries = np.flatnonzero(chosen[line])
        if not len(entries):
            continue
        own = line[entries]
        near, w, mixed = at[entries], width[own], share[own]
        for kind, strength in enumerate((1.0,) if second is None else (1.0, shape.ratio)):
            offset = (second - place)[own] if kind and second is not None else 0.0
            total = np.zeros_like(near)
            for height, weight in zip(heights, weights, strict=True):
                lower = height**2 * cot[own]
                u = near - offset + shape.axial * lower
                f, df, difference = _pseudo_voigt(u, w, mixed)
                total += weight * f
                slope[entries] -= strength * weight * df
                stretch[entries] -= strength * weight * (f + u * df)  # of the width's logarithm: areas stay 1
                mix[entries] += strength * weight * difference
                axial[entries] += strength * weight * df * lower
            value[entries] += strength * total
            if kind:
                partner[entries] = total
    half = np.where(low, 0, 0.5 / square)
    by_slope, by_dip = (half * (t**2 - 1))[line], (half * (t - 1))[line]
    mix *= (~edge)[line]
    by_shape = (stretch, stretch * by_slope, stretch * by_dip, mix, mix * far[line], axial, partner)
    return Profiles(points, value, slope, by_shape, starts, width)


def _pseudo_voigt(u: Array, width: Array, share: Array) -> tuple[Array, Array, Array]:
    """Value and derivative at `u` degrees from the middle, and the derivative by the Lorentzian share."""
    z = u / width
    tail = 1 / (1 + 4 * z**2)
    lorentz = 2 / math.pi / width * tail
    gauss = math.sqrt(_GAUSS / math.pi) / width * np.exp(-_GAUSS * z**2)
    difference = lorentz - gauss
    slope = -z / width * (2 * _GAUSS * (1 - share) * gauss + 8 * share * lorentz * tail)
    return gauss + share * difference, slope, difference


class Beam(NamedTuple):
    """Wavelengths in ångström, of Kα1 and of Kα2 where there is one."""

    wavelength: float
    wavelength2: float | None


class Data(NamedTuple):
    """Points of a pattern: angles in degrees, intensities, their variances, and whether they are counts."""

    x: Array
    y: Array
    variance: Array
    counted: bool

    def before(self, angle: float) -> "Data":
        """Those below an angle."""
        used = self.x < angle
        return Data(self.x[used], self.y[used], self.variance[used], self.counted)


class State(NamedTuple):
    """Everything at one trial of the parameters."""

    theta: Array
    cost: float
    present: NDArray[np.bool_]  # of the linear ones: reflections above zero, and the background
    linear: Array
    lines: Profiles
    places: Array
    columns: Array  # (reflections, points): the lines over the standard errors
    gram: Array
    jacobian: Array  # (points, parameters) of the calculated curve, linear ones held
    background: Array
    calculated: Array


class Problem:
    """One range of the data with its reflections, as least squares in the parameters `theta`.

    `theta`: the free numbers of the reciprocal metric, zero shift, displacement, and the numbers of the shape.

    Args:
        data: the points.
        form: `(reflections, metric)`: what 1/d² of each takes of the metric's free numbers.
        beam: the wavelengths.
        expected: where the parameters are expected.
        spread: the standard errors of that; infinite where nothing is known.
        free: which parameters are refined.
    """

    def __init__(
        self, data: Data, form: Array, beam: Beam, expected: Array, spread: Array, free: NDArray[np.bool_]
    ) -> None:
        self.data, self.form, self.beam, self.expected, self.free = data, form, beam, expected, free
        self.count, self.metric = form.shape
        self.prior = 1 / spread**2
        self.pivot = math.degrees(2 * math.asin(min(0.5, _PIVOT * beam.wavelength)))
        self.low, self.high = (
            np.array([*[end] * (self.metric + 2), *shape]) for end, shape in ((-np.inf, LOWEST), (np.inf, HIGHEST))
        )
        self.root = 1 / np.sqrt(data.variance)
        self.smooth = _splines(data.x)
        self.strict = np.arange(self.count + self.smooth.shape[1]) < self.count  # which linear ones must be ≥ 0
        self._smooth_root = self.smooth * self.root[:, None]
        self._smooth_gram = self._smooth_root.T @ self._smooth_root
        self._target = data.y * self.root

    def places(self, theta: Array, wavelength: float) -> tuple[Array, Array]:
        """2θ of the reflections, and its derivatives `(reflections, metric + 2)`, in degrees."""
        k = self.metric
        sine = np.sqrt(np.clip(self.form @ theta[:k], 1e-12, None)) * wavelength / 2
        angle = np.arcsin(np.minimum(sine, 0.99999))
        by_metric = np.degrees(self.form * wavelength**2 / (2 * np.sin(2 * angle))[:, None])
        cosine = np.cos(angle)
        places = np.degrees(2 * angle) + theta[k] + theta[k + 1] * cosine
        return places, np.column_stack([by_metric, np.ones_like(cosine), cosine])

    def evaluate(self, theta: Array, present: NDArray[np.bool_] | None = None) -> State:
        """The best areas and background for these parameters; `present` of a state nearby is a good start."""
        places, by_metric = self.places(theta, self.beam.wavelength)
        second = None if self.beam.wavelength2 is None else self.places(theta, self.beam.wavelength2)[0]
        lines = profiles(self.data.x, places, second, Shape(*theta[self.metric + 2 :]), self.pivot)
        size, line = len(self.data.x), np.repeat(np.arange(self.count), np.diff(lines.starts))
        columns = np.zeros((self.count, size))
        columns[line, lines.points] = lines.value * self.root[lines.points]
        cross = columns @ self._smooth_root
        gram = np.block([[_products(columns, lines), cross], [cross.T, self._smooth_gram]])
        right = np.concatenate([columns @ self._target, self._smooth_root.T @ self._target])
        linear, present = _solve(gram, right, self.strict, np.ones_like(self.strict) if present is None else present)
        areas = linear[: self.count]
        background = self.smooth @ linear[self.count :]
        calculated = background + (areas @ columns) / self.root
        strength = areas[line]
        moved = lines.by_place * strength
        parts = [moved * column[line] for column in by_metric.T] + [part * strength for part in lines.by_shape]
        jacobian = np.column_stack([np.bincount(lines.points, part, size) for part in parts]).astype(np.float64)
        cost = self._cost(theta, calculated)
        return State(
            theta, cost, present, linear, lines, places, columns, gram, jacobian, background, calculated
        )  # fmt: skip

    def _cost(self, theta: Array, calculated: Array) -> float:
        residual = (self.data.y - calculated) * self.root
        return float(residual @ residual + self.prior @ (theta - self.expected) ** 2)

    def normal(self, state: State) -> tuple[Array, Array]:
        """The normal matrix of the free parameters with the linear ones projected out, and its right-hand side."""
        jacobian = state.jacobian[:, self.free] * self.root[:, None]
        cross = np.concatenate([state.columns @ jacobian, self._smooth_root.T @ jacobian])[state.present]
        projected = cross.T @ np.linalg.solve(_ridged(state.gram[np.ix_(state.present, state.present)]), cross)
        residual = (self.data.y - state.calculated) * self.root
        away = (self.expected - state.theta)[self.free] * self.prior[self.free]
        return jacobian.T @ jacobian - projected + np.diag(self.prior[self.free]), jacobian.T @ residual + away

    def excess(self, state: State) -> float:
        """How much larger than noise alone would make it the variance of what is fitted is; at least 1.

        χ² times the correction of Bérar & Lelann (1991) for residuals that stay on one side from point to point.
        """
        residual = (self.data.y - state.calculated) * self.root
        runs = np.concatenate([[0], np.flatnonzero(np.diff(np.sign(residual))) + 1])
        square = max(float(residual @ residual), 1e-300)
        together = float(np.sum(np.add.reduceat(residual, runs) ** 2)) / (1 + 4 / math.pi) / square  # of noise: 1
        freedom = len(residual) - int(state.present.sum()) - int(self.free.sum())
        return max(1.0, square / max(1, freedom)) * max(1.0, together)

    def minimise(self, state: State, most: int) -> tuple[State, bool]:
        """Levenberg's and Marquardt's steps, none of which moves a line by more than a width."""
        damping = 1e-3
        reach = len(self.data.x)
        for _ in range(most):
            matrix, right = self.normal(state)
            loose = ~self._held(state.theta[self.free], right)
            free = np.flatnonzero(self.free)[loose]
            matrix, right = matrix[np.ix_(loose, loose)], right[loose]
            scale = np.sqrt(np.maximum(np.diag(matrix), 1e-30))
            matrix = matrix / scale / scale[:, None]
            for _ in range(6):
                move = np.zeros_like(state.theta)
                move[free] = np.linalg.solve(matrix + damping * np.eye(len(scale)), right / scale) / scale
                predicted = float(right @ move[free])
                shift = self.places(state.theta + move, self.beam.wavelength)[0] - state.places
                move *= min(1.0, float(np.min(state.lines.width / (np.abs(shift) + 1e-9))))
                trial = self.evaluate(self._bounded(state.theta + move), state.present)
                if trial.cost < state.cost:
                    break
                damping = max(damping * 10, 1e-3)
            else:
                return state, predicted < 0.1 * max(1.0, state.cost / reach)
            gain, state = state.cost - trial.cost, trial
            damping = max(damping / 10, 1e-7)
            if gain < _SETTLED**2 * max(1.0, state.cost / reach):
                return state, True
        return state, False

    def _bounded(self, theta: Array) -> Array:
        return np.clip(theta, self.low, self.high)

    def _held(self, values: Array, downhill: Array) -> NDArray[np.bool_]:
        """Which of the free parameters lie at an end of their range and would leave it."""
        low, high = self.low[self.free], self.high[self.free]
        return np.asarray(((values <= low) & (downhill < 0)) | ((values >= high) & (downhill > 0)))


def _splines(x: Array) -> Array:
    """Cubic B-splines on even knots for the background: `(points, n)`."""
    pieces = max(1, round((x[-1] - x[0]) / _KNOT))
    u = np.abs((x - x[0])[:, None] * pieces / (x[-1] - x[0]) - np.arange(-1, pieces + 2))
    return np.asarray(np.where(u < 1, 4 - 6 * u**2 + 3 * u**3, np.clip(2 - u, 0, None) ** 3) / 6)


def _products(columns: Array, lines: Profiles) -> Array:
    """`columns @ columns.T` of rows `(reflections, points)` that are zero outside their windows."""
    result = np.zeros((len(columns), len(columns)))
    filled = np.flatnonzero(np.diff(lines.starts))
    first, last = lines.points[lines.starts[filled]], lines.points[lines.starts[filled + 1] - 1]
    for start in range(0, columns.shape[1], _BLOCK):
        near = filled[(first < start + _BLOCK) & (last >= start)]
        if len(near):
            rows = slice(near[0], near[-1] + 1)
            part = columns[rows, start : start + _BLOCK]
            result[rows, rows] += part @ part.T
    return result


def _ridged(gram: Array) -> Array:
    return gram + np.diag(_RIDGE * np.diag(gram) + 1e-300)


def _solve(
    gram: Array, right: Array, strict: NDArray[np.bool_], present: NDArray[np.bool_]
) -> tuple[Array, NDArray[np.bool_]]:
    """Least squares with the `strict` unknowns ≥ 0: block principal pivoting (Kim & Park 2011), started from `present`.

    Returns the solution and which unknowns are not held at zero.
    """
    size = np.sqrt(np.maximum(np.diag(gram), 1e-30))
    gram, right = _ridged(gram / size / size[:, None]), right / size
    present = present | ~strict
    fewest, patience = len(right) + 1, 3
    solution = np.zeros_like(right)
    for _ in range(60):
        solution = np.zeros_like(right)
        inside = np.flatnonzero(present)
        solution[inside] = np.linalg.solve(gram[np.ix_(inside, inside)], right[inside])
        pull = gram @ solution - right
        wrong = strict & np.where(present, solution < 0, pull < -1e-10)
        bad = int(wrong.sum())
        if bad == 0:
            break
        if bad < fewest:
            fewest, patience = bad, 3
        elif patience > 0:
            patience -= 1
        else:  # one at a time cannot cycle
            wrong &= np.arange(len(wrong)) == np.flatnonzero(wrong)[-1]
        present = present ^ wrong
    return np.maximum(solution, np.where(strict, 0, -np.inf)) / size, present
