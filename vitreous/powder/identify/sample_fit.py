"""The fit of a pattern by phases of known structures: scales, cells, widths and texture of each, and the background.

Scales and background are linear, the rest is refined by damped least squares. Parameters have the prior errors that
real samples and instruments have, so that a phase cannot become another one.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vitreous.powder.bragg import second_wavelength
from vitreous.powder.identify.measured import Measured
from vitreous.powder.identify.phase_lines import PhaseLines, Placed
from vitreous.powder.pattern import Floats
from vitreous.powder.refinement.profile import Profiles, Shape, profiles


@dataclass(frozen=True)
class FitTuning:
    """Prior errors of the parameters of a fit, and the error of its model."""

    zero: float = 0.06
    """Zero shift, degrees."""
    displacement: float = 0.06
    """Shift by a displaced sample at low angle, degrees."""
    metric: float = 0.006
    """Relative change of the elements of the reciprocal metric: twice that of lengths."""
    usual_strain: float = 0.001
    """Relative change of lengths by temperature and small changes of the composition, in most samples."""
    broadening: float = 0.3
    """Logarithm of the width of the lines of one phase over that of all."""
    texture: float = 0.25
    """Logarithm of the March-Dollase parameter."""
    vibration: float = 0.4
    """Displacement parameter B of all atoms of a phase, Å²."""
    fall: float = 1.0
    """Å²: intensities of all phases change by exp(-fall · s² / 2), for slits, optics and roughness."""
    log_width: float = 0.5
    """Logarithm of the width."""
    misfit: float = 0.06
    """Relative error of the model where there are lines, beside the errors of counting."""
    steps: int = 8
    """Of the refinement, at most."""
    settled: float = 1e-3
    """Relative decrease of χ² at which it stops."""


FIT_TUNING = FitTuning()
_SHARED = ("zero", "displacement", "fall", "log_width", "slope", "mixing", "axial")
_REMEMBERED = 16  # phases at their last parameters
_LINE_WIDTHS = 1.5  # widths of a line over which its error is the same
_OWN = 3  # parameters of a phase beside its cell
_SLOPE_ERROR, _MIXING_ERROR, _AXIAL_ERROR = 0.15, 0.25, 0.003
_TYPICAL = Shape(math.log(0.1), 0.12, -0.05, 0.5, 0.0, 0.003, 0.0)
_MOST_CHANGE = 0.03  # of an element of the reciprocal metric, relative


@dataclass(frozen=True)
class PhaseState:
    """The parameters of one phase."""

    lines: PhaseLines
    change: Floats  # (free,), of the reciprocal metric
    broadening: float = 0.0
    log_texture: float = 0.0
    vibration: float = 0.0
    texture: int = 0  # which kind
    scale: float = 0.0

    def placed(self, fall: float) -> Placed:
        """The lines of the phase, where the intensities of all phases fall with the angle."""
        return self.lines.placed(self.change, self.log_texture, self.texture, self.vibration + fall)


@dataclass(frozen=True)
class SampleState:
    """The parameters of a fit."""

    phases: tuple[PhaseState, ...]
    zero: float
    displacement: float
    fall: float
    shape: Shape
    reference: float  # degrees, where the width of the shape holds


@dataclass(frozen=True, eq=False)
class SampleFit:
    """A fitted sample.

    Args:
        state: its parameters.
        background: `(points,)`.
        parts: `(phases, points)`, what each phase adds.
        variance: `(points,)`, of counting and of the model.
        cost: χ² with the prior terms, which the refinement lowers.
        misfit: what tells one entry from another: χ² where the model's error is the same all over a line, and cells
            that differ from those of the database count.
        covariance: of all parameters: shared, those of the phases in turn, scales, background.
        places: for each phase, the places of the changes of its metric in the covariance.
        scale_places: the place of each phase's scale.
    """

    state: SampleState
    background: Floats
    parts: Floats
    variance: Floats
    cost: float
    misfit: float
    covariance: Floats
    places: tuple[slice, ...]
    scale_places: tuple[int, ...]

    @property
    def calculated(self) -> Floats:
        """The whole model."""
        return np.asarray(self.background + self.parts.sum(axis=0))


def first_state(measured: Measured, zero: float = 0.0) -> SampleState:
    """A sample without phases, with the width of the pattern's lines."""
    reference = float(np.median(measured.peaks.two_theta)) if len(measured.peaks.two_theta) else 40.0
    shape = _TYPICAL._replace(log_width=math.log(measured.width), ratio=measured.pattern.ratio)
    return SampleState((), zero, 0.0, 0.0, shape, reference)


