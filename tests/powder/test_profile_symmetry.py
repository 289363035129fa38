"""Symmetry from the raw profile: probabilities that add up, do not depend on units, and agree with cells."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from vitreous.core.errors import InputError
from vitreous.powder.indexing import IndexOptions, index_pattern
from vitreous.powder.pattern import Pattern
from vitreous.powder.profile_symmetry import ProfileSymmetry, predict_symmetry
from vitreous.powder.sim.effects import Effects
from vitreous.powder.sim.simulate import crystal_from_cell, simulate_pattern
from vitreous.powder.sim.space_groups import SYSTEMS
from vitreous.powder.sim.symmetry_source import extinction_groups, symmetry_samples

WAVELENGTH = 1.540598
SALT = (5.6402,) * 3 + (90.0,) * 3


def salt(counts: float = 1e4) -> Pattern:
    """A cubic crystal as a laboratory measures it."""
    torch.manual_seed(3)
    effects = Effects(counts=(counts, counts))
    return simulate_pattern(crystal_from_cell(SALT, 225, effects.s_max), effects)


def amorphous() -> Pattern:
    x = np.linspace(5, 90, 4000)
    hump = 1000 * np.exp(-(((x - 25) / 6) ** 2)) + 50
    return Pattern(x, np.random.default_rng(0).poisson(hump).astype(float), None, WAVELENGTH, "glass")


def test_probabilities_of_systems_and_of_groups_add_up_to_one() -> None:
    symmetry = predict_symmetry(salt())
    assert sum(symmetry.systems.values()) == pytest.approx(1)
    assert sum(share for _, share in symmetry.groups) == pytest.approx(1)
    for system in SYSTEMS:
        shares = [share for group, share in symmetry.groups if group.system == system]
        assert sum(shares) == pytest.approx(symmetry.systems[system], abs=1e-9)


def test_a_cubic_crystal_is_cubic() -> None:
    symmetry = predict_symmetry(salt())
    assert symmetry.system == "cubic"
    assert symmetry.systems["cubic"] > 0.8
    assert symmetry.text.startswith("cubic ")
    assert any(225 in group.groups for group, _ in symmetry.groups[:2])


@pytest.mark.parametrize("unit", [1e300, 1e-300, 7.0])
def test_the_unit_of_intensity_does_not_matter(unit: float) -> None:
    pattern = salt()
    known, other = (
        predict_symmetry(replace(pattern, intensity=pattern.intensity * factor)).systems for factor in (1.0, unit)
    )
    assert list(other.values()) == pytest.approx(list(known.values()), abs=1e-4)


def test_a_pattern_outside_the_range_of_the_model_is_refused_in_one_line() -> None:
    x = np.linspace(100, 120, 500)
    pattern = Pattern(x, np.sin(x) + 2, None, WAVELENGTH, "far")
    with pytest.raises(InputError, match=r"far: found no intensity between q = .*Å⁻¹") as fault:
        predict_symmetry(pattern)
    assert "\n" not in str(fault.value)


def test_the_profile_supports_the_lattices_of_its_system() -> None:
    symmetry = predict_symmetry(salt())
    assert symmetry.support("cubic", "F") > 0 > symmetry.support("monoclinic", "P")
    # a primitive hexagonal lattice is that of trigonal crystals, too; a rhombohedral one is theirs alone
    shares = dict.fromkeys(SYSTEMS, 0.0) | {"trigonal": 1.0}
    trigonal = ProfileSymmetry(shares, tuple((group, 0.0) for group in extinction_groups()))
    assert trigonal.support("hexagonal", "R") > trigonal.support("hexagonal", "P") > 0


def test_a_likely_cell_decides_where_the_profile_is_unsure() -> None:
    unsure = ProfileSymmetry(dict.fromkeys(SYSTEMS, 1 / 7), tuple((g, 1 / 99) for g in extinction_groups()))
    solutions = index_pattern(salt(), IndexOptions(hints=False, refine=False)).solutions
    assert solutions[0].probability > 0.5
    joint = unsure.with_solutions(solutions)
    assert joint.system == "cubic"
    assert sum(joint.systems.values()) == pytest.approx(1)
    assert joint.groups[0][0].system == "cubic"


def test_a_pattern_without_a_cell_has_a_symmetry_of_its_own() -> None:
    result = index_pattern(amorphous())
    assert result.solutions == []
    assert result.symmetry is not None
    assert max(result.symmetry.systems.values()) < 0.9  # a glass has none
    assert any("symmetry by the whole profile" in remark for remark in result.remarks)
    assert set(result.to_dict()["symmetry"]["systems"]) == set(SYSTEMS)


def test_the_symmetry_of_a_likely_cell_is_told_only_on_request() -> None:
    assert index_pattern(salt(), IndexOptions(phases=1)).symmetry is None
    asked = index_pattern(salt(), IndexOptions(phases=1, symmetry=True)).symmetry
    assert asked is not None
    assert asked.system == "cubic"


def test_extinction_groups_share_out_the_space_groups_of_real_crystals() -> None:
    numbers = [number for group in extinction_groups() for number in group.groups]
    assert len(numbers) == len(set(numbers))
    assert {group.system for group in extinction_groups()} == set(SYSTEMS)
    together = next(group for group in extinction_groups() if 14 in group.groups)
    assert together.groups == (14,)  # the absences of P21/c are those of no other group
    assert any({33, 62} <= set(group.groups) for group in extinction_groups())  # Pna21 and Pnma


def test_samples_depend_on_the_seed_alone_and_cover_every_system() -> None:
    draws = []
    for _ in range(2):
        torch.manual_seed(4)
        draws.append(symmetry_samples(14))
    (x, y), (again, same) = draws
    assert torch.equal(x, again)
    assert torch.equal(y, same)
    assert x.shape == (14, 1, 4500)
    systems = [extinction_groups()[place].system for place in y.tolist()]
    assert sorted(set(systems)) == sorted(SYSTEMS)
    assert all(systems.count(system) == 2 for system in SYSTEMS)
    assert (x >= 0).all()
    assert (x.amax((1, 2)) > 0).all()
