"""Refinement: approximate cells become exact, with true standard errors; invalid input gives an error of one line."""

import csv
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.data import data_folder
from vitreous.powder.cell import CENTRINGS, NAMES, targets
from vitreous.powder.files import read_pattern
from vitreous.powder.refinement import Fit, refine, reflections
from vitreous.powder.refinement.problem import Data, Problem
from vitreous.powder.refinement.profile import START, Shape, profiles
from vitreous.powder.refinement.shifts import SHIFT_COUNT
from vitreous.powder.sim import space_groups
from vitreous.powder.sim.effects import CLEAN, Effects
from vitreous.powder.sim.measurement import random_patterns

CU = {"wavelength": 1.540598, "wavelength2": 1.544426, "ratio": 0.25}
LABORATORY = replace(Effects(), impurity=(0.0, 0.0))
SYSTEMS = ("triclinic", "monoclinic", "orthorhombic", "tetragonal", "trigonal", "hexagonal", "cubic")
CENTRED = {1: "P", 5: "C", 20: "C", 22: "F", 23: "I", 38: "A", 146: "R", 196: "F", 197: "I"}


def centring_of(number: int) -> str:
    """From the translations that a group has."""
    rotations, translations = space_groups.operations(number)
    pure = translations[(rotations == np.eye(3)).all((1, 2))]
    box = np.stack(np.meshgrid(*[np.arange(-3, 4)] * 3), axis=-1).reshape(-1, 3)
    phases = box @ pure.T
    present = (np.abs(phases - np.round(phases)) < 1e-3).all(1)
    shown = {
        name: np.all([(box @ np.array(row)) % n == 0 for row, n in rules] or [present | True], axis=0)
        for name, rules in CENTRINGS.items()
    }
    return next(name for name, seen in shown.items() if np.array_equal(seen, present))


def same_lattice(result: NDArray[Any], truth: NDArray[Any]) -> NDArray[Any]:
    """Of the cells with two angles on the other side of 90°, which make one lattice, the nearest to the true one."""
    flips = np.array([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]], dtype=bool)
    cells = [np.concatenate([result[:3], np.where(flip, 180 - result[3:], result[3:])]) for flip in flips]
    return min(cells, key=lambda cell: float(np.abs(cell / truth - 1).max()))


def refined(system: str, count: int, effects: Effects, off: float = 1e-3) -> list[tuple[NDArray[Any], Fit, float]]:
    """True cells, fits from cells that are off by that much, and seconds."""
    patterns, crystals = random_patterns(system, count, effects)
    random, results = np.random.default_rng(0), []
    names = [target.name for target in targets(system)]
    for pattern, cell, group in zip(patterns.numpy(), crystals.cell.double().numpy(), crystals.group, strict=True):
        start = dict(zip(NAMES, cell, strict=True))
        start |= {name: start[name] * (1 + off * random.normal()) for name in names}
        start |= {name: start["a"] for name in "bc" if name not in names}
        began = time.process_time()
        fit = refine(
            effects.angles().numpy(), pattern, [start[name] for name in NAMES], system=system,
            centring=centring_of(int(group)), **CU,
        )  # fmt: skip
        results.append((cell, fit, time.process_time() - began))
    return results


@pytest.mark.parametrize("number", CENTRED)
def test_centrings_are_those_of_the_space_groups(number: int) -> None:
    assert centring_of(number) == CENTRED[number]


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_approximate_cell_becomes_exact(system: str) -> None:
    for truth, fit, seconds in refined(system, 5, Effects()):
        assert fit.converged
        assert np.abs(same_lattice(np.array(fit.cell), truth) / truth - 1).max() < 1e-3
        assert np.median(np.abs(np.array(fit.cell[:3]) / truth[:3] - 1)) < 5e-4
        assert seconds < 20  # 0.3 on a free core


def test_standard_errors_agree_with_the_deviations() -> None:
    deviations = []
    for system in ("triclinic", "orthorhombic"):
        free = [NAMES.index(target.name) for target in targets(system)]
        for truth, fit, _ in refined(system, 8, LABORATORY):
            result = same_lattice(np.array(fit.cell), truth)
            deviations += list((result - truth)[free] / np.array(fit.errors)[free])
    assert 0.5 < np.std(deviations) < 1.8


