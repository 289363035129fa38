"""The prior of lattices is a density over volumes, and ordinary lattices are likelier than rare ones."""

import math

import numpy as np
import pytest

from vitreous.powder.lattice_prior import BRAVAIS_LATTICES, LOG_VOLUMES, bravais_name, log_prior
from vitreous.powder.sim import space_groups


def test_the_densities_of_all_lattices_add_up_to_one() -> None:
    volumes = np.exp(LOG_VOLUMES)
    density = sum(np.exp([log_prior(*name.split(), volume) for volume in volumes]) for name in BRAVAIS_LATTICES)
    assert np.trapezoid(density, LOG_VOLUMES) * math.exp(-log_of_typical()) == pytest.approx(1.0, abs=0.05)


def log_of_typical() -> float:
    """The density that counts as 1, from the share of the commonest lattice at its commonest volume."""
    return -math.log(0.02)


@pytest.mark.parametrize("number", range(1, 231))
def test_every_space_group_has_a_lattice_of_the_table(number: int) -> None:
    assert bravais_name(space_groups.system_of(number), space_groups.centring(number)) in BRAVAIS_LATTICES


def test_a_primitive_cubic_cell_for_one_small_atom_is_unlikely() -> None:
    assert log_prior("cubic", "F", 16.0) > log_prior("cubic", "P", 16.0) + 2


def test_large_cells_are_those_of_organic_crystals() -> None:
    assert log_prior("monoclinic", "P", 1500.0) > log_prior("cubic", "P", 1500.0) + 2
