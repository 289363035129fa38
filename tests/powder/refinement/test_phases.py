"""Several lattices are refined on one pattern with the same shifts and profile."""

import numpy as np
import pytest

from tests.powder import mixtures
from vitreous.core.errors import InputError
from vitreous.powder.refinement import refine
from vitreous.powder.refinement.lattices import Lattice, find_reflections
from vitreous.powder.refinement.refine import refine_phases

OFF = 1.001
PHASES = [
    Lattice(tuple(OFF * length for length in mixtures.MAJOR[:3]) + (90.0,) * 3, "tetragonal", "P"),
    Lattice(tuple(length / OFF for length in mixtures.MINOR[:3]) + (90.0,) * 3, "cubic", "P"),
]


def test_both_cells_shifts_and_shares_are_found_within_their_errors() -> None:
    pattern = mixtures.two_phases()
    result = refine_phases(pattern.two_theta, pattern.intensity, PHASES, wavelength=mixtures.WAVELENGTH)
    for fit, cell in zip(result.fits, (mixtures.MAJOR, mixtures.MINOR), strict=True):
        assert np.abs(np.subtract(fit.cell, cell)[:3]).max() < 4 * max(fit.errors[:3]) < 0.01
        assert fit.shifts_at(np.array([20.0, 40.0, 60.0])) == pytest.approx(mixtures.ZERO, abs=0.01)
        assert fit.chi2 == pytest.approx(1.0, abs=0.1)
    shares = [fit.share for fit in result.fits]
    assert shares == pytest.approx([mixtures.SHARE, 1 - mixtures.SHARE], abs=0.02)
    assert sum(shares) == pytest.approx(1.0)


def test_a_phase_has_its_own_reflections_and_all_share_one_curve() -> None:
    pattern = mixtures.two_phases()
    result = refine_phases(pattern.two_theta, pattern.intensity, PHASES, wavelength=mixtures.WAVELENGTH)
    first, second = result.fits
    assert np.array_equal(first.calculated, second.calculated)
    assert len(first.hkl) + len(second.hkl) == len(result.phase)
    assert (np.bincount(result.phase) == [len(first.hkl), len(second.hkl)]).all()
    assert (np.diff(second.positions) > 0).all()


def test_one_phase_is_refined_as_before() -> None:
    pattern = mixtures.two_phases(1.0)
    lattice = PHASES[0]
    one = refine_phases(pattern.two_theta, pattern.intensity, [lattice], wavelength=mixtures.WAVELENGTH).fits[0]
    fit = refine(
        pattern.two_theta, pattern.intensity, lattice.cell, wavelength=mixtures.WAVELENGTH, system=lattice.system
    )  # fmt: skip
    assert one.cell == fit.cell
    assert one.share == 1.0
    assert np.array_equal(one.calculated, fit.calculated)


def test_the_range_ends_where_one_phase_has_too_many_reflections() -> None:
    limits = mixtures.LIMITS
    every = find_reflections(PHASES, mixtures.WAVELENGTH, limits, 1000)
    few = find_reflections(PHASES, mixtures.WAVELENGTH, limits, 30)
    assert every.complete
    assert not few.complete
    assert np.bincount(few.phase).max() == 30
    assert np.array_equal(few.angles, every.angles[: len(few.angles)])
    assert few.form @ few.first == pytest.approx(
        np.square(2 * np.sin(np.radians(few.angles / 2)) / mixtures.WAVELENGTH)
    )


def test_an_invalid_cell_of_any_phase_is_an_error_of_one_line() -> None:
    pattern = mixtures.two_phases()
    with pytest.raises(InputError, match="not cubic") as error:
        refine_phases(
            pattern.two_theta, pattern.intensity, [PHASES[0], Lattice(mixtures.MAJOR, "cubic", "P")],
            wavelength=mixtures.WAVELENGTH,
        )  # fmt: skip
    assert "\n" not in str(error.value)