def test_a_cell_with_an_error_of_three_in_a_thousand_converges() -> None:
    results = refined("monoclinic", 6, LABORATORY, off=3e-3)
    near = [np.abs(np.array(fit.cell) / truth - 1).max() < 1e-3 for truth, fit, _ in results]
    assert sum(near) >= 5


@pytest.mark.parametrize("system", SYSTEMS)
def test_parameters_fixed_by_the_system_are_exact_and_have_no_error(system: str) -> None:
    ((_, fit, _),) = refined(system, 1, LABORATORY)
    names = [target.name for target in targets(system)]
    for name, value, error in zip(NAMES, fit.cell, fit.errors, strict=True):
        if name in names:
            assert error > 0
        elif name in "bc":
            assert (value, error) == (fit.cell[0], fit.errors[0])
        else:
            assert value in (90.0, pytest.approx(120.0))
            assert error == 0


def test_a_clean_pattern_is_fitted_at_every_point() -> None:
    patterns, crystals = random_patterns("orthorhombic", 1, replace(CLEAN, zero=(0.03, 0.03)))
    fit = refine(
        CLEAN.angles().numpy(), patterns[0].numpy(), crystals.cell[0].tolist(), system="orthorhombic",
        centring=centring_of(int(crystals.group[0])), wavelength=1.540598,
    )  # fmt: skip
    assert fit.rwp < 0.05
    shift = fit.zero + fit.displacement * np.cos(np.radians(fit.positions[0] / 2))  # they differ at high angles only
    assert shift == pytest.approx(0.03, abs=2e-3)
    away = np.abs(np.array(fit.cell) - crystals.cell[0].numpy())[:3]
    assert (away < 3 * np.array(fit.errors[:3])).all()
    assert (away < 1e-4 * np.array(fit.cell[:3])).all()
    assert fit.chi2 == pytest.approx((fit.rwp / fit.rexp) ** 2)
    assert np.all(np.diff(fit.positions) >= 0)
    assert np.all(fit.intensities >= 0)
    assert len(fit.hkl) == len(fit.positions) == len(fit.intensities)
    assert len(fit.two_theta) == len(fit.observed) == len(fit.calculated) == len(fit.background)


def test_lines_have_unit_area_and_true_derivatives() -> None:
    x, place, pivot = np.arange(5, 80, 0.01), np.array([8.0, 30.0, 60.0]), 30.0
    shape = START._replace(axial=0.01, ratio=0.5, drift=0.1)

    def curve(shift: float, shape: Shape) -> NDArray[Any]:
        lines = profiles(x, place + shift, place + shift + 0.1, shape, pivot)
        return np.bincount(lines.windows.points, lines.value, len(x))

    lines = profiles(x, place, place + 0.1, shape, pivot)
    areas = np.add.reduceat(lines.value, lines.windows.starts[:-1]) * 0.01
    np.testing.assert_allclose(areas, 1.5, rtol=0.05)  # Lorentzian tails go on
    by_shift = (curve(1e-4, shape) - curve(-1e-4, shape)) / 2e-4
    result = np.bincount(lines.windows.points, lines.by_position, len(x))
    assert np.quantile(np.abs(result - by_shift), 0.99) < 0.02 * np.abs(by_shift).max()  # widths go along a little
    for name, part in zip(Shape._fields, lines.by_shape, strict=True):
        ends = [curve(0, shape._replace(**{name: getattr(shape, name) + step})) for step in (1e-5, -1e-5)]
        expected = (ends[0] - ends[1]) / 2e-5
        near = np.abs(np.bincount(lines.windows.points, part, len(x)) - expected)
        assert np.quantile(near, 0.99) < 0.01 * np.abs(expected).max(), name


