"""Lines with the indices of the nearest reflection of any phase, and what is said about the others."""

import numpy as np
import pytest

from vitreous.powder.indexed_lines import assign_lines, describe_unexplained, unexplained_lines

FIRST = np.array([[1, 0, 0], [1, 1, 0]]), np.array([20.0, 30.0])
SECOND = np.array([[1, 1, 1]]), np.array([30.02])


def test_a_line_has_the_indices_and_the_phase_of_the_nearest_reflection() -> None:
    lines = assign_lines([20.01, 30.012, 40.0], [], [0.05] * 3, [FIRST, SECOND])
    assert [line.hkl for line in lines] == [(1, 0, 0), (1, 1, 1), None]
    assert [line.phase for line in lines] == [1, 2, None]
    assert lines[0].difference == pytest.approx(0.01)
    assert lines[2].to_dict()["foreign"] is True


def test_a_reflection_beyond_the_tolerance_explains_nothing() -> None:
    assert assign_lines([20.01], [1.0], [0.005], [FIRST])[0].hkl is None


def test_unexplained_lines_have_their_share_of_the_intensity_of_all_lines() -> None:
    lines = unexplained_lines(assign_lines([20.0, 26.614, 45.5], [0.7, 0.2, 0.1], [0.05] * 3, [FIRST]))
    assert [line.two_theta for line in lines] == [26.614, 45.5]
    assert [line.share for line in lines] == pytest.approx([0.2, 0.1])
    assert describe_unexplained(lines, 3) == "2 lines, 30% of the intensity, are unexplained: 26.61°, 45.50°"


def test_a_single_weak_line_is_not_mentioned() -> None:
    lines = unexplained_lines(assign_lines([20.0, 26.6], [1.0, 0.005], [0.05] * 2, [FIRST]))
    assert len(lines) == 1
    assert describe_unexplained(lines, 2) == ""


def test_without_intensities_the_number_of_lines_decides() -> None:
    lines = unexplained_lines(assign_lines([20.0, 26.6], [], [0.05] * 2, [FIRST]))
    assert lines[0].share is None
    assert describe_unexplained(lines, 2) == "1 line is unexplained: 26.60°"
    assert describe_unexplained(lines, 60) == ""
