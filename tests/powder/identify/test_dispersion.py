"""Anomalous dispersion changes intensities as the sums over the atoms say."""

import numpy as np
import pytest
import torch

from tests.powder.identify.crystals import crystal
from vitreous.powder.identify.dispersion import copper_lines, scattering_ratio
from vitreous.powder.radiation import ANODES, CU_KALPHA1
from vitreous.powder.sim.structure import form_factors, structure_lines

gemmi = pytest.importorskip("gemmi")
ENERGY = 12398.42 / CU_KALPHA1


def scattering(element, s):
    """f + f' + i f'' with Cu Kα."""
    real, imaginary = gemmi.cromer_liberman(z=gemmi.Element(element).atomic_number, energy=ENERGY)
    return form_factors([element], s)[:, 0] + complex(real, imaginary)


def test_intensities_of_halite_are_those_of_complex_form_factors(tmp_path):
    structure = crystal(tmp_path, "halite")
    lines = copper_lines(structure, 0.9)
    first, second = (scattering(name, lines.s) for name in ("Na", "Cl"))
    even = (lines.hkl[:, 0] % 2 == 0).double()  # both atoms in phase, otherwise in antiphase
    damping = torch.exp(-(lines.s**2) / 2)  # B = 1 Å² on |F|²
    expected = 16 * (first + (2 * even - 1) * second).abs() ** 2 * damping
    plain = structure_lines(structure, 0.9)
    multiplicity = plain.intensity / (
        16 * (form_factors(["Na"], plain.s)[:, 0] + (2 * even - 1) * form_factors(["Cl"], plain.s)[:, 0]) ** 2 * damping
    )
    np.testing.assert_allclose(multiplicity, multiplicity.round(), atol=1e-6)
    np.testing.assert_allclose(lines.intensity, multiplicity * expected, rtol=1e-6)


def test_iron_scatters_less_of_copper_than_of_molybdenum_radiation():
    assert scattering_ratio("Fe2O3", CU_KALPHA1) == 1
    assert scattering_ratio("Fe2O3", ANODES["Mo"][0]) > 1.01
    assert scattering_ratio("", 0.7) == 1
