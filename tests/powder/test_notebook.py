"""How patterns, cells and results look in a notebook."""

import re

import pytest

from vitreous.powder import IndexResult, index_pattern
from vitreous.powder.example import example
from vitreous.powder.indexing import IndexOptions


@pytest.fixture(scope="module")
def result() -> IndexResult:
    return index_pattern(example("thiosulfate"), IndexOptions(systems=("monoclinic",)))


def test_a_pattern_is_one_line_with_its_range_and_wavelength() -> None:
    pattern = example("thiosulfate")
    assert repr(pattern) == re.sub(r"\s+", " ", repr(pattern))
    assert f"{len(pattern.two_theta)} points" in repr(pattern)
    assert "0.729137 Å" in repr(pattern)


def test_a_pattern_draws_itself_along_either_axis() -> None:
    pattern = example("thiosulfate")
    for axis, label in (("two-theta", "2θ"), ("q", "scattering vector")):
        (axes,) = pattern.plot(axis).axes
        assert axes.get_xlabel().startswith(label)


def test_a_cell_and_a_result_are_one_line_with_units_and_probability(result: IndexResult) -> None:
    best = result.best
    assert best is not None
    for text in (repr(best), repr(result)):
        assert "\n" not in text
        assert re.search(r"monoclinic P: a = 5\.9\d+\(\d+\) Å, .*β|beta = 103\.78", text)
        assert f"probability {best.probability:.3f}" in text


def test_a_result_in_html_names_every_cell_and_escapes_names(result: IndexResult) -> None:
    from dataclasses import replace

    page = replace(result, name="<b>x</b>.xy", hints=("a & b",))._repr_html_()
    assert page.count("<tr>") >= 2 + len(result.solutions)
    assert "&lt;b&gt;x&lt;/b&gt;.xy: a &amp; b" in page
    assert "<b>x" not in page
    assert "extinction symbol P 1 21/c 1" in page


def test_a_result_without_a_cell_says_so() -> None:
    empty = IndexResult("empty.xy", [], error="empty.xy: found 0 points, expected 50")
    assert "found 0 points" in repr(empty)
    assert "found 0 points" in empty._repr_html_()
    assert "no cell" in repr(IndexResult("noise.xy", []))
    assert "no cell" in IndexResult("noise.xy", [])._repr_html_()
