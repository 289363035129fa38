"""The whole pattern decides between a lattice and its multiples, and only where nothing is left unexplained."""

from dataclasses import replace

import numpy as np
import pytest

from vitreous.powder import Solution, find_peaks, index_peaks
from vitreous.powder.bravais import Bravais
from vitreous.powder.lattice import niggli, primitive, same_lattice
from vitreous.powder.lineshape import GAUSS_HEIGHT
from vitreous.powder.pattern import Pattern
from vitreous.powder.refinement import reflections
from vitreous.powder.whole_pattern import refine_best

WAVELENGTH = 1.0
CELL = (5.0, 6.2, 7.1, 90.0, 90.0, 90.0)
DOUBLE = (5.0, 6.2, 14.2, 90.0, 90.0, 90.0)
LIMITS = (5.0, 45.0)


def pattern(
    weak: float, foreign: tuple[float, ...] = (), cell: tuple[float, ...] = DOUBLE, system: str = "orthorhombic"
) -> Pattern:
    """Lines of the double cell, those that the small cell lacks `weak` times as strong, and foreign ones."""
    x = np.arange(*LIMITS, 0.01)
    rng = np.random.default_rng(2)
    hkl, angles = reflections(cell, system, "P", WAVELENGTH, LIMITS)
    strength = rng.exponential(1.0, len(angles)) * np.where(hkl[:, 2] % 2, weak, 1.0)
    lines = [*zip(angles, strength, strict=True), *((at, 0.2) for at in foreign)]
    curve = sum(area * np.exp(-4 * np.log(2) * ((x - at) / 0.08) ** 2) for at, area in lines) * GAUSS_HEIGHT
    return Pattern(x, rng.poisson(100 + 2000 * curve).astype(float), None, WAVELENGTH)


def solution(cell: tuple[float, ...], system: str, centring: str, evidence: float) -> Solution:
    """A lattice as if a search had found it with this evidence."""
    _, angles = reflections(CELL, "orthorhombic", "P", WAVELENGTH, LIMITS, 20)
    best = index_peaks(angles, wavelength=WAVELENGTH, systems=("orthorhombic",))[0]
    reduced = tuple(niggli(primitive(np.array([cell]), centring))[0])
    return replace(
        best, system=system, centring=centring, evidence=evidence, cell=reduced, conventional=cell, zero=0.0
    )  # fmt: skip


def describe(lattice: Bravais, zero: float) -> Solution:
    return solution(tuple(lattice.conventional.tolist()), lattice.system, lattice.centring, 0.0)


def solutions(evidence: tuple[float, float]) -> list[Solution]:
    """The small and the double cell, best first."""
    both = [solution(cell, "orthorhombic", "P", score) for cell, score in zip((CELL, DOUBLE), evidence, strict=True)]
    return sorted(both, key=lambda solution: -solution.evidence)


def first_cell(measured: Pattern, evidence: tuple[float, float]) -> tuple[float, ...]:
    peaks = find_peaks(measured.two_theta, measured.intensity)
    return refine_best(measured, solutions(evidence), peaks, describe)[0].cell


def test_a_double_cell_is_preferred_if_its_lines_are_there() -> None:
    assert same_lattice(first_cell(pattern(weak=0.3), (60.0, 50.0)), DOUBLE, 1e-3)


def test_a_double_cell_is_not_preferred_if_its_lines_are_absent() -> None:
    assert same_lattice(first_cell(pattern(weak=0.0), (60.0, 50.0)), CELL, 1e-3)


def test_a_double_cell_is_not_preferred_for_the_lines_of_another_phase() -> None:
    measured = pattern(weak=0.0, foreign=(13.3, 16.9, 21.23, 24.44, 30.7))
    assert same_lattice(first_cell(measured, (60.0, 50.0)), CELL, 1e-3)


def test_a_lattice_that_is_nearly_cubic_is_described_in_its_own_symmetry() -> None:
    cell = (7.0, 7.0, 7.02, 90.0, 90.0, 90.0)
    measured = pattern(1.0, cell=cell, system="tetragonal")
    first = solution((7.01, 7.01, 7.01, 90.0, 90.0, 90.0), "cubic", "P", 60.0)
    best = refine_best(measured, [first], find_peaks(measured.two_theta, measured.intensity), describe)[0]
    assert best.system == "tetragonal"
    assert best.conventional == pytest.approx(cell, rel=3e-4)


def test_a_cubic_lattice_stays_cubic_if_the_profile_does_not_fit() -> None:
    measured = pattern(1.0, cell=(7.0, 7.0, 7.0, 90.0, 90.0, 90.0), system="cubic")
    blurred = np.convolve(measured.intensity, np.repeat([1.0, 0.5, 0.25], 8) / 14, "same")
    first = solution((7.0, 7.0, 7.0, 90.0, 90.0, 90.0), "cubic", "P", 60.0)
    skewed = replace(measured, intensity=np.round(10 * blurred))
    best = refine_best(skewed, [first], find_peaks(skewed.two_theta, skewed.intensity), describe)[0]
    assert best.system == "cubic"


def test_the_share_of_intensity_without_reflections_is_that_of_the_foreign_lines() -> None:
    measured = pattern(weak=0.0, foreign=(13.3, 16.9))
    peaks = find_peaks(measured.two_theta, measured.intensity)
    best = refine_best(measured, solutions((60.0, 50.0))[:1], peaks, describe)[0]
    assert best.fit is not None
    clean = pattern(weak=0.0)
    own = float((clean.intensity - 100).sum())
    foreign = float((measured.intensity - 100).sum()) - own
    assert best.fit.unexplained == pytest.approx(foreign / (own + foreign), rel=0.4)


def test_reasons_against_a_solution_are_named() -> None:
    best = replace(solutions((60.0, 50.0))[0], probability=0.3, margin=1.0, unexplained=0.4, indexed=12, lines=20)
    assert "8 of 20 lines are unexplained; another lattice explains the lines nearly as well" in best.doubts
    assert f"against it: {best.doubts}" in best.text
    assert replace(best, probability=0.99).doubts == ""
