"""Indexing: the cell of simulated crystals comes back in every system; invalid lists of lines are reported."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.users import python
from vitreous.core.errors import InputError
from vitreous.powder import index, index_peaks
from vitreous.powder.lattice import niggli, primitive, same_lattice
from vitreous.powder.merit import de_wolff, evidence
from vitreous.powder.observed_lines import observe_lines, refine_on_lines
from vitreous.powder.reciprocal import cell_from_reciprocal, metric_from_cell, reflection_basis
from vitreous.powder.search import candidates_from_proposals
from vitreous.powder.sim.effects import CLEAN, Effects
from vitreous.powder.sim.measurement import measure
from vitreous.powder.sim.simulate import crystal_from_cell, simulate_pattern
from vitreous.powder.sim.structure import Structure, simulator_lines
from vitreous.powder.trial_cells import trial_cells
from vitreous.powder.tuning import SEARCH_TUNING

WAVELENGTH = 1.540598
CELLS = {
    "cubic": ((5.6402,) * 3 + (90.0,) * 3, "F"),
    "tetragonal": ((4.5937, 4.5937, 2.9587, 90.0, 90.0, 90.0), "P"),
    "hexagonal": ((4.9134, 4.9134, 5.4052, 90.0, 90.0, 120.0), "P"),
    "orthorhombic": ((4.76, 10.21, 5.99, 90.0, 90.0, 90.0), "P"),
    "monoclinic": ((5.68, 15.20, 6.52, 90.0, 118.4, 90.0), "P"),
    "triclinic": ((5.15, 6.37, 7.42, 78.2, 83.9, 71.3), "P"),
}


def angles(system: str, centring: str, cell: tuple[float, ...], count: int = 24) -> np.ndarray:
    """The first lines of a lattice, in degrees."""
    x = metric_from_cell(system, torch.tensor([cell], dtype=torch.float64))[0]
    q = (reflection_basis(system, centring, (9, 9, 9)) @ x).unique()[:count]
    q = q[q < 4 / WAVELENGTH**2 * 0.9]
    return 2 * np.degrees(np.arcsin(q.sqrt().numpy() * WAVELENGTH / 2))


@pytest.mark.parametrize("system", CELLS)
def test_the_cell_comes_back_from_its_lines(system: str) -> None:
    cell, centring = CELLS[system]
    rng = np.random.default_rng(0)
    lines = angles(system, centring, cell)
    seen = np.sort(rng.permutation(len(lines))[: len(lines) - 3])  # three are too weak
    measured = lines[seen] + rng.normal(0, 0.005, len(seen)) + 0.02
    best = index_peaks(measured, wavelength=WAVELENGTH, error=np.full(len(seen), 0.006))[0]
    assert same_lattice(best.cell, niggli(primitive(np.array([cell]), centring))[0], 2e-3)
    assert best.system == system
    assert best.m20 > 20
    assert best.probability > 0.5
    assert best.zero == pytest.approx(0.02, abs=0.02)


def test_a_measured_pattern_is_indexed() -> None:
    identity = np.eye(3, dtype=np.int64)[None], np.zeros((1, 3))
    rng = np.random.default_rng(1)
    cell = CELLS["orthorhombic"][0]
    crystal = Structure(
        "random atoms", cell, identity, ("Si", "O", "O", "Ca"), rng.random((4, 3)), np.ones(4), np.ones(4), 1
    )
    torch.manual_seed(0)
    effects = Effects(**(CLEAN.to_dict() | {"counts": (1e5, 1e5), "background": (0.02, 0.02)}))
    pattern = measure(simulator_lines(crystal, effects.s_max), effects)[0].numpy()
    best = index(effects.angles().numpy(), pattern, wavelength=WAVELENGTH)[0]
    assert same_lattice(best.cell, niggli(np.array([cell]))[0], 2e-3)


@pytest.mark.parametrize(("a", "centring", "squares"), [(4.0862, "F", [3, 4, 8]), (2.8665, "I", [2, 4, 6])])
def test_three_lines_of_a_metal_are_enough(a: float, centring: str, squares: list[int]) -> None:
    lines = 2 * np.degrees(np.arcsin(WAVELENGTH / 2 / a * np.sqrt(squares)))
    found = index_peaks(lines, wavelength=WAVELENGTH)
    cells = [niggli(primitive(np.array([[a, a, a, 90, 90, 90]]), letter))[0] for letter in (centring,)]
    assert any(same_lattice(solution.cell, cells[0], 2e-3) for solution in found[:2])


def test_an_amorphous_pattern_has_no_cell() -> None:
    x = np.linspace(5, 90, 4000)
    rng = np.random.default_rng(0)
    pattern = rng.poisson(1000 * np.exp(-(((x - 25) / 6) ** 2)) + 50).astype(float)
    assert index(x, pattern, wavelength=WAVELENGTH) == []


def test_lines_at_random_are_not_believed() -> None:
    rng = np.random.default_rng(3)
    lines = np.sort(rng.uniform(10, 45, 20))
    found = index_peaks(lines, wavelength=WAVELENGTH, systems=("cubic", "tetragonal", "hexagonal", "orthorhombic"))
    assert not found or found[0].evidence < 20


def test_the_same_lines_give_the_same_answer_and_leave_the_callers_random_numbers_alone() -> None:
    lines = angles("monoclinic", "P", CELLS["monoclinic"][0], 20)
    torch.manual_seed(1)
    wanted = torch.rand(2)
    torch.manual_seed(1)
    first, second = (index_peaks(lines, wavelength=WAVELENGTH, systems=("monoclinic",))[0] for _ in range(2))
    assert torch.equal(torch.rand(2), wanted)
    assert first == second


@pytest.mark.parametrize("system", CELLS)
def test_metrics_and_cells_are_inverse(system: str) -> None:
    cell = torch.tensor([CELLS[system][0]], dtype=torch.float64)
    torch.testing.assert_close(cell_from_reciprocal(system, metric_from_cell(system, cell)), cell, atol=1e-9, rtol=1e-9)


def test_the_figure_of_merit_is_de_wolffs() -> None:
    cell, centring = CELLS["orthorhombic"]
    lines = angles("orthorhombic", centring, cell, 20)
    moved = observe_lines(lines + 0.01, np.full(20, 1e-5), WAVELENGTH)
    basis = reflection_basis("orthorhombic", "P", (6, 6, 6))
    x = metric_from_cell("orthorhombic", torch.tensor([cell], dtype=torch.float64))
    exact = observe_lines(lines, np.full(20, 1e-5), WAVELENGTH)
    wanted = float(moved.q[-1]) / (2 * float((moved.q - exact.q).abs().mean()) * 20)
    merit = de_wolff(moved, basis, x, torch.zeros(1), tolerance=math.inf)[0]
    assert float(merit[0]) == pytest.approx(wanted, rel=0.06)  # a neighbour may be nearer


def test_refinement_finds_cell_and_zero_shift() -> None:
    cell, _ = CELLS["triclinic"]
    lines = observe_lines(angles("triclinic", "P", cell, 20) + 0.02, np.full(20, 0.005), WAVELENGTH)
    start = torch.tensor([cell], dtype=torch.float64) * torch.tensor([1.002, 0.999, 1.001, 1.001, 0.999, 1.001])
    x, zero = refine_on_lines(
        lines, reflection_basis("triclinic", "P", (6, 6, 6)), metric_from_cell("triclinic", start)
    )
    torch.testing.assert_close(
        cell_from_reciprocal("triclinic", x)[0], torch.tensor(cell, dtype=torch.float64), rtol=5e-4, atol=0
    )
    assert float(zero[0]) == pytest.approx(0.02, abs=5e-3)


def test_a_larger_cell_has_less_evidence_for_the_same_lines() -> None:
    cell, _ = CELLS["orthorhombic"]
    lines = observe_lines(angles("orthorhombic", "P", cell, 20), np.full(20, 0.01), WAVELENGTH)
    cells = torch.tensor([cell, (2 * cell[0], *cell[1:])], dtype=torch.float64)
    basis = reflection_basis("orthorhombic", "P", (9, 9, 9))
    scores = evidence("orthorhombic", lines, basis, metric_from_cell("orthorhombic", cells), torch.zeros(2))
    assert scores[0] > scores[1] + 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"two_theta": [20.0, 30.0]}, "lines: found 2, expected at least 3 for a cubic cell, 20"),
        ({"two_theta": [20.0, 30.0, 40.0, math.nan]}, "not finite"),
        ({"two_theta": [8.1, 5.2, 4.1, 3.0, 2.2]}, "fall from 8.1 to 2.2, as d in ångström does"),
        ({"two_theta": [0.3, 0.5, 0.61, 0.9, 1.2]}, "may be radians, 1/d or q"),
        ({"two_theta": [20.0, 30.0, 40.0, 190.0]}, "outside 0 to 180, expected 2θ in degrees"),
        ({"two_theta": [20.0, 30.0, 40.0, 50.0], "error": [0.1]}, "found 4 angles, 4 intensities and 1 errors"),
        ({"two_theta": [20.0, 30.0, 40.0, 50.0], "error": [0.1, 0.1, 0.1, 0.0]}, "errors that are not positive"),
        ({"two_theta": []}, "lines: found 0, expected at least 3"),
        ({"two_theta": [20.0] * 20}, "lines: found 1 distinct, expected at least 3 for a cubic cell"),
        ({"two_theta": [20.0, 20.01, 30.0]}, "lines: found 2 distinct, expected at least 3"),
        ({"two_theta": [20.0, 30.0, 40.0, 50.0], "intensity": [1, math.nan, 1, 1]}, "found intensity nan in line 2"),
        ({"two_theta": [20.0, 30.0, 40.0, 50.0], "intensity": [1, 1, math.inf, 1]}, "found intensity inf in line 3"),
        ({"two_theta": [20.0, 30.0, 40.0, 50.0], "intensity": [-1, 1, 1, 1]}, "found intensity -1 in line 1"),
        ({"two_theta": [20.0, 30.0, 40.0, 50.0], "wavelength": -1.54}, "wavelength: found -1.54, expected 0.1 to 10"),
        ({"two_theta": [20.0, 30.0, 40.0, 50.0], "wavelength": 0.0}, "wavelength: found 0, expected 0.1 to 10"),
        ({"two_theta": [20.0, 30.0, 40.0, 50.0], "systems": ("trigonl",)}, "system: unknown choice 'trigonl'"),
        ({"two_theta": [20.0, 30.0, 40.0, 50.0], "wavelength": 0.05}, "wavelength: found 0.05"),
    ],
)
def test_an_invalid_list_of_lines_is_reported_in_one_line(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as fault:
        index_peaks(**({"wavelength": WAVELENGTH} | settings))  # type: ignore[arg-type]
    assert "\n" not in str(fault.value)


def test_lines_that_are_listed_twice_count_once() -> None:
    lines = angles("tetragonal", "P", CELLS["tetragonal"][0], 14)
    strength = np.linspace(1, 0.2, len(lines))
    once = index_peaks(lines, strength, wavelength=WAVELENGTH, systems=("tetragonal",))[0]
    twice = index_peaks(np.tile(lines, 2), np.tile(strength, 2), wavelength=WAVELENGTH, systems=("tetragonal",))[0]
    assert (twice.lines, twice.indexed) == (once.lines, once.indexed)
    assert twice.conventional == pytest.approx(once.conventional, rel=1e-9)
    assert twice.probability == pytest.approx(once.probability, rel=1e-6)


def test_lines_closer_than_their_errors_are_one_line_between_them() -> None:
    cubic = angles("cubic", "F", CELLS["cubic"][0], 12)
    split = np.sort(np.concatenate([cubic[1:], [cubic[0] - 0.004, cubic[0] + 0.004]]))
    best = index_peaks(split, wavelength=WAVELENGTH, systems=("cubic",))[0]
    assert best.lines == len(cubic)
    assert best.conventional[0] == pytest.approx(CELLS["cubic"][0][0], rel=1e-5)


@pytest.mark.parametrize("unit", [1e300, 1e-300])
def test_the_unit_of_intensity_does_not_change_the_answer(unit: float) -> None:
    torch.manual_seed(0)
    effects = Effects(**(CLEAN.to_dict() | {"counts": (1e5, 1e5), "background": (0.02, 0.02)}))
    crystal = crystal_from_cell(CELLS["tetragonal"][0], 136, effects.s_max)
    pattern = simulate_pattern(crystal, effects)
    y = pattern.intensity / 3  # no counts
    known, other = (
        index(
            pattern.two_theta, y * factor, wavelength=WAVELENGTH, sigma=np.sqrt(y + 1) * factor, systems=("tetragonal",)
        )[0]
        for factor in (1.0, unit)
    )
    assert (other.system, other.centring, other.lines) == (known.system, known.centring, known.lines)
    assert known.fit is not None
    assert other.fit is not None
    assert other.fit.cell == pytest.approx(known.fit.cell, rel=1e-9)
    assert other.fit.errors == pytest.approx(known.fit.errors, rel=1e-6)
    np.testing.assert_allclose(other.fit.calculated, known.fit.calculated * unit, rtol=1e-6)


def test_the_unit_of_the_intensities_of_lines_does_not_change_the_answer() -> None:
    lines = angles("hexagonal", "P", CELLS["hexagonal"][0], 14)
    strength = np.linspace(1, 0.004, len(lines))
    units, systems = (1.0, 1e300, 1e-300), ("hexagonal",)
    found = [index_peaks(lines, strength * unit, wavelength=WAVELENGTH, systems=systems)[0] for unit in units]
    assert {one.conventional for one in found} == {found[0].conventional}


def test_weak_foreign_lines_do_not_hide_the_cell() -> None:
    cell, centring = CELLS["triclinic"]
    lines = angles("triclinic", centring, cell, 26)
    foreign = np.random.default_rng(5).uniform(lines[0] - 3, lines[-1], 8)
    strength = np.concatenate([np.full(len(lines), 0.3), np.full(8, 0.006)])
    best = index_peaks(np.concatenate([lines, foreign]), strength, wavelength=WAVELENGTH)[0]
    assert same_lattice(best.cell, niggli(np.array([cell]))[0], 2e-3)


@pytest.mark.parametrize("seed", range(3))
def test_a_lattice_with_three_right_angles_is_never_called_triclinic_or_monoclinic(seed: int) -> None:
    cell = (4.21, 6.37, 9.85, 90.0, 90.0, 90.0)
    rng = np.random.default_rng(seed)
    lines = angles("orthorhombic", "P", cell, 22)
    measured = lines + rng.normal(0, 0.02, len(lines))  # errors that split equal lines
    for solution in index_peaks(measured, wavelength=WAVELENGTH, systems=("triclinic", "monoclinic", "orthorhombic")):
        right_angles = np.abs(np.array(solution.conventional[3:]) - 90).max() < 0.01
        assert not (right_angles and solution.system in ("triclinic", "monoclinic")), solution.text


def test_lines_of_another_phase_do_not_pull_the_cell() -> None:
    cell, centring = CELLS["orthorhombic"]
    lines = angles("orthorhombic", centring, cell, 24)
    foreign = np.random.default_rng(2).uniform(lines[0], lines[-1], 28)  # more than the crystal has
    strength = np.concatenate([np.full(len(lines), 0.6), np.full(28, 0.04)])
    best = index_peaks(np.concatenate([lines, foreign]), strength, wavelength=WAVELENGTH)[0]
    assert np.sort(best.conventional[:3]) == pytest.approx(np.sort(cell[:3]), rel=1e-3)


def test_a_pattern_whose_first_line_is_above_40_degrees_is_indexed() -> None:
    torch.manual_seed(0)
    effects = Effects(**(CLEAN.to_dict() | {"counts": (1e5, 1e5), "two_theta": (30.0, 120.0)}))
    iron = crystal_from_cell((2.8665,) * 3 + (90.0,) * 3, 229, effects.s_max)
    pattern = simulate_pattern(iron, effects)
    best = index(pattern.two_theta, pattern.intensity, wavelength=WAVELENGTH)[0]
    assert (best.system, best.centring) == ("cubic", "I")
    assert best.conventional[0] == pytest.approx(2.8665, rel=1e-3)


@pytest.mark.parametrize("missing", range(3))
def test_zones_hold_the_cell_though_some_of_its_first_lines_are_missing(missing: int) -> None:
    cell, _ = CELLS["triclinic"]
    lines = np.delete(angles("triclinic", "P", cell, 26), [missing, missing + 3, missing + 7])
    observed = observe_lines(lines, np.full(len(lines), 0.005), WAVELENGTH)
    found, _ = trial_cells("triclinic", "P", observed, replace(SEARCH_TUNING.efforts[0], zone_cells=500))
    truth = niggli(np.array([cell]))[0]
    assert any(same_lattice(one, truth, 5e-3) for one in cell_from_reciprocal("triclinic", found).numpy())


def test_where_an_axis_is_short_the_cell_is_still_found() -> None:
    cell = (3.01, 9.27, 10.95, 90.0, 90.0, 90.0)  # the first dozen lines are all of the plane of b* and c*
    best = index_peaks(angles("orthorhombic", "P", cell, 26), wavelength=WAVELENGTH)[0]
    assert same_lattice(best.cell, cell, 2e-3)


def test_a_superlattice_is_chosen_where_it_alone_explains_weak_lines() -> None:
    small, large = (4.1, 4.1, 7.35, 90.0, 90.0, 120.0), (4.1 * 3**0.5, 4.1 * 3**0.5, 7.35, 90.0, 90.0, 120.0)
    strong, every = angles("hexagonal", "P", small, 18), angles("hexagonal", "P", large, 60)
    weak = every[np.abs(every[:, None] - strong).min(1) > 0.2][[2, 5, 6, 9]]
    lines, strength = np.concatenate([strong, weak]), np.concatenate([np.full(18, 0.5), np.full(4, 0.02)])
    with_, without = (index_peaks(lines[:n], strength[:n], wavelength=WAVELENGTH)[0] for n in (22, 18))
    assert same_lattice(with_.cell, niggli(np.array([large]))[0], 2e-3)
    assert same_lattice(without.cell, niggli(np.array([small]))[0], 2e-3)


def test_a_proposal_is_finished_where_the_search_has_nothing() -> None:
    cell, _ = CELLS["triclinic"]
    lines = angles("triclinic", "P", cell, 24)
    near = torch.tensor([cell], dtype=torch.float64) * torch.tensor([1.004, 0.997, 1.003, 1.002, 0.998, 1.002])
    found = candidates_from_proposals(
        metric_from_cell("triclinic", near),
        torch.zeros(1).double(),
        observe_lines(lines, np.full(24, 0.005), WAVELENGTH),
    )
    best = cell_from_reciprocal("triclinic", found[0].x[None])[0].numpy()
    assert same_lattice(best, niggli(np.array([cell]))[0], 5e-4)


def test_probabilities_are_shares_of_one() -> None:
    found = index_peaks(angles("monoclinic", "P", CELLS["monoclinic"][0]), wavelength=WAVELENGTH)
    assert all(0 <= one.probability <= found[0].probability for one in found)
    assert sum(one.probability for one in found) <= 1 + 1e-9


def test_importing_the_package_does_not_load_the_search() -> None:
    code = "import sys, vitreous.powder as p; assert 'torch' not in sys.modules; assert callable(p.index)"
    python(code)


def test_few_lines_near_each_other_leave_a_lattice_with_a_single_one_in_reach() -> None:
    found = index_peaks([10.0, 10.168, 10.336, 10.504], [3.0, 3.2, 3.3, 3.5], wavelength=1.5406, systems=("cubic",))
    assert all(solution.probability < 0.5 for solution in found)


def test_loading_the_search_loads_neither_training_nor_figures() -> None:
    heavy = ("vitreous.train", "vitreous.gallery", "vitreous.text", "vitreous.serve", "matplotlib", "rich", "sklearn")
    code = f"import sys, vitreous.powder.indexing; print([name for name in {heavy} if name in sys.modules])"
    assert python(code).strip() == "[]"
