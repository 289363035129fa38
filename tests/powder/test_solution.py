"""A solution: its text, lines with indices, CIF, figure and JSON agree with its numbers."""

import json
from dataclasses import replace

import numpy as np
import pytest

from vitreous.powder import IndexResult, Solution, index_pattern, index_peaks
from vitreous.powder.cell import cell_line, refined_parameters, with_error
from vitreous.powder.example import example

A, WAVELENGTH = 5.6402, 1.540593
KEYS = [
    "cell", "conventional", "system", "centring", "volume", "m20", "f20", "indexed", "lines", "zero", "evidence",
    "probability",
]  # fmt: skip


@pytest.fixture(scope="module")
def halite() -> Solution:
    """Indexed from its lines, and one line of something else."""
    squares = np.array([3, 4, 8, 11, 12, 16, 19, 20, 24, 27])
    angles = 2 * np.degrees(np.arcsin(WAVELENGTH / 2 / A * np.sqrt(squares)))
    lines = np.sort([*angles, 40.0])
    return index_peaks(lines, wavelength=WAVELENGTH, systems=("cubic",))[0]


@pytest.fixture(scope="module")
def refined() -> IndexResult:
    return index_pattern(example("triclinic"))


def test_the_lines_have_the_indices_of_their_reflections(halite: Solution) -> None:
    lines = halite.indexed_lines()
    assert [line.hkl is None for line in lines] == [line.two_theta == 40.0 for line in lines]
    assert sum(line.hkl is not None for line in lines) == halite.indexed
    for line in lines:
        if line.hkl is not None:
            d = halite.conventional[0] / np.sqrt(np.square(line.hkl).sum())
            calculated = 2 * np.degrees(np.arcsin(WAVELENGTH / 2 / d)) + halite.zero
            assert line.calculated == pytest.approx(calculated, abs=1e-6)


def test_without_a_refinement_there_are_no_errors(halite: Solution) -> None:
    assert halite.errors is None
    assert halite.refined == halite.conventional
    assert cell_line(halite.conventional) in halite.text


def test_the_text_names_lattice_probability_and_reasons(halite: Solution) -> None:
    assert halite.text.startswith(f"cubic F, probability {halite.probability:.3f}")
    assert f"{halite.indexed} of {halite.lines} lines explained" in halite.why
    assert str(halite) == halite.text


def test_json_holds_the_numbers_and_not_the_pattern(halite: Solution) -> None:
    record = json.loads(json.dumps(halite.to_dict()))
    assert list(record) == KEYS
    assert tuple(record["conventional"]) == halite.conventional


def test_a_refined_solution_has_errors_in_text_and_cif(refined: IndexResult) -> None:
    gemmi = pytest.importorskip("gemmi")
    best = refined.best
    assert best is not None
    assert best.fit is not None
    assert best.errors == best.fit.errors
    assert refined_parameters(best.fit.cell, best.fit.errors) in best.text
    block = gemmi.cif.read_string(best.to_cif()).sole_block()
    assert block.find_value("_cell_length_a") == with_error(best.fit.cell[0], best.fit.errors[0])
    plain = gemmi.cif.read_string(best.to_cif(refined=False)).sole_block()
    assert float(plain.find_value("_cell_length_a")) == pytest.approx(best.conventional[0], abs=1e-5)


def test_a_result_shows_its_solutions_and_its_refinement(refined: IndexResult) -> None:
    record = refined.to_dict()
    assert len(record["solutions"]) == len(refined.solutions)
    assert {"cell", "errors", "zero", "displacement", "displacement_error", "rwp", "chi2"} <= set(record["refined"])
    assert refined.text.count("probability") == len(refined.solutions)


def test_an_error_is_all_that_a_result_shows() -> None:
    result = IndexResult("bad.xy", [], error="bad.xy: is empty")
    assert result.to_dict() == {"file": "bad.xy", "solutions": [], "fault": "bad.xy: is empty"}
    assert (result.best, result.fit) == (None, None)


def test_a_solution_is_drawn_with_and_without_its_refinement(halite: Solution, refined: IndexResult) -> None:
    assert refined.best is not None
    assert len(refined.best.plot().axes) == 2
    assert len(halite.plot("halite").axes) == 1
    assert len(replace(refined.best, fit=None).plot().axes) == 1
