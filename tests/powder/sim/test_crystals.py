"""Random crystals: cells are reduced and like real ones, lines are those that gemmi's symmetry leaves."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.data.builtin import data_folder
from vitreous.powder.cell import check_cell
from vitreous.powder.reduction import is_niggli_reduced
from vitreous.powder.sim.crystals import Crystals, random_cells, random_crystals
from vitreous.powder.sim.space_groups import SYSTEMS, centrosymmetric, system_of

S_MAX = 0.6  # 1/Å
CELLS = data_folder() / "crystals" / "cells.npz"


@pytest.fixture(scope="module")
def gemmi():  # type: ignore[no-untyped-def]
    return pytest.importorskip("gemmi")


def of(crystals: Crystals, which: int) -> NDArray[np.float64]:
    """1/d of one crystal's lines, sorted."""
    lines = crystals.lines
    return np.sort(lines.s[lines.owner == which].double().numpy())


def enumerated(gemmi: Any, cell: list[float], number: int, s_max: float) -> NDArray[np.float64]:
    """1/d of every reflection that the group does not extinguish, each value once, sorted."""
    axes = [np.arange(-int(length * s_max) - 1, int(length * s_max) + 2) for length in cell[:3]]
    hkl = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3).astype(np.int32)
    hkl = hkl[hkl.any(1)]
    group = gemmi.get_spacegroup_reference_setting(number).operations()
    hkl = hkl[~group.systematic_absences(hkl)]
    s = np.sort(np.sqrt(gemmi.UnitCell(*cell).calculate_1_d2_array(hkl)))
    s = s[s < s_max]
    return s[np.diff(s, prepend=-1.0) > 1e-7]


@pytest.mark.parametrize("system", SYSTEMS)
def test_lines_are_exactly_the_reflections_of_the_space_group(system: str, gemmi) -> None:  # type: ignore[no-untyped-def]
    crystals = random_crystals(system, 12, S_MAX)
    for which in range(12):
        cell, number = crystals.cell[which].tolist(), int(crystals.group[which])
        assert system_of(number) == system
        expected = enumerated(gemmi, cell, number, S_MAX)
        result = of(crystals, which)
        inner, outer = expected[expected < S_MAX - 1e-4], result[result < S_MAX - 1e-4]  # rounding decides at the end
        assert np.abs(outer[:, None] - inner).min(1).max(initial=0) < 2e-6  # each line is expected,
        assert np.abs(inner[:, None] - outer).min(1).max(initial=0) < 2e-6  # and each expected line is present


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_line_appears_once(system: str, gemmi) -> None:  # type: ignore[no-untyped-def]
    crystals = random_crystals(system, 6, S_MAX)
    for which in range(6):
        expected = enumerated(gemmi, crystals.cell[which].tolist(), int(crystals.group[which]), S_MAX - 1e-4)
        result = of(crystals, which)
        result = result[result < S_MAX - 1e-4]
        if system == "cubic":  # 300 and 221 have one d by arithmetic, not by symmetry
            assert len(expected) <= len(result) <= 1.3 * len(expected) + 3
        else:
            assert len(result) - len(expected) <= 0.02 * len(expected) + 1


@pytest.mark.parametrize("system", ["cubic", "triclinic"])
def test_the_largest_axes_have_all_their_lines(system: str, gemmi) -> None:  # type: ignore[no-untyped-def]
    crystals = random_crystals(system, 400, 0.3)
    which = int(crystals.cell[:, 2].argmax())
    expected = enumerated(gemmi, crystals.cell[which].tolist(), int(crystals.group[which]), 0.3 - 1e-4)
    assert np.abs(expected[:, None] - of(crystals, which)).min(1).max() < 2e-6


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_seed_determines_the_crystals(system: str) -> None:
    results = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        results.append(random_crystals(system, 4, S_MAX))
    first, again, other = results
    assert torch.equal(first.cell, again.cell)
    assert torch.equal(first.group, again.group)
    assert torch.equal(first.lines.intensity, again.lines.intensity)
    assert not torch.equal(first.cell, other.cell)


