"""The lines of a phase and their derivatives, and what a fit of known phases finds."""

import numpy as np
import pytest

from tests.powder.identify.crystals import NAMES, crystal
from tests.powder.identify.samples import sample
from vitreous.powder.identify.entry import entry_of
from vitreous.powder.identify.measured import prepare
from vitreous.powder.identify.phase_lines import PhaseLines
from vitreous.powder.identify.retrieval import pattern_peaks
from vitreous.powder.identify.sample_fit import first_state, fit_sample, with_errors, with_phase
from vitreous.powder.radiation import CU_KALPHA1
from vitreous.powder.sim.structure_files import read_cif

STEP = 1e-6
CELL_TAGS = ("length_a", "length_b", "length_c", "angle_alpha", "angle_beta", "angle_gamma")
CALCITE = (  # the same crystal in hexagonal and in rhombohedral axes
    ((4.9896, 4.9896, 17.061, 90, 90, 120), "R -3 c", "Ca 0 0 0\nC 0 0 0.25\nO 0.2578 0 0.25"),
    ((6.37500, 6.37500, 6.37500, 46.0759, 46.0759, 46.0759), "R -3 c:R",
     "Ca 0 0 0\nC 0.25 0.25 0.25\nO 0.5078 -0.0078 0.25"),
)  # fmt: skip
BADDELEYITE = (  # with b and with c as the unique axis
    ((5.15, 5.21, 5.32, 90, 99.2, 90), "P 1 21/c 1", "Zr 0.275 0.040 0.208\nO 0.07 0.332 0.345"),
    ((5.32, 5.15, 5.21, 90, 90, 99.2), "P 1 1 21/a", "Zr 0.208 0.275 0.040\nO 0.345 0.07 0.332"),
)


def lines_of(folder, name, scale=1.0):
    entry = entry_of(crystal(folder, name, scale), name, "", name)
    return PhaseLines(entry, CU_KALPHA1, 15.0, 80.0)


def lines_in_setting(folder, cell, group, atoms):
    rows = ["data_x", *(f"_cell_{tag} {x}" for tag, x in zip(CELL_TAGS, cell, strict=True))]
    rows += [f"_symmetry_space_group_name_H-M '{group}'", "loop_", "_atom_site_label"]
    (folder / "x.cif").write_text("\n".join([*rows, *(f"_atom_site_fract_{axis}" for axis in "xyz"), atoms, ""]))
    return PhaseLines(entry_of(read_cif(folder / "x.cif", b_iso=1.0), "x", "", "x"), CU_KALPHA1, 15.0, 80.0)


@pytest.mark.parametrize("settings", [CALCITE, BADDELEYITE])
def test_texture_and_free_cell_do_not_depend_on_the_setting(tmp_path, settings):
    first, second = (lines_in_setting(tmp_path, *setting) for setting in settings)
    assert len(first.forms) == len(second.forms) > 1
    np.testing.assert_allclose(patterns_of_textures(first), patterns_of_textures(second), rtol=1e-3, atol=1e-3)


def patterns_of_textures(lines):
    """The pattern of each kind of preferred orientation, with lines 0.2° wide, in the order of their sums."""
    x, patterns = np.arange(15.0, 80.0, 0.05)[:, None], []
    for kind in range(len(lines.textures)):
        placed = lines.placed(np.zeros(len(lines.forms)), -0.4, kind, 0.0)
        patterns.append(np.exp(-(((x - placed.angle) / 0.2) ** 2)) @ placed.area)
    return sorted((pattern / lines.intensity.max() for pattern in patterns), key=np.sum)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_of_lines_are_those_of_small_steps(tmp_path, name):
    lines = lines_of(tmp_path, name)
    change = np.full(len(lines.forms), 0.002)
    for texture in range(len(lines.textures)):
        placed = lines.placed(change, 0.2, texture, 0.1)
        for k, row in enumerate(np.eye(len(change))):
            moved = lines.placed(change + STEP * row, 0.2, texture, 0.1)
            slope = (moved.angle - placed.angle) / STEP
            np.testing.assert_allclose(placed.angle_by_metric[:, k], slope, rtol=1e-3, atol=1e-3)
        turned = lines.placed(change, 0.2 + STEP, texture, 0.1)
        np.testing.assert_allclose(placed.area_by_texture, (turned.area - placed.area) / STEP, rtol=1e-3, atol=1e-2)
        shaken = lines.placed(change, 0.2, texture, 0.1 + STEP)
        np.testing.assert_allclose(placed.area_by_vibration, (shaken.area - placed.area) / STEP, rtol=1e-3, atol=1e-2)


def test_without_texture_every_kind_of_it_is_the_same(tmp_path):
    lines = lines_of(tmp_path, "quartz")
    first, *others = (lines.placed(np.zeros(2), 0.0, kind, 0.0).area for kind in range(len(lines.textures)))
    for area in others:
        np.testing.assert_allclose(area, first, rtol=1e-9)


def test_a_strain_lengthens_the_cell(tmp_path):
    for name in NAMES:
        lines = lines_of(tmp_path, name)
        cell = lines.cell(lines.strained(0.01))
        np.testing.assert_allclose(cell[:3], 1.01 * np.array(lines.entry.cell[:3]), rtol=1e-9)
        np.testing.assert_allclose(cell[3:], lines.entry.cell[3:], atol=1e-6)


def test_a_fit_finds_the_cell_of_the_sample(tmp_path):
    pattern = sample(tmp_path, {"quartz": 0.6, "fluorite": 0.4})
    measured = prepare(pattern, pattern_peaks(pattern))
    state = first_state(measured)
    for name, scale in (("quartz", 1.003), ("fluorite", 0.996)):  # as another composition would have it
        state = with_phase(state, lines_of(tmp_path, name, scale))
    fit = with_errors(measured, fit_sample(measured, state, steps=20))
    for phase, place, a in zip(fit.state.phases, fit.places, (4.914, 5.4631), strict=True):
        error = phase.lines.cell_errors(phase.change, fit.covariance[place, place])[0]
        assert abs(phase.lines.cell(phase.change)[0] - a) < 4 * error + 1e-3 * 0.5
    assert fit.cost / len(measured.x) < 1.3