def with_phase(
    state: SampleState, lines: PhaseLines, strain: float = 0.0, like: PhaseState | None = None
) -> SampleState:
    """The sample with another phase, with all lengths of its cell longer by a share.

    The widths and the vibration of its lines begin as those of the phase `like`.
    """
    phase = PhaseState(lines, lines.strained(strain))
    if like is not None:
        phase = replace(phase, broadening=like.broadening, vibration=like.vibration)
    return replace(state, phases=(*state.phases, phase))


def fit_sample(
    measured: Measured, state: SampleState, *, steps: int | None = None, only_last: bool = False,
    tuning: FitTuning = FIT_TUNING,
) -> SampleFit:  # fmt: skip
    """Refine a sample; `only_last`: the parameters of the last phase and all scales, with the rest as it is."""
    damping = 1e-3
    problem = _Problem(measured, tuning, only_last)
    current = problem.linear(state)
    if state.phases and not state.phases[-1].log_texture:
        current = problem.with_texture(current)
    for _ in range(steps or tuning.steps):
        trial = problem.step(current, damping)
        if trial.cost < current.cost:
            gain, current, damping = current.cost - trial.cost, trial, damping / 5
            if gain < tuning.settled * current.cost:
                break
        else:
            damping *= 20
            if damping > 1e3:
                break
    return current


