"""Pawley's refinement: the whole pattern fitted without a structure gives an exact cell from an approximate one.

The cell enters as the reciprocal metric, in which 1/d² is linear. The range of the fit grows in stages, so that lines
far out are met only when the cell is good enough to tell them apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from vitreous.errors import InputError, check_choice
from vitreous.powder.cell import CENTRINGS, FORMS, NAMES, PAIRS, check_cell, full, metric, shown, targets
from vitreous.powder.lattice import parameters
from vitreous.powder.profile import START, Array, Beam, Data, Problem, Shape, State

__all__ = ["CENTRINGS", "Fit", "refine"]

_ORDER = {  # half the symmetry operations of each lattice
    "triclinic": 1, "monoclinic": 2, "orthorhombic": 4, "tetragonal": 8, "trigonal": 12, "hexagonal": 12, "cubic": 24
}  # fmt: skip
_SHIFTS = (0.03, 0.02)  # degrees: how large zero shift and displacement are expected to be
_EXPECTED = Shape(math.inf, 0.4, 0.4, math.inf, 0.3, 0.01, 0.2)  # the same for the shape's numbers
_UNSURE = 0.005  # of the reciprocal metric: how far off the first cell may be
_EDGE = 0.2  # degrees: where the range is cut, lines are fitted this far beyond it
_TRIALS = 3  # starts that are followed through the first range
_TIED = 0.02  # relative: how far a cell may be from what its system demands
_FEWEST = 50  # points


@dataclass(frozen=True)
class Fit:
    """A refined cell and the pattern that it explains.

    Attributes:
        cell: a, b, c in ångström, α, β, γ in degrees.
        errors: their standard errors; 0 where the system fixes a number.
        zero: zero shift in degrees: what the instrument reads too much.
        zero_error: its standard error.
        displacement: shift by a displaced sample at low angle, in degrees; it falls as cos θ.
        displacement_error: its standard error.
        two_theta: degrees, the points that were fitted.
        observed: their intensities.
        calculated: the fitted curve there, with background.
        background: alone.
        hkl: `(n, 3)` reflections in the range.
        positions: `(n,)` where they are seen (of Kα1), degrees of 2θ.
        intensities: `(n,)` their areas, in the data's unit times degrees.
        rwp: weighted profile residual, Σ w (o - c)² / Σ w o² under the root.
        rexp: the rwp that noise alone would leave.
        chi2: (rwp / rexp)².
        converged: whether the last steps were small against the errors.
    """

    cell: tuple[float, ...]
    errors: tuple[float, ...]
    zero: float
    zero_error: float
    displacement: float
    displacement_error: float
    two_theta: Array
    observed: Array
    calculated: Array
    background: Array
    hkl: NDArray[np.int64]
    positions: Array
    intensities: Array
    rwp: float
    rexp: float
    chi2: float
    converged: bool


def refine(
    two_theta: Array,
    intensity: Array,
    cell: Sequence[float],
    *,
    wavelength: float,
    wavelength2: float | None = None,
    ratio: float = 0.0,
    system: str = "triclinic",
    centring: str = "P",
    sigma: Array | None = None,
    zero: float = 0.0,
    displacement: bool | None = None,
    limit: tuple[float, float] | None = None,
    most: int = 200,
) -> Fit:
    """Fit a cell to a pattern.

    Args:
        two_theta: degrees, rising.
        intensity: counts, or in any other unit.
        cell: a, b, c in ångström, α, β, γ in degrees, in the conventional setting of the system (trigonal: hexagonal
            axes), right to about 0.3 %.
        wavelength: ångström; of Kα1 where there is a doublet.
        wavelength2: of Kα2, ångström; its ratio to Kα1 is then refined.
        ratio: of Kα2 to Kα1 to begin with.
        system: crystal system; decides which numbers of the cell are free.
        centring: P, A, B, C, I, F or R.
        sigma: standard errors of the intensities; otherwise those of counts, or estimated where they are none.
        zero: zero shift in degrees, right to about 0.1°.
        displacement: whether to refine that of the sample too; where not told, if there is Kα2: a flat sample on a
            laboratory instrument has one, a capillary at a synchrotron has not.
        limit: first and last 2θ to use, degrees.
        most: reflections that are fitted: the range ends where there are more.
    """
    check_choice("system", system, FORMS)
    check_choice("centring", centring, CENTRINGS)
    check_cell(list(cell))
    for name, value in (("wavelength", wavelength), ("wavelength2", wavelength2)):
        if value is not None and not 0.05 < value < 20:
            raise InputError(f"{name}: found {value:g}, expected 0.05 to 20 Å")
    if not 0 <= ratio <= 1 or not abs(zero) < 5:
        raise InputError(f"ratio, zero: found {ratio:g}, {zero:g}, expected 0 to 1 and below 5°")
    data = _checked(two_theta, intensity, sigma, limit)
    lattice = _lattice(cell, system)
    hkl, form = _reflections(lattice, system, centring, wavelength, (data.x[0], data.x[-1]), most)
    angles = _angles(form, lattice, wavelength)
    if len(form) == most:
        data = data.before(angles[-1] - _EDGE)
    if len(data.x) < len(form) + 40:
        raise InputError(f"two_theta: found {len(data.x)} point(s) for {len(form)} reflections, expected more points")
    k = len(lattice.first)
    displaced = wavelength2 is not None if displacement is None else displacement
    early = {"metric", "zero", "log_width", "mixing"}
    late = early | {"slope", "dip", "axial"} | ({"ratio"} if wavelength2 is not None else set())
    final = late | {"drift"} | ({"displacement"} if displaced else set())
    names = ["metric"] * k + ["zero", "displacement", *Shape._fields]
    shape = START._replace(ratio=ratio if wavelength2 is not None else 0.0)
    expected = np.array([*lattice.first, zero, 0.0, *shape])
    spread = np.array([*[_UNSURE] * k, *_SHIFTS, *_EXPECTED])
    loose = np.where(np.array(names) == "metric", np.inf, spread)

    def problem(upto: int, free: set[str], excess: float = 1.0) -> Problem:
        last = upto == len(form)
        part = data if last else data.before(angles[upto - 1] - _EDGE)
        doubt = (loose if last else spread) / math.sqrt(excess)
        beam = Beam(wavelength, wavelength2)
        return Problem(part, form[:upto], beam, expected, doubt, np.array([name in free for name in names]))

    stages = [n for n in _stages(angles, k) if n < len(form) and len(data.before(angles[n - 1] - _EDGE).x) > n + 40]
    trial = problem([*stages, len(form)][0], early)
    with threadpool_limits(1):  # the matrices are small: threads wait for each other ten times as long as they work
        state, converged = trial.evaluate(expected), False
        begun = [(trial.minimise(start, 8)[0], trial) for start in _starts(trial, expected, k)]
        for upto in [*stages[1:], len(form)]:
            last = upto == len(form)
            reached = []
            for before, old in begun:
                trial = problem(upto, final if last else late, old.excess(before))
                reached.append((*trial.minimise(trial.evaluate(before.theta), 25 if last else 8), trial))
            state, converged, trial = min(reached, key=lambda end: end[0].cost)
            begun = [(state, trial)]
        if data.counted:
            data = data._replace(variance=np.maximum(state.calculated, 1.0))
            trial = problem(len(form), final, trial.excess(state))
            state, converged = trial.minimise(trial.evaluate(state.theta), 25)
        return _fit(trial, state, hkl, lattice, system, converged)


def reflections(
    cell: Sequence[float], system: str, centring: str, wavelength: float, limits: tuple[float, float], most: int = 200
) -> tuple[NDArray[np.int64], Array]:
    """Indices `(n, 3)` and 2θ `(n,)` in degrees of the first reflections that a lattice has in a range."""
    lattice = _lattice(cell, system)
    hkl, form = _reflections(lattice, system, centring, wavelength, limits, most)
    return hkl, _angles(form, lattice, wavelength)


def _angles(form: Array, lattice: "_Lattice", wavelength: float) -> Array:
    return np.asarray(2 * np.degrees(np.arcsin(np.minimum(1, np.sqrt(form @ lattice.first) * wavelength / 2))))


def _stages(angles: Array, k: int) -> list[int]:
    """How many reflections to begin with: as far as a cell that is off by 0.3 % leaves lines near their places."""
    least = 2 * k + 3
    return sorted({max(least, min(n, int((angles < a).sum()))) for n, a in ((30, 35.0), (70, 55.0), (140, 75.0))})


def _starts(problem: Problem, theta: Array, k: int) -> list[State]:
    """For a few zero shifts, the best of a few widths; the best of these."""
    least = 2 * float(np.median(np.diff(problem.data.x)))
    starts = []
    for shift in (0.0, -0.04, 0.04, -0.08, 0.08):
        trials = []
        for width in (0.05, 0.1, 0.2):
            trial = theta.copy()
            trial[k] += shift
            trial[k + 2] = math.log(max(width, least))
            trials.append(problem.evaluate(trial))
        starts.append(min(trials, key=lambda state: state.cost))
    return sorted(starts, key=lambda state: state.cost)[:_TRIALS]


class _Lattice(NamedTuple):
    """The cell as its reciprocal metric, whose free numbers are `first * scale` to begin with."""

    inverse: Array  # (3, 3), 1/Å²
    forms: Array  # (free, 6)
    first: Array
    scale: Array


def _lattice(cell: Sequence[float], system: str) -> _Lattice:
    """Refused where the cell is far from what the system demands, else exactly that."""
    values = [cell[NAMES.index(target.name)] for target in targets(system)]
    exact = full(system, torch.tensor([values], dtype=torch.float64))
    if any(abs(found / wanted - 1) > _TIED for found, wanted in zip(cell, exact[0].tolist(), strict=True)):
        raise InputError(f"cell: found {' '.join(f'{value:g}' for value in cell)}, which is not {system}")
    inverse = np.linalg.inv(metric(exact)[0].numpy())
    forms = np.array(FORMS[system], dtype=float)
    lead = [PAIRS[int(np.flatnonzero(row)[0])] for row in forms]
    scale = np.array([math.sqrt(inverse[i, i] * inverse[j, j]) for i, j in lead])
    return _Lattice(inverse, forms, np.array([inverse[i, j] for i, j in lead]) / scale, scale)


def _reflections(
    lattice: _Lattice, system: str, centring: str, wavelength: float, limits: tuple[float, float], most: int
) -> tuple[NDArray[np.int64], Array]:
    """One reflection for each 1/d² that the lattice has in the range, and its factors of the free numbers."""
    low, high = (2 * math.sin(math.radians(angle / 2)) / wavelength for angle in limits)
    volume = 1 / math.sqrt(np.linalg.det(lattice.inverse))
    copies = _ORDER[system] * {"P": 1, "R": 3, "F": 4}.get(centring, 2)
    enough = (3 * 3 * copies * (most + 20) / (4 * math.pi * volume)) ** (1 / 3)  # 1.5 times as many as wanted
    high = min(high, enough + 2 * low)
    lengths = _cell(lattice.first * lattice.scale, lattice.forms)[:3]
    axes = np.meshgrid(*(np.arange(n, -n - 1, -1) for n in (lengths * high).astype(int)), indexing="ij")
    hkl = np.stack([axis.ravel() for axis in axes], axis=1)  # those with positive indices first
    square = np.einsum("ni,ij,nj->n", hkl, lattice.inverse, hkl)
    hkl = hkl[(square > low**2) & (square <= high**2)]
    hkl = hkl[shown(hkl, centring)]
    pairs = np.stack([hkl[:, i] * hkl[:, j] * (1 if i == j else 2) for i, j in PAIRS], axis=1)
    form, chosen = np.unique(pairs @ lattice.forms.T, axis=0, return_index=True)
    if not len(form):
        raise InputError(f"cell: has no reflections between {limits[0]:g} and {limits[1]:g}° of 2θ")
    form = form * lattice.scale
    order = np.argsort(form @ lattice.first)[:most]
    return hkl[chosen[order]], form[order]


def _checked(two_theta: Array, intensity: Array, sigma: Array | None, limit: tuple[float, float] | None) -> Data:
    """The points to be fitted; zeros at their beginning are angles that were not measured."""
    x, y = np.asarray(two_theta, dtype=float), np.asarray(intensity, dtype=float)
    errors = None if sigma is None else np.asarray(sigma, dtype=float)
    for name, values in (("two_theta", x), ("intensity", y), ("sigma", errors)):
        if values is not None and (values.ndim != 1 or len(values) != len(x)):
            raise InputError(f"{name}: found shape {values.shape}, expected as many numbers as angles")
        if values is not None and not np.all(np.isfinite(values)):
            raise InputError(f"{name}: found a number that is not finite")
    low, high = limit or (0.0, 180.0)
    used = (x >= low) & (x <= high) & (x > 0) & (np.cumsum(np.abs(y)) > 0)
    if used.sum() < _FEWEST:
        raise InputError(
            f"two_theta: found {used.sum()} measured point(s) between {low:g} and {high:g}°, expected {_FEWEST} or more"
        )
    x, y = x[used], y[used]
    if np.any(np.diff(x) <= 0) or x[-1] >= 180:
        raise InputError("two_theta: expected angles that rise, between 0 and 180°")
    counted = False
    near = np.convolve(np.pad(np.maximum(y, 0), 2, mode="edge"), np.full(5, 0.2), mode="valid")
    if errors is not None:
        errors = errors[used]
        if not np.any(errors > 0):
            raise InputError("sigma: found no standard error above 0")
        variance = np.maximum(errors, errors[errors > 0].min()) ** 2
    elif counted := bool(np.all(y >= 0) and np.all(y == np.round(y))):
        variance = np.maximum(near, 1.0)
    else:
        variance = _noise(y, near)
    return Data(x, y, variance, counted)


def _noise(y: Array, near: Array) -> Array:
    """Variances of intensities in an unknown unit: a constant and a share of the intensity."""
    rough = (y[:-3] - 3 * y[1:-2] + 3 * y[2:-1] - y[3:]) ** 2 / 20  # third differences leave no smooth curve
    level = np.maximum(y[1:-2] + y[2:-1], 0) / 2
    flat = level <= np.median(level)
    floor = max(float(np.median(rough[flat])) / 0.455, (1e-4 * float(np.ptp(y))) ** 2, 1e-30)
    high = level > np.quantile(level, 0.8)
    gain = max(0.0, float(np.median((rough[high] / 0.455 - floor) / np.maximum(level[high], 1e-30))))
    return np.asarray(floor + gain * near)


def _fit(
    problem: Problem, state: State, hkl: NDArray[np.int64], lattice: _Lattice, system: str, converged: bool
) -> Fit:
    """Cell and errors from the reciprocal metric and its covariance."""
    data, k, scale, forms = problem.data, problem.metric, lattice.scale, lattice.forms
    residual = (data.y - state.calculated) * problem.root
    freedom = max(1, len(data.x) - int(state.present.sum()) - int(problem.free.sum()))
    weighted = float(np.sum((data.y * problem.root) ** 2))
    chi2 = float(residual @ residual) / freedom
    matrix, _ = problem.normal(state)
    size = np.sqrt(np.diag(matrix))
    covariance = (
        np.linalg.pinv(matrix / size / size[:, None], hermitian=True) / size / size[:, None] * problem.excess(state)
    )
    every = np.zeros((len(state.theta), len(state.theta)))
    every[np.ix_(problem.free, problem.free)] = covariance
    values = state.theta[:k] * scale
    names = [NAMES.index(target.name) for target in targets(system)]
    cell = _cell(values, forms)
    by = np.zeros((len(names), k))
    for i in range(k):
        move = np.zeros(k)
        move[i] = 1e-6 * scale[i]
        by[:, i] = (_cell(values + move, forms) - _cell(values - move, forms))[names] / 2e-6
    errors = torch.tensor(np.sqrt(np.diag(by @ every[:k, :k] @ by.T)))[None]
    a, b, c, alpha, beta, gamma = full(system, errors)[0].tolist()
    angles = [e if name in names else 0.0 for name, e in zip((3, 4, 5), (alpha, beta, gamma), strict=True)]
    order = np.argsort(state.places)
    return Fit(
        cell=tuple(full(system, torch.tensor(cell[names])[None])[0].tolist()),
        errors=(a, b, c, *angles),
        zero=float(state.theta[k]),
        zero_error=math.sqrt(every[k, k]),
        displacement=float(state.theta[k + 1]),
        displacement_error=math.sqrt(every[k + 1, k + 1]),
        two_theta=data.x,
        observed=data.y,
        calculated=state.calculated,
        background=state.background,
        hkl=hkl[order],
        positions=state.places[order],
        intensities=state.linear[: problem.count][order],
        rwp=math.sqrt(float(residual @ residual) / weighted),
        rexp=math.sqrt(freedom / weighted),
        chi2=chi2,
        converged=converged,
    )


def _cell(values: Array, forms: Array) -> Array:
    """The six numbers of a cell from the free ones of its reciprocal metric."""
    elements = values @ forms
    inverse = np.zeros((3, 3))
    for (i, j), element in zip(PAIRS, elements, strict=True):
        inverse[i, j] = inverse[j, i] = element
    cell: Array = parameters(np.linalg.inv(inverse).astype(np.float64)[None])[0]
    return cell