def test_areas_solve_the_nonnegative_least_squares_problem() -> None:
    random = np.random.default_rng(0)
    x = np.arange(10, 30, 0.02)
    form = np.sort(random.uniform(0.02, 0.1, 40))[:, None]
    data = Data(x, random.poisson(20, len(x)).astype(float), np.full(len(x), 20.0), True)
    theta = np.array([1.0, *[0.0] * SHIFT_COUNT, *START])
    size = len(theta)
    problem = Problem(data, form, (1.54, None), theta, np.full(size, np.inf), np.ones(size, dtype=bool))
    state = problem.evaluate(theta)
    areas = state.linear[:40]
    residual = (data.y - state.calculated) * problem.root
    pull = state.columns.cross_products(residual[None])[:, 0]  # half the fall of χ² with each area
    assert 0 < (areas == 0).sum() < 40
    assert np.all(areas >= 0)
    assert np.all(pull[areas == 0] < 1e-6 * np.abs(pull).max() + 1e-6)
    np.testing.assert_allclose(pull[areas > 0], 0, atol=1e-4)


def test_measured_patterns_give_their_known_cells() -> None:
    folder = data_folder() / "powder"
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent; set VITREOUS_DATA")
    with (folder / "cells.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        pattern = read_pattern(folder / f"{row['Material']}.xy.gz", wavelength=float(row["Wavelength"]))
        cell = np.array([float(row[name]) for name in NAMES])
        start = cell * np.array([1.001] * 3 + [1.0] * 3)
        fit = refine(
            pattern.two_theta, pattern.intensity, start.tolist(), wavelength=float(row["Wavelength"]),
            system=row["Crystal System"], centring={"CaCO3": "R", "NaCl": "F"}.get(row["Name"], "P"),
        )  # fmt: skip
        assert np.abs(np.array(fit.cell) / cell - 1).max() < 7e-4, row["Name"]  # quartz: 5e-4, the others below 4e-4
        assert fit.rwp < 0.25


X = np.arange(10, 60, 0.02)
Y = 100 + 1000 * np.exp(-(((X - 30) / 0.1) ** 2))
CUBIC = [5.0, 5.0, 5.0, 90.0, 90.0, 90.0]
BAD: dict[str, dict[str, Any]] = {
    "intensity: found a number that is not finite": {"intensity": np.where(X < 20, np.nan, Y)},
    "intensity: found shape (10,), expected as many": {"intensity": Y[:10]},
    "two_theta: expected ascending angles": {"two_theta": X[::-1].copy()},
    "two_theta: found 0 measured point(s) between 70 and 80°": {"limit": (70.0, 80.0)},
    "sigma: found no standard error above 0": {"sigma": np.zeros_like(X)},
    "cell: has no reflections between 10 and 12": {"limit": (10.0, 12.0)},
    "for 200 reflections, expected more points": {"cell": [90.0] * 6, "system": "triclinic"},
    "cell: found 3 number(s), expected a b c": {"cell": [5.0, 5.0, 5.0]},
    "cell: found angles 90 90 200": {"cell": [5.0, 5.0, 5.0, 90.0, 90.0, 200.0]},
    "cell: found 5 6 5 90 90 90, which is not cubic": {"cell": [5.0, 6.0, 5.0, 90.0, 90.0, 90.0]},
    "system: unknown choice 'quartz'": {"system": "quartz"},
    "centring: unknown choice 'X'": {"centring": "X"},
    "wavelength: found 154, expected 0.05 to 20 Å": {"wavelength": 154.0},
    "ratio, zero: found 2, 0": {"ratio": 2.0},
}


def test_a_cell_that_no_line_determines_is_refused() -> None:
    cell = [2.9, 6.2, 7.1, 90.0, 90.0, 90.0]
    _, angles = reflections(cell, "orthorhombic", "P", 1.54, (10.0, 30.0))  # 0kl: nothing depends on a
    x = np.arange(10, 30, 0.02)
    y = 100 + sum(1000 * np.exp(-(((x - angle) / 0.06) ** 2)) for angle in angles)
    with pytest.raises(InputError, match="parameters on which no line"):
        refine(x, np.round(y), cell, wavelength=1.54, system="orthorhombic")


@pytest.mark.parametrize("message", BAD)
def test_invalid_input_gives_an_error_of_one_line(message: str) -> None:
    arguments = {"two_theta": X, "intensity": Y, "cell": CUBIC, "wavelength": 1.54, "system": "cubic"} | BAD[message]
    with pytest.raises(InputError) as fault:
        refine(**arguments)
    assert message in str(fault.value)
    assert "\n" not in str(fault.value)
