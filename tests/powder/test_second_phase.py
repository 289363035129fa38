"""A second phase is found in the lines that the first cell leaves, and never looked for without need."""

import json
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from tests.powder import mixtures
from vitreous.powder import IndexOptions, IndexResult, Solution, index_pattern
from vitreous.powder.lattice import same_lattice
from vitreous.powder.line_list import LineList
from vitreous.powder.page import indexed_page
from vitreous.powder.phases import Phases, Ranked
from vitreous.powder.second_phase import find_phases
from vitreous.powder.tuning import SearchTuning

QUICK = SearchTuning(proposals=0, mixture_odds=())
OPTIONS = IndexOptions(systems=mixtures.SYSTEMS, hints=False, tuning=QUICK)


@pytest.fixture(scope="module")
def mixture() -> IndexResult:
    return index_pattern(mixtures.two_phases(), OPTIONS)


@pytest.fixture(scope="module")
def alone() -> IndexResult:
    """The same pattern, without a second phase."""
    return index_pattern(mixtures.two_phases(), replace(OPTIONS, phases=1))


def no_search(lines: LineList) -> Ranked:
    raise AssertionError("searched")


def test_both_cells_are_found_the_major_one_first(mixture: IndexResult) -> None:
    assert len(mixture.phases) == 2
    for phase, cell in zip(mixture.phases, (mixtures.MAJOR, mixtures.MINOR), strict=True):
        assert same_lattice(phase.cell, cell)
        assert phase.probability > 0.5
        assert phase.refined == pytest.approx(cell, rel=1e-3)
    assert mixture.phases[0] is mixture.best


def test_the_shares_of_the_intensity_are_those_of_the_areas(mixture: IndexResult) -> None:
    shares = [phase.fit.share for phase in mixture.phases if phase.fit is not None]
    assert shares == pytest.approx([mixtures.SHARE, 1 - mixtures.SHARE], abs=0.02)


def test_the_minor_phase_is_no_rival_of_the_major_one(mixture: IndexResult) -> None:
    assert not any(same_lattice(each.cell, mixtures.MINOR) for each in mixture.solutions)
    assert sum(each.probability for each in mixture.solutions) <= 1 + 1e-9


def test_every_line_has_the_indices_of_one_phase(mixture: IndexResult) -> None:
    lines = mixture.indexed_lines()
    assert {line.phase for line in lines} == {1, 2}
    assert mixture.unexplained == []
    assert mixture.unexplained_text == ""
    for line in lines:
        assert line.difference is not None
        assert abs(line.difference) < 0.05


def test_one_phase_on_request_leaves_the_lines_of_the_other(alone: IndexResult, mixture: IndexResult) -> None:
    assert len(alone.phases) == 1
    assert alone.second is None
    left = {line.two_theta for line in alone.unexplained}
    assert left <= {line.two_theta for line in mixture.indexed_lines() if line.phase == 2}
    assert len(left) > 4
    assert f"{len(left)} lines, " in alone.unexplained_text
    assert alone.unexplained_text in alone.text


def test_two_phases_explain_more_of_the_pattern_than_one(alone: IndexResult, mixture: IndexResult) -> None:
    assert alone.fit is not None
    assert mixture.fit is not None
    assert mixture.fit.rwp < 0.5 * alone.fit.rwp
    assert mixture.fit.chi2 == pytest.approx(1.0, abs=0.15)


def test_json_text_figure_and_page_show_both_phases(mixture: IndexResult) -> None:
    record = json.loads(json.dumps(mixture.to_dict()))
    assert [phase["solution"]["system"] for phase in record["phases"]] == ["tetragonal", "cubic"]
    assert sum(phase["share"] for phase in record["phases"]) == pytest.approx(1.0)
    assert {line["phase"] for line in record["lines"]} == {1, 2}
    assert "2: 2" in mixture.text
    drawing = mixture.plot("mixture")
    names = [text.get_text() for text in drawing.axes[0].get_legend().get_texts()]
    assert any(name.startswith("1: tetragonal P") for name in names)
    assert any(name.startswith("2: cubic P") for name in names)
    plt.close(drawing)
    page = indexed_page(mixture, "vitreous index mixture.xy")
    assert "share of the intensity" in page
    assert "not a share of the mass" in page


def test_nothing_is_searched_where_nothing_is_left() -> None:
    pattern = mixtures.two_phases(1.0)
    result = index_pattern(pattern, OPTIONS)
    assert result.second is None
    assert same_lattice(result.solutions[0].cell, mixtures.MAJOR)
    assert find_phases(pattern, Ranked(result.solutions, lambda lattice, zero: None), no_search) is None


def test_a_multiple_of_the_first_lattice_is_no_second_phase(alone: IndexResult) -> None:
    assert alone.best is not None
    double = replace(alone.best, cell=(*alone.best.cell[:2], 2 * alone.best.cell[2], 90.0, 90.0, 90.0))
    searched = []

    def search(lines: LineList) -> Ranked:
        searched.append(lines)
        return Ranked([replace(double, probability=0.99)], lambda lattice, zero: None)

    assert find_phases(mixtures.two_phases(), Ranked(alone.solutions, lambda lattice, zero: None), search) is None
    assert searched


def test_the_lines_of_the_second_search_are_corrected_for_the_zero_shift_of_the_first_cell(alone: IndexResult) -> None:
    corrected: list[np.ndarray] = []

    def search(lines: LineList) -> Ranked:
        corrected.append(lines.two_theta)
        return Ranked([], lambda lattice, zero: None)

    assert find_phases(mixtures.two_phases(), Ranked(alone.solutions, lambda lattice, zero: None), search) is None
    _, true = solution_of(mixtures.MINOR, alone).reflections(mixtures.LIMITS)
    assert np.median(np.abs(corrected[0][:, None] - true).min(axis=1)) < 0.006 < mixtures.ZERO


def solution_of(cell: tuple[float, ...], result: IndexResult) -> Solution:
    """A cubic lattice without a zero shift."""
    assert result.best is not None
    return replace(result.best, cell=cell, conventional=cell, system="cubic", centring="P", zero=0.0, fit=None)


def test_rivals_share_the_probability_that_the_first_phase_leaves(alone: IndexResult) -> None:
    first = alone.solutions[0]
    second = solution_of(mixtures.MINOR, alone)
    rival = solution_of((8.3, 8.3, 8.3, 90.0, 90.0, 90.0), alone)
    solutions = Phases(replace(first, probability=0.9), second).among(
        [first, second, replace(rival, probability=0.6), replace(rival, cell=(9.1, 9.1, 9.1, 90.0, 90.0, 90.0))]
    )  # fmt: skip
    assert len(solutions) == 3
    assert sum(each.probability for each in solutions) <= 1.0 + 1e-9
