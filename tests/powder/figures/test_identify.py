"""Figures of identifications and of series."""

from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from vitreous.insight.style import save
from vitreous.powder.bragg import second_wavelength
from vitreous.powder.figures.identify import draw_identification, line_positions, subscripts
from vitreous.powder.identify.answer import Identification, IdentifiedPhase, SampleCurves, UnexplainedLine
from vitreous.powder.identify.frames import Frame
from vitreous.powder.identify.page import identified_page
from vitreous.powder.identify.series import Series, SeriesPhase
from vitreous.powder.pattern import Pattern

X = np.arange(20, 90, 0.02)
RATIO = 1.00249
CELL, ERRORS = (5.6402, 5.6402, 5.6402, 90.0, 90.0, 90.0), (0.0002, 0.0002, 0.0002, 0.0, 0.0, 0.0)


def lines(*angles: float) -> np.ndarray:
    return sum((np.exp(-(((X - at) / 0.1) ** 2)) for at in angles), np.zeros_like(X))


def phase(name: str, formula: str, fraction: float) -> IdentifiedPhase:
    return IdentifiedPhase(
        name, formula, f"{name}.cif", "F m -3 m", "cubic", CELL, ERRORS, 0.99, fraction, 0.01, fraction, 1.0, 0
    )


def identification() -> Identification:
    parts = np.array([100 * lines(27.4, 31.7, 45.4), 50 * lines(28.3, 47.0)])
    observed = 10 + parts.sum(axis=0) + 30 * lines(60.0)
    pattern = Pattern(X, observed, None, 1.54059, "salt $1$.xy", 1.54443, 0.5)
    return Identification(
        (phase("halite", "NaCl", 0.7), phase("fluorite", "CaF2", 0.3)), pattern, "my.db", 0.05, 1.2,
        (UnexplainedLine(60.0, 0.3),), 0.08, 0.2, 0.1, 0.01, SampleCurves(X, observed, np.full_like(X, 10.0), parts),
        ("a hint",), "an unknown phase is cubic P",
    )  # fmt: skip


def text_of(path: Path, drawing: object) -> str:
    with mpl.rc_context({"svg.fonttype": "none"}):
        save(drawing, path)  # type: ignore[arg-type]
    return path.read_text()


def test_phases_with_their_amounts_and_unexplained_lines_are_named(tmp_path: Path) -> None:
    text = text_of(tmp_path / "fit.svg", draw_identification(identification()))
    for word in ("halite NaCl, 70.0(10) %", "fluorite CaF₂, 30.0(10) %", "measured", "sum", "unexplained", "2θ (°)"):
        assert word in text


@pytest.mark.parametrize("ending", ["png", "pdf"])
def test_a_pattern_without_phases_is_drawn(ending: str, tmp_path: Path) -> None:
    full = identification()
    curves = replace(full.curves, parts=np.zeros((0, len(X))))
    save(replace(full, phases=(), unexplained=(), curves=curves).plot(), tmp_path / f"fit.{ending}")
    assert (tmp_path / f"fit.{ending}").stat().st_size > 5000


def test_ticks_stand_at_the_lines_but_not_at_those_of_the_second_wavelength() -> None:
    angles = np.array([30.0, 50.0, 80.0])
    part = lines(*angles) + 0.5 * lines(*second_wavelength(angles, RATIO))
    assert len(line_positions(X, part)) > 3
    assert line_positions(X, part, RATIO) == pytest.approx(angles, abs=0.02)
    assert len(line_positions(X, np.zeros_like(X))) == 0


def test_formulas_have_small_digits_unless_they_are_fractions() -> None:
    assert [subscripts(each) for each in ("Al2O3", "Ca(OH)2", "Fe0.95O", "")] == ["Al₂O₃", "Ca(OH)₂", "Fe0.95O", ""]


def test_a_page_tells_phases_remarks_and_the_command() -> None:
    page = identified_page(identification(), "vitreous identify salt.xy --database my.db --report page.html")
    for word in (
        "halite",
        "70.0(10) %",
        "5.64020(20)",
        "A hint.",
        "An unknown phase is cubic P.",
        "10.0 % of the sample",
    ):
        assert word in page
    assert "vitreous identify salt.xy" in page


def test_a_series_is_drawn_with_gaps_where_a_phase_is_not(tmp_path: Path) -> None:
    frames = tuple(Frame(Path(f"{k}.xy"), 300.0 + k) for k in range(3))
    phases = (
        SeriesPhase("halite", "NaCl", 0, {k: phase("halite", "NaCl", 1 - k / 2) for k in (0, 1)}),
        SeriesPhase("fluorite", "CaF2", 1, {2: phase("fluorite", "CaF2", 1.0)}),
    )
    series = Series("run", "temperature (K)", frames, (identification(),) * 3, phases)
    drawing = series.plot()
    text = text_of(tmp_path / "series.svg", drawing)
    for word in ("halite NaCl", "fluorite CaF₂", "temperature (K)", "mass (%)"):
        assert word in text
    (halite, fluorite) = (line.get_ydata() for line in drawing.axes[0].get_lines())
    assert np.isnan(halite).tolist() == [False, False, True]
    assert np.isnan(fluorite).tolist() == [True, True, False]
