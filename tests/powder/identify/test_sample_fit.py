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

STEP = 1e-6


def lines_of(folder, name, scale=1.0):
    entry = entry_of(crystal(folder, name, scale), name, "", name)
    return PhaseLines(entry, CU_KALPHA1, 15.0, 80.0)


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
