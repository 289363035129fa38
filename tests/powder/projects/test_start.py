"""The start of a refinement describes the pattern as the fit does."""

from dataclasses import replace

import numpy as np
import pytest

from tests.powder.projects.conftest import Refined, without_range
from vitreous.core.errors import InputError
from vitreous.powder.bragg import two_theta_from_s
from vitreous.powder.cell import metrics_of
from vitreous.powder.projects import refinement_start
from vitreous.powder.refinement.shifts import shift_functions


def test_cell_and_shifts_give_the_positions_of_the_lines(thiosulfate: Refined) -> None:
    start, fit = refinement_start(*thiosulfate), thiosulfate.solution.fit
    assert fit is not None
    inverse = np.linalg.inv(metrics_of([start.cell])[0])
    angles = two_theta_from_s(np.sqrt(np.einsum("ni,ij,nj->n", fit.hkl, inverse, fit.hkl)), start.wavelength)
    calculated = angles + shift_functions(np.radians(angles / 2)) @ np.array(start.shifts)
    assert np.abs(calculated - fit.positions).max() < 0.2 * fit.profile.width(fit.positions).min()


def test_the_data_are_the_whole_pattern_and_the_rest_is_excluded(thiosulfate: Refined) -> None:
    solution, pattern = thiosulfate
    start = refinement_start(solution, pattern)
    np.testing.assert_array_equal(start.two_theta, pattern.two_theta)
    np.testing.assert_allclose(start.intensity, pattern.intensity)
    assert solution.fit is not None
    used = np.ones(len(start.two_theta), dtype=bool)
    for low, high in start.excluded:
        used &= (start.two_theta < low) | (start.two_theta > high)
    np.testing.assert_array_equal(start.two_theta[used], solution.fit.two_theta)


def test_a_gap_in_the_fit_is_excluded(thiosulfate: Refined) -> None:
    gap, rest = refinement_start(*without_range(thiosulfate, 10, 11)).excluded
    assert gap == pytest.approx((10, 11), abs=0.01)
    assert rest[1] == thiosulfate.pattern.two_theta[-1]


def test_without_the_pattern_the_data_are_those_of_the_fit(thiosulfate: Refined) -> None:
    solution, pattern = thiosulfate
    other = replace(pattern, two_theta=pattern.two_theta + 0.001)
    for start in (refinement_start(solution), refinement_start(solution, other)):
        assert solution.fit is not None
        np.testing.assert_array_equal(start.two_theta, solution.fit.two_theta)
        assert start.excluded == ()


def test_the_background_is_that_of_the_fit(triclinic: Refined) -> None:
    start, fit = refinement_start(*triclinic), triclinic.solution.fit
    assert fit is not None
    scaled = np.interp(fit.two_theta, start.limits, (-1, 1))
    noise = np.median(fit.sigma)
    assert np.abs(np.polynomial.chebyshev.chebval(scaled, start.chebyshev()) - fit.background).max() < noise
    assert np.abs(np.interp(fit.two_theta, *start.background_points()) - fit.background).max() < noise


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_very_small_and_large_intensities_are_scaled_together(scale: float, triclinic: Refined) -> None:
    solution = triclinic.solution
    assert solution.fit is not None
    names = ("observed", "background", "sigma")
    fit = replace(solution.fit, **{name: getattr(solution.fit, name) * scale for name in names})
    start = refinement_start(replace(solution, fit=fit))
    assert 10 <= start.intensity.max() < 1e7
    np.testing.assert_allclose(start.intensity / start.sigma, fit.observed / fit.sigma)


def test_the_space_group_is_the_likeliest(thiosulfate: Refined) -> None:
    start = refinement_start(thiosulfate.solution)
    assert (start.group.name, start.group.number, start.group.short_name) == ("P 1 21/c 1", 14, "P21/c")


@pytest.mark.parametrize(
    ("system", "centring", "name"),
    [
        ("triclinic", "P", "P -1"), ("monoclinic", "C", "C 1 2/m 1"), ("orthorhombic", "F", "F m m m"),
        ("tetragonal", "I", "I 4/m"), ("hexagonal", "R", "R -3"), ("hexagonal", "P", "P -3"), ("cubic", "F", "F m -3"),
    ],
)  # fmt: skip
def test_without_symbols_the_group_has_no_absences_but_those_of_the_lattice(
    system: str, centring: str, name: str, triclinic: Refined
) -> None:
    gemmi = pytest.importorskip("gemmi")
    solution = replace(triclinic.solution, symbols=(), system=system, centring=centring)
    group = refinement_start(solution).group
    assert group.name == name
    space_group = gemmi.find_spacegroup_by_name(name)
    assert group.number == space_group.number
    assert space_group.is_symmorphic()
    assert space_group.is_centrosymmetric()


def test_a_cell_without_a_refinement_is_refused(triclinic: Refined) -> None:
    with pytest.raises(InputError, match="solution: found no refinement on the whole pattern"):
        refinement_start(replace(triclinic.solution, fit=None))
