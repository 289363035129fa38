"""The CIF of a cell: what gemmi, our own reader and rietx read from it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.powder.projects.conftest import Refined
from vitreous.powder.files import read_pattern

gemmi = pytest.importorskip("gemmi")


def block_of(refined: Refined) -> Any:
    return gemmi.cif.read_string(refined.solution.to_cif(profile=True)).sole_block()


def test_gemmi_reads_cell_and_space_group(thiosulfate: Refined) -> None:
    structure = gemmi.make_small_structure_from_block(block_of(thiosulfate))
    assert thiosulfate.solution.fit is not None
    assert structure.cell.parameters == pytest.approx(thiosulfate.solution.fit.cell, rel=1e-5)
    assert structure.spacegroup.xhm() == "P 1 21/c 1"
    words = block_of(thiosulfate).find_values("_space_group_symop_operation_xyz")
    operations = [gemmi.Op(gemmi.cif.as_string(word)) for word in words]
    assert gemmi.find_spacegroup_by_ops(gemmi.GroupOps(operations)).number == 14


def test_the_space_group_is_marked_as_a_choice(thiosulfate: Refined) -> None:
    details = gemmi.cif.as_string(block_of(thiosulfate).find_value("_space_group_special_details"))
    assert details.startswith("extinction symbol P 1 21/c 1")
    assert "is a choice" in details


def test_reflections_follow_from_the_cell(triclinic: Refined) -> None:
    fit, block = triclinic.solution.fit, block_of(triclinic)
    assert fit is not None
    table = block.find(
        ["_refln_index_h", "_refln_index_k", "_refln_index_l", "_refln_d_spacing", "_refln_intensity_meas"]
    )
    rows = np.array([[float(word) for word in row] for row in table])
    np.testing.assert_array_equal(rows[:, :3], fit.hkl)
    np.testing.assert_allclose(rows[:, 4], fit.intensities, rtol=1e-4)
    cell = gemmi.UnitCell(*fit.cell)
    np.testing.assert_allclose(rows[:, 3], [cell.calculate_d(hkl) for hkl in fit.hkl.tolist()], rtol=1e-5)
    angles = [float(word) for word in block.find_values("_pd_peak_2theta_centroid")]
    np.testing.assert_allclose(angles, fit.positions, atol=1e-5)
    assert list(block.find_values("_pd_peak_id")) == list(block.find_values("_pd_refln_peak_id"))


def test_our_reader_reads_the_measured_profile(triclinic: Refined, tmp_path: Path) -> None:
    path, fit = tmp_path / "cell.cif", triclinic.solution.fit
    path.write_text(triclinic.solution.to_cif(profile=True))
    pattern = read_pattern(path)
    assert fit is not None
    assert pattern.sigma is not None
    np.testing.assert_allclose(pattern.two_theta, fit.two_theta, atol=1e-5)
    np.testing.assert_allclose(pattern.intensity, fit.observed, rtol=1e-6)
    np.testing.assert_allclose(pattern.sigma, fit.sigma, rtol=1e-5)
    assert (pattern.wavelength, pattern.wavelength2) == (triclinic.pattern.wavelength, triclinic.pattern.wavelength2)
    assert pattern.ratio == pytest.approx(fit.profile.shape.ratio, abs=1e-4)


def test_rietx_reads_the_measured_profile(thiosulfate: Refined, tmp_path: Path) -> None:
    rietx = pytest.importorskip("rietx")
    path, fit = tmp_path / "cell.cif", thiosulfate.solution.fit
    path.write_text(thiosulfate.solution.to_cif(profile=True))
    data = rietx.read_pdcif(path)
    assert fit is not None
    np.testing.assert_allclose(data.intensity, fit.observed, rtol=1e-5)
    np.testing.assert_allclose(data.sigma, fit.sigma, rtol=1e-5)


def test_the_calculated_profile_gives_the_stated_rwp(thiosulfate: Refined) -> None:
    block = block_of(thiosulfate)
    names = ("proc_intensity_total", "calc_intensity_total", "proc_ls_weight")
    observed, calculated, weight = (np.array([float(v) for v in block.find_values(f"_pd_{name}")]) for name in names)
    rwp = np.sqrt(np.sum(weight * (observed - calculated) ** 2) / np.sum(weight * observed**2))
    assert float(block.find_value("_pd_proc_ls_prof_wR_factor")) == pytest.approx(rwp, abs=1e-4)


def test_without_the_profile_it_is_a_cell_only(thiosulfate: Refined) -> None:
    text = thiosulfate.solution.to_cif()
    assert len(text) < 1500
    assert "loop_" not in text
    unrefined = replace(thiosulfate.solution, fit=None)
    assert unrefined.to_cif(profile=True) == unrefined.to_cif()