def test_triclinic_cells_are_reduced_according_to_gemmi(gemmi) -> None:  # type: ignore[no-untyped-def]
    cells = random_cells("triclinic", 300)
    assert is_niggli_reduced(cells).all()
    for cell in cells.double().tolist():
        vector = gemmi.GruberVector(gemmi.UnitCell(*cell), None)
        vector.niggli_reduce(1e-4)
        assert vector.cell_parameters() == pytest.approx(cell, abs=1e-3)


def test_half_of_the_triclinic_cells_are_acute() -> None:
    angles = random_cells("triclinic", 4000)[:, 3:]
    acute, obtuse = (angles < 90).all(1), (angles >= 90).all(1)
    assert (acute | obtuse).all()
    assert acute.float().mean().item() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_cell_is_valid_and_of_its_system(system: str) -> None:
    cells = random_cells(system, 200)
    for cell in cells.tolist():
        check_cell(cell)
    a, b, c, alpha, beta, gamma = cells.unbind(1)
    if system in ("cubic", "tetragonal", "trigonal", "hexagonal"):
        assert torch.equal(a, b)
    if system == "cubic":
        assert torch.equal(a, c)
    if system not in ("triclinic", "monoclinic"):
        assert (beta == 90).all()
    if system != "triclinic":
        assert (alpha == 90).all()
        assert (gamma == (120 if system in ("trigonal", "hexagonal") else 90)).all()


@pytest.mark.skipif(not CELLS.exists(), reason=f"the real cells are not here: {CELLS}")
@pytest.mark.parametrize("system", SYSTEMS)
def test_lengths_have_the_statistics_of_real_cells(system: str) -> None:
    with np.load(CELLS, allow_pickle=False) as real:
        same = np.array([system_of(int(n)) == system for n in real["spacegroup"]])
        reference = real["niggli" if system == "triclinic" else "conventional"][same]
    if system == "trigonal":
        reference = reference[np.abs(reference[:, 3] - 90) < 0.01]  # hexagonal axes
    results = random_cells(system, 4000).numpy()
    np.testing.assert_allclose(np.median(results[:, :3], axis=0), np.median(reference[:, :3], axis=0), rtol=0.1)
    if system in ("triclinic", "monoclinic"):
        lean = np.abs(reference[:, 3:] - 90).max(1)
        assert np.median(np.abs(results[:, 3:] - 90).max(1)) == pytest.approx(np.median(lean), rel=0.25)


def test_intensities_follow_wilsons_statistics() -> None:
    """<I²> / <I>² of one shell is 2 without a centre and 3 with one."""
    crystals = random_crystals("monoclinic", 1500, 0.25)  # where the fall with angle matters little
    lines = crystals.lines
    centric = torch.tensor([centrosymmetric(int(n)) for n in crystals.group])[lines.owner]
    for with_centre, ratio in ((True, 3.0), (False, 2.0)):
        strength = lines.intensity[centric == with_centre]
        assert len(strength) > 1000
        assert (strength.square().mean() / strength.mean().square()).item() == pytest.approx(ratio, rel=0.12)


@pytest.mark.parametrize("system", SYSTEMS)
def test_tilts_are_squared_cosines_to_the_reciprocal_axes(system: str) -> None:
    crystals = random_crystals(system, 3, S_MAX)
    lines = crystals.lines
    assert lines.tilt.shape == (len(lines.s), 3)
    assert lines.tilt.min() >= 0
    assert lines.tilt.max() <= 1 + 1e-4
    if system in ("cubic", "tetragonal", "orthorhombic"):  # three axes at right angles
        torch.testing.assert_close(lines.tilt.sum(1), torch.ones(len(lines.s)), atol=1e-4, rtol=0)
    torch.testing.assert_close(lines.directions.sum(1), torch.ones(len(lines.directions)))


@pytest.mark.parametrize("s_max", [0.0, -1.0, 3.0, math.nan])
def test_a_range_without_lines_or_with_too_many_is_refused(s_max: float) -> None:
    with pytest.raises(InputError, match=r"s_max: found .*, expected 0 to 2 per ångström"):
        random_crystals("cubic", 1, s_max)


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(InputError, match="system: unknown choice 'rhombic'"):
        random_crystals("rhombic", 1, S_MAX)
