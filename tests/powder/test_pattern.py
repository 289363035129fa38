"""Patterns on a grid in q."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.powder.files.contents import CU1, X, Y, rows
from vitreous.core.errors import InputError
from vitreous.data import data_folder
from vitreous.powder.files import read_pattern
from vitreous.powder.pattern import Pattern, require_wavelength, to_grid
from vitreous.powder.radiation import ANODES


def peak(two_theta: NDArray[Any], d: float, wavelength: float, width: float = 0.05) -> NDArray[np.float64]:
    """One line of unit height from planes d ångström apart."""
    at = 2 * np.degrees(np.arcsin(wavelength / (2 * d)))
    result: NDArray[np.float64] = np.exp(-(((two_theta - at) / width) ** 2))
    return result


@given(d=st.floats(1.5, 6))
def test_a_peak_has_the_q_of_its_d_spacing_at_any_wavelength(d: float) -> None:
    q = np.arange(0.5, 5, 0.005)
    x = np.arange(2, 120, 0.01)
    for wavelength in (CU1, 0.73):
        intensity = to_grid(Pattern(x, peak(x, d, wavelength), None, wavelength, "x"), q)
        assert abs(q[np.argmax(intensity)] - 2 * np.pi / d) <= 0.005


def area_on(count: int) -> float:
    """Area of a peak on a grid of q over its area in the data, whose step at the peak is that of 8000 points."""
    x = np.arange(2, 120, 0.01)
    y = peak(x, 3, CU1)
    q = np.linspace(0.5, 6, count)
    measured = np.trapezoid(y, 4 * np.pi / CU1 * np.sin(np.radians(x / 2)))
    return float(to_grid(Pattern(x, y, None, CU1, "x"), q).sum() * (q[1] - q[0]) / measured)


@given(count=st.integers(100, 7_900))
def test_a_coarser_grid_preserves_the_area_of_a_peak(count: int) -> None:
    assert area_on(count) == pytest.approx(1, rel=1e-9)


@given(count=st.integers(7_900, 40_000))
def test_a_finer_grid_preserves_the_area_of_a_peak_within_linear_interpolation(count: int) -> None:
    assert area_on(count) == pytest.approx(1, rel=0.01)  # h²/8 ∫|y″| / ∫y for a step h a fifth of the peak's width


def test_a_fine_grid_is_interpolated_linearly_and_zero_outside_the_data() -> None:
    at = 4 * np.pi / CU1 * np.sin(np.radians(X / 2))
    q = np.linspace(0, 6, 100_000)
    intensity = to_grid(Pattern(X, Y, None, CU1, "x"), q)
    np.testing.assert_array_equal(intensity, np.interp(q, at, Y, left=0, right=0))
    level = to_grid(Pattern(X, 0 * X + 7, None, CU1, "x"), q[::2000])
    np.testing.assert_allclose(level, np.where((q[::2000] >= at[0]) & (q[::2000] <= at[-1]), 7, 0))


def test_a_grid_in_q_needs_a_wavelength_and_ascending_values(tmp_path: Path) -> None:
    (tmp_path / "x.xy").write_text(rows(X, Y))
    unknown = read_pattern(tmp_path / "x.xy")
    message = r"^x.xy: does not state its wavelength; give --wavelength \(in ångström\) or --anode Cu$"
    for use in (require_wavelength, lambda pattern: to_grid(pattern, np.arange(1.0, 5))):
        with pytest.raises(InputError, match=message):
            use(unknown)
    molybdenum = read_pattern(tmp_path / "x.xy", anode="Mo")
    assert require_wavelength(molybdenum) == ANODES["Mo"][0]
    with pytest.raises(
        InputError, match=r"grid of q: found shape \(2,\), expected two or more finite ascending numbers"
    ):
        to_grid(molybdenum, np.array([2.0, 1.0]))


def test_measured_patterns_have_their_strongest_lines_at_the_positions_of_their_cells() -> None:
    folder = data_folder() / "powder"
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent; set VITREOUS_DATA")
    with (folder / "cells.csv").open() as file:
        cells = {row["Name"]: row for row in csv.DictReader(file)}
    assert len(cells) == 7
    strongest = {"LaB6": (1, 1, 0), "NaCl": (2, 0, 0)}  # of cubic cells
    for name, row in cells.items():
        pattern = read_pattern(folder / f"{row['Material']}.xy.gz", wavelength=float(row["Wavelength"]))
        assert len(pattern.two_theta) > 13_000
        q = np.arange(0.5, 8, 0.002)
        intensity = to_grid(pattern, q)
        if name in strongest:
            expected = 2 * np.pi / float(row["a"]) * np.linalg.norm(strongest[name])
            assert q[np.argmax(intensity)] == pytest.approx(expected, abs=0.004)
