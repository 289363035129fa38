"""Pawley refinement: a fit of the whole pattern without a structure makes an approximate cell exact.

The range of the fit grows in stages, so that reflections at high angles enter only when the cell is good enough to
separate them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from vitreous.core.errors import InputError, check_choice
from vitreous.powder.cell import CENTRINGS, FORMS, check_cell, free_indices, full_cell, with_error
from vitreous.powder.refinement.lattices import Lattice, Reflections, find_reflections
from vitreous.powder.refinement.metric import ReciprocalMetric, cell_from_elements, metric_of_cell, reflection_forms
from vitreous.powder.refinement.positions import fit_positions, line_positions
from vitreous.powder.refinement.problem import Data, Problem, State, select_data
from vitreous.powder.refinement.profile import START, Array, Indices, LineProfile, Mask, Shape
from vitreous.powder.refinement.shifts import Shifts
from vitreous.powder.refinement.stages import EDGE, Stages

_SIGNIFICANT = 4.0  # standard errors: a smaller excess of intensity is noise


@dataclass(frozen=True)
class Fit:
    """A refined cell and the fitted pattern.

    Args:
        cell: a, b, c in ångström, α, β, γ in degrees.
        errors: standard errors of the cell; 0 for parameters fixed by the system.
        zero: zero shift in degrees, added to all angles by the instrument.
        zero_error, displacement_error, transparency_error: standard errors of the shifts.
        displacement: shift by a displaced sample at low angle, in degrees; it falls as cos θ.
        transparency: shift by a transparent sample, or by a capillary displaced along the beam, in degrees; it is
            proportional to sin 2θ.
        position_error: systematic error of the line positions on which the standard errors rest, in FWHM.
        two_theta: degrees, the fitted points.
        observed: intensities at these points.
        calculated: fitted curve, with background.
        background: fitted background.
        sigma: standard errors of the intensities that weight the fit.
        hkl: (n, 3), reflections in the range.
        positions: (n,), observed 2θ of the reflections (Kα1), degrees.
        intensities: (n,), areas, in the unit of the data times degrees.
        profile: of the lines.
        rwp: weighted profile residual, √(Σ w (o - c)² / Σ w o²).
        rexp: the rwp expected from noise alone.
        chi2: (rwp / rexp)².
        unexplained: share of the intensity of the lines that is significant and at no reflection.
        converged: whether the last steps were small relative to the errors.
        share: of the areas of all phases, uncorrected, that is of this one; not its share of the mass, because phases
            scatter differently.
    """

    cell: tuple[float, ...]
    errors: tuple[float, ...]
    zero: float
    zero_error: float
    displacement: float
    displacement_error: float
    transparency: float
    transparency_error: float
    position_error: float
    two_theta: Array
    observed: Array
    calculated: Array
    background: Array
    sigma: Array
    hkl: Indices
    positions: Array
    intensities: Array
    profile: LineProfile
    rwp: float
    rexp: float
    chi2: float
    unexplained: float
    converged: bool
    share: float = 1.0

    @property
    def shifts(self) -> str:
        """The shifts of all lines with standard errors, in words."""
        names = ("zero", "displacement", "transparency")
        values = (with_error(getattr(self, name), getattr(self, f"{name}_error")) for name in names)
        return ", ".join(f"{name} {value}°" for name, value in zip(names, values, strict=True))

    def shifts_at(self, two_theta: Array) -> Array:
        """The shifts of lines at 2θ `(n,)` by instrument and sample; all in degrees."""
        return Shifts(self.zero, self.displacement, self.transparency).at(two_theta)


@dataclass(frozen=True)
class Refinement:
    """A refinement as least squares: its last problem and state, for questions that a `Fit` does not answer."""

    problem: Problem
    state: State
    fit: Fit


@dataclass(frozen=True)
class PhaseRefinement:
    """A refinement of several phases: shifts and profile are the same for all of them.

    The curves and residuals of all `fits` are those of the whole pattern.
    """

    problem: Problem
    state: State
    phase: Indices  # (reflections,), number of the phase to which each belongs
    fits: tuple[Fit, ...]


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
    displacement: bool = True,
    limit: tuple[float, float] | None = None,
    most: int = 200,
) -> Fit:
    """Fit a cell to a pattern; cell and shifts then follow from the positions of the lines (`fit_positions`).

    Args:
        two_theta: degrees, ascending.
        intensity: counts, or any other unit.
        cell: a, b, c in ångström, α, β, γ in degrees, in the conventional setting of the system (trigonal: hexagonal
            axes), accurate to about 0.3 %.
        wavelength: ångström; Kα1 of a doublet.
        wavelength2: of Kα2, ångström; its ratio to Kα1 is then refined.
        ratio: first value of the ratio of Kα2 to Kα1.
        system: determines the free parameters of the cell; centring is P, A, B, C, I, F or R.
        sigma: standard errors of the intensities; by default those of counts, or estimated for other units.
        zero: zero shift in degrees, accurate to about 0.1°.
        displacement: whether the sample may be displaced or transparent. Cell and shifts are strongly correlated, and
            the standard errors say so; False is for instruments that exclude these shifts, such as analyser crystals.
        limit: first and last 2θ to use, degrees.
        most: largest number of reflections; the range ends where there are more.
    """
    return refinement(
        two_theta, intensity, cell, wavelength=wavelength, wavelength2=wavelength2, ratio=ratio, system=system,
        centring=centring, sigma=sigma, zero=zero, displacement=displacement, limit=limit, most=most,
    ).fit  # fmt: skip


def refinement(
    two_theta: Array, intensity: Array, cell: Sequence[float], *, wavelength: float, wavelength2: float | None = None,
    ratio: float = 0.0, system: str = "triclinic", centring: str = "P", sigma: Array | None = None, zero: float = 0.0,
    displacement: bool = True, limit: tuple[float, float] | None = None, most: int = 200,
) -> Refinement:  # fmt: skip
    """The same as `refine`, with the problem and its solution."""
    result = refine_phases(
        two_theta, intensity, [Lattice(cell, system, centring)], wavelength=wavelength, wavelength2=wavelength2,
        ratio=ratio, sigma=sigma, zero=zero, displacement=displacement, limit=limit, most=most,
    )  # fmt: skip
    return Refinement(result.problem, result.state, result.fits[0])


def refine_phases(
    two_theta: Array, intensity: Array, lattices: Sequence[Lattice], *, wavelength: float,
    wavelength2: float | None = None, ratio: float = 0.0, sigma: Array | None = None, zero: float = 0.0,
    displacement: bool = True, limit: tuple[float, float] | None = None, most: int = 200,
) -> PhaseRefinement:  # fmt: skip
    """Fit the cells of all phases to a pattern at once; the arguments are those of `refine`.

    `most` is the largest number of reflections of one phase.
    """
    for lattice in lattices:
        check_choice("system", lattice.system, FORMS)
        check_choice("centring", lattice.centring, CENTRINGS)
        check_cell(list(lattice.cell))
    for name, value in (("wavelength", wavelength), ("wavelength2", wavelength2)):
        if value is not None and not 0.05 < value < 20:
            raise InputError(f"{name}: found {value:g}, expected 0.05 to 20 Å")
    if not 0 <= ratio <= 1 or not abs(zero) < 5:
        raise InputError(f"ratio, zero: found {ratio:g}, {zero:g}, expected 0 to 1 and below 5°")
    data = select_data(two_theta, intensity, sigma, limit)
    reflections = find_reflections(lattices, wavelength, (data.x[0], data.x[-1]), most)
    form, angles, first = reflections.form, reflections.angles, reflections.first
    if not reflections.complete:
        data = data.before(angles[-1] - EDGE)
    if len(data.x) < len(form) + 40:
        raise InputError(f"two_theta: found {len(data.x)} point(s) for {len(form)} reflections, expected more points")
    shape = START._replace(ratio=ratio if wavelength2 is not None else 0.0)
    stages = Stages(data, form, angles, (wavelength, wavelength2), np.array([*first, *Shifts(zero, 0.0, 0.0), *shape]))
    with threadpool_limits(1):  # the matrices are small: several threads would mostly wait for each other
        problem, state, converged = stages.run(displacement and wavelength2 is not None)
        free = np.array([*[True] * (len(first) + 1), displacement, displacement])
        systems = [lattice.system for lattice in lattices]
        fits = _fits(problem, state, reflections, systems, converged, free)
        return PhaseRefinement(problem, state, reflections.phase, fits)


def refine_profile(
    data: Data, cell: Sequence[float], system: str, centring: str, wavelengths: tuple[float, float | None],
    ratio: float, zero: float, most: int,
) -> tuple[Problem, State]:  # fmt: skip
    """The fit of a cell to the first `most` reflections of checked data, for its profile."""
    lattice = metric_of_cell(cell, system)
    limits = (float(data.x[0]), float(data.x[-1]))
    _, form, angles = reflection_forms(lattice, system, centring, wavelengths[0], limits, most)
    if len(form) == most:
        data = data.before(angles[-1] - EDGE)
    shape = START._replace(ratio=ratio if wavelengths[1] is not None else 0.0)
    stages = Stages(data, form, angles, wavelengths, np.array([*lattice.first, *Shifts(zero, 0.0, 0.0), *shape]))
    problem, state, _ = stages.run(wavelengths[1] is not None)
    return problem, state


def _fits(
    problem: Problem, state: State, reflections: Reflections, systems: Sequence[str], converged: bool, free: Mask
) -> tuple[Fit, ...]:
    """The fit of each phase."""
    data, k, residual = problem.data, problem.metric, state.residual
    freedom = max(1, len(data.x) - int(state.present.sum()) - int(problem.free.sum()))
    weighted = float(np.sum((data.y * problem.root) ** 2))
    positions = fit_positions(line_positions(problem, state), state.theta[: problem.first_shape], free)
    values, covariance = positions.values, positions.covariance
    zero, displacement, transparency = zip(values[k:], np.sqrt(np.diag(covariance)[k:]), strict=True)
    whole: dict[str, Any] = {
        "zero": float(zero[0]),
        "zero_error": float(zero[1]),
        "displacement": float(displacement[0]),
        "displacement_error": float(displacement[1]),
        "transparency": float(transparency[0]),
        "transparency_error": float(transparency[1]),
        "position_error": positions.share,
        "two_theta": data.x,
        "observed": np.ldexp(data.y, data.exponent),
        "calculated": np.ldexp(state.calculated, data.exponent),
        "background": np.ldexp(state.background, data.exponent),
        "sigma": np.ldexp(np.sqrt(data.variance), data.exponent),
        "profile": _line_profile(problem, state),
        "rwp": math.sqrt(float(residual @ residual) / weighted),
        "rexp": math.sqrt(freedom / weighted),
        "chi2": float(residual @ residual) / freedom,
        "unexplained": _unexplained_share(problem, state),
        "converged": converged,
    }
    areas, order = state.linear[: problem.count], np.argsort(state.positions)
    fits = []
    for phase, (system, metric) in enumerate(zip(systems, reflections.metrics, strict=True)):
        own, block = order[reflections.phase[order] == phase], reflections.elements(phase)
        cell, errors = _cell_with_errors(values[block], covariance[block, block], metric, system)
        fit = Fit(
            cell=cell,
            errors=errors,
            hkl=reflections.hkl[own],
            positions=state.positions[own],
            intensities=np.ldexp(areas[own], data.exponent),
            share=float(areas[own].sum() / max(float(areas.sum()), 1e-300)) if len(systems) > 1 else 1.0,
            **whole,
        )
        fits.append(fit)
    return tuple(fits)


def _line_profile(problem: Problem, state: State) -> LineProfile:
    shape = Shape(*state.theta[problem.first_shape :].tolist())
    return LineProfile(shape, problem.reference, problem.wavelengths[1])


def _unexplained_share(problem: Problem, state: State) -> float:
    """The share of the intensity above the background that the lines do not describe, in parts as wide as a line."""
    data = problem.data
    part = ((data.x - data.x[0]) / float(np.median(state.lines.width))).astype(int)
    left = np.bincount(part, data.y - state.calculated)
    error = np.sqrt(np.bincount(part, data.variance))
    described = float(np.sum(state.calculated - state.background))
    unexplained = float(left[left > _SIGNIFICANT * error].sum())
    return unexplained / max(unexplained + described, 1e-300)


def _cell_with_errors(
    first: Array, covariance: Array, lattice: ReciprocalMetric, system: str
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    values, forms, free = first * lattice.scale, lattice.forms, free_indices(system)
    cell = cell_from_elements(values, forms)
    derivative = np.zeros((len(free), len(first)))
    for i, move in enumerate(np.diag(1e-6 * lattice.scale)):
        difference = cell_from_elements(values + move, forms) - cell_from_elements(values - move, forms)
        derivative[:, i] = difference[free] / 2e-6
    errors = torch.tensor(np.sqrt(np.diag(derivative @ covariance @ derivative.T)))[None]
    full_errors = full_cell(system, errors)[0].tolist()
    angles = [error if i in free else 0.0 for i, error in enumerate(full_errors) if i >= 3]
    return tuple(full_cell(system, torch.tensor(cell[free])[None])[0].tolist()), (*full_errors[:3], *angles)