class _Problem:
    """Least squares of one pattern."""

    def __init__(self, measured: Measured, tuning: FitTuning, only_last: bool) -> None:
        self.measured, self.tuning, self.only_last = measured, tuning, only_last
        peaks = np.maximum(measured.y - measured.background, 0.0)
        self.variance = measured.variance + (tuning.misfit * peaks) ** 2
        self.weight = 1 / np.sqrt(self.variance)
        self.splines = measured.splines * self.weight[:, None]
        self.smooth = self.splines.T @ self.splines
        self.y = measured.y * self.weight
        self.points_of_line = max(1.0, _LINE_WIDTHS * measured.width / float(np.median(np.diff(measured.x))))
        self._parts: dict[Any, tuple[Floats, Profiles, Placed]] = {}
        self._fixed: dict[int, Floats] = {}  # phases whose lines do not move

    def linear(self, state: SampleState) -> SampleFit:
        """The best scales and background for a state; scales are not negative."""
        columns = np.zeros((len(state.phases), len(self.y)))
        for number, phase in enumerate(state.phases):
            columns[number] = self._fixed.get(number, columns[number])
            if number not in self._fixed:
                columns[number] = self._part(state, phase)[0]
            if self.only_last and number < len(state.phases) - 1:
                self._fixed[number] = columns[number]
        return self._with_scales(state, columns)

    def _with_scales(self, state: SampleState, columns: Floats) -> SampleFit:
        count = len(columns)
        unit = np.maximum(columns.max(axis=1, initial=0.0), 1e-300)
        weighted = columns / unit[:, None] * self.weight
        cross = weighted @ self.splines
        normal = np.block([[weighted @ weighted.T, cross], [cross.T, self.smooth]])
        right = np.concatenate([weighted @ self.y, self.y @ self.splines])
        normal[np.diag_indices_from(normal)] *= 1 + 1e-9
        active = np.ones(len(right), dtype=bool)
        solution = np.zeros(len(right))
        for _ in range(count + 1):
            solution = np.zeros(len(right))
            solution[active] = np.linalg.solve(normal[np.ix_(active, active)], right[active])
            negative = active[:count] & (solution[:count] <= 0)
            if not negative.any():
                break
            active[:count] &= ~negative
        scales = solution[:count] / unit
        background = self.measured.splines @ solution[count:]
        parts = columns * scales[:, None]
        phases = tuple(replace(phase, scale=float(s)) for phase, s in zip(state.phases, scales, strict=True))
        state = replace(state, phases=phases)
        residual = self.y - (background + parts.sum(axis=0)) * self.weight
        cost = float(residual @ residual) + self._prior_cost(state)
        return SampleFit(
            state, background, parts, self.variance, cost, self._misfit(state, residual), np.zeros((0, 0)), (), ()
        )

    def with_texture(self, fit: SampleFit) -> SampleFit:
        """The fit with the kind of texture of the last phase that would explain most of what is left."""
        last = fit.state.phases[-1]
        if last.scale <= 0:
            return fit
        residual = (self.measured.y - fit.calculated) * self.weight
        gains = []
        for texture in range(len(last.lines.textures)):
            _, found, placed = self._part(fit.state, replace(last, texture=texture))
            change = last.scale * placed.area_by_texture[found.windows.line] * found.value
            column = np.bincount(found.windows.points, change, len(self.y)) * self.weight
            gains.append(float((column @ residual) ** 2 / (column @ column + self.tuning.texture**-2)))
        chosen = replace(last, texture=int(np.argmax(gains)))
        return replace(fit, state=replace(fit.state, phases=(*fit.state.phases[:-1], chosen)))

    def step(self, fit: SampleFit, damping: float) -> SampleFit:
        """One damped step from a fit."""
        state = fit.state
        columns, prior, value = self._derivatives(state)
        basis = np.concatenate([columns, fit.parts, self.measured.splines.T])  # scales relative
        weighted = basis * self.weight
        residual = (self.measured.y - fit.calculated) * self.weight
        normal, right = weighted @ weighted.T, weighted @ residual
        free = len(columns)
        normal[np.arange(free), np.arange(free)] += prior**-2.0
        right[:free] -= value / prior**2
        diagonal = np.diag(normal).copy()
        normal[np.diag_indices_from(normal)] += damping * diagonal + 1e-12 * diagonal.max()
        change = np.asarray(np.linalg.solve(normal, right)[:free], dtype=float)
        return self.linear(self._moved(state, change))

    def errors(self, fit: SampleFit) -> SampleFit:
        """The fit with the covariance of its parameters."""
        columns, prior, _ = self._derivatives(fit.state)
        basis = np.concatenate([columns, fit.parts, self.measured.splines.T])
        weighted = basis * self.weight
        normal = weighted @ weighted.T
        free = len(columns)
        normal[np.arange(free), np.arange(free)] += prior**-2.0
        normal[np.diag_indices_from(normal)] += 1e-12 * np.diag(normal).max()
        places, at = [], len(_SHARED)
        for phase in fit.state.phases:
            places.append(slice(at, at + len(phase.change)))
            at += len(phase.change) + _OWN
        scales = tuple(range(free, free + len(fit.state.phases)))
        return replace(
            fit, covariance=np.asarray(np.linalg.inv(normal), dtype=float), places=tuple(places), scale_places=scales
        )

    def _part(self, state: SampleState, phase: PhaseState) -> tuple[Floats, Profiles, Placed]:
        """A phase with a scale of 1: its sum, its profiles and its lines."""
        own = phase.change.tobytes(), phase.broadening, phase.log_texture, phase.vibration, phase.texture
        key = (id(phase.lines), *own, state.zero, state.displacement, state.fall, state.shape)
        if key not in self._parts:
            if len(self._parts) >= _REMEMBERED:
                self._parts.pop(next(iter(self._parts)))
            self._parts[key] = self._calculate(state, phase)
        return self._parts[key]

    def _calculate(self, state: SampleState, phase: PhaseState) -> tuple[Floats, Profiles, Placed]:
        placed = phase.placed(state.fall)
        theta = np.radians(placed.angle) / 2
        position = placed.angle + state.zero + state.displacement * np.cos(theta)
        ratio = self.measured.wavelength_ratio
        second = second_wavelength(position, ratio) if ratio else None
        shape = state.shape._replace(log_width=state.shape.log_width + phase.broadening)
        found = profiles(self.measured.x, position, second, shape, state.reference)
        total = np.bincount(found.windows.points, found.value * placed.area[found.windows.line], len(self.measured.x))
        return np.asarray(total, dtype=float), found, placed

    def _derivatives(self, state: SampleState) -> tuple[Floats, Floats, Floats]:
        """Derivatives `(free, points)` by the free parameters, their prior errors and how far they are from priors."""
        tuning, points = self.tuning, len(self.measured.x)
        shared = np.zeros((len(_SHARED), points))
        own: list[Floats] = []
        prior = [
            tuning.zero,
            tuning.displacement,
            tuning.fall,
            tuning.log_width,
            _SLOPE_ERROR,
            _MIXING_ERROR,
            _AXIAL_ERROR,
        ]
        first = _TYPICAL._replace(log_width=math.log(self.measured.width))
        shape = state.shape
        value = [state.zero, state.displacement, state.fall]
        value += [getattr(shape, name) - getattr(first, name) for name in _SHARED[3:]]
        for number, phase in enumerate(state.phases):
            still = self.only_last and number < len(state.phases) - 1
            if still:
                continue
            _, found, placed = self._part(state, phase)
            line, strength = found.windows.line, phase.scale * placed.area[found.windows.line]

            def total(values: Floats, found: Profiles = found) -> Floats:
                return np.asarray(np.bincount(found.windows.points, values, points), dtype=float)

            moved = strength * found.by_position
            cosine = np.cos(np.radians(placed.angle) / 2)
            stretched = total(strength * found.by_shape[0])
            if not self.only_last:
                shared[0] += total(moved)
                shared[1] += total(moved * cosine[line])
                shared[2] += total(phase.scale * placed.area_by_vibration[line] * found.value)
                shared[3] += stretched
                for row, place in ((4, 1), (5, 3), (6, 5)):
                    shared[row] += total(strength * found.by_shape[place])
            own += [total(moved * placed.angle_by_metric[line, k]) for k in range(len(phase.change))]
            prior += [tuning.metric] * len(phase.change)
            value += phase.change.tolist()
            by_area = (placed.area_by_vibration, placed.area_by_texture)
            own += [stretched, *(total(phase.scale * each[line] * found.value) for each in by_area)]
            prior += [tuning.broadening, tuning.vibration, tuning.texture]
            value += [phase.broadening, phase.vibration, phase.log_texture]
        return np.concatenate([shared, np.array(own).reshape(-1, points)]), np.array(prior), np.array(value)

    def _prior_cost(self, state: SampleState) -> float:
        tuning, shape = self.tuning, state.shape
        first = _TYPICAL._replace(log_width=math.log(self.measured.width))
        terms = [state.zero / tuning.zero, state.displacement / tuning.displacement, state.fall / tuning.fall]
        terms += [(shape.log_width - first.log_width) / tuning.log_width, (shape.slope - first.slope) / _SLOPE_ERROR]
        terms += [(shape.mixing - first.mixing) / _MIXING_ERROR, (shape.axial - first.axial) / _AXIAL_ERROR]
        for phase in state.phases:
            terms += (phase.change / tuning.metric).tolist()
            terms += [phase.broadening / tuning.broadening, phase.log_texture / tuning.texture]
            terms.append(phase.vibration / tuning.vibration)
        return float(np.square(terms).sum())

    def _misfit(self, state: SampleState, residual: Floats) -> float:
        """`SampleFit.misfit`, from the residual over its standard errors."""
        relative = self.measured.variance + self.points_of_line * (self.variance - self.measured.variance)
        cost = float((residual**2 * self.variance / relative).sum())
        strains = [float(np.abs(phase.change).mean()) / 2 for phase in state.phases]
        return cost + 3 * sum(math.log1p((strain / self.tuning.usual_strain) ** 2) for strain in strains)

    def _moved(self, state: SampleState, change: Floats) -> SampleState:
        zero, displacement, fall, log_width, slope, mixing, axial = change[: len(_SHARED)].tolist()
        old = state.shape
        shape = old._replace(
            log_width=old.log_width + float(np.clip(log_width, -0.5, 0.5)),
            slope=float(np.clip(old.slope + slope, -0.2, 1.5)),
            mixing=float(np.clip(old.mixing + mixing, 0.0, 1.0)),
            axial=float(np.clip(old.axial + axial, 0.0, 0.03)),
        )
        phases, at = [], len(_SHARED)
        for number, phase in enumerate(state.phases):
            if self.only_last and number < len(state.phases) - 1:
                phases.append(phase)
                continue
            free = len(phase.change)
            moved = np.clip(phase.change + change[at : at + free], -_MOST_CHANGE, _MOST_CHANGE)
            broadening = float(np.clip(phase.broadening + change[at + free], -1.0, 1.5))
            vibration = float(np.clip(phase.vibration + change[at + free + 1], -1.5, 3.0))
            texture = float(np.clip(phase.log_texture + change[at + free + 2], -1.2, 1.2))
            at += free + _OWN
            phases.append(replace(phase, change=moved, broadening=broadening, log_texture=texture, vibration=vibration))
        return replace(
            state, phases=tuple(phases), zero=state.zero + zero, displacement=state.displacement + displacement,
            fall=float(np.clip(state.fall + fall, -4.0, 4.0)), shape=shape,
        )  # fmt: skip


def with_errors(measured: Measured, fit: SampleFit, tuning: FitTuning = FIT_TUNING) -> SampleFit:
    """The fit with the covariance of its parameters, for errors of counting and of the model."""
    return _Problem(measured, tuning, only_last=False).errors(fit)
