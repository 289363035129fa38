"""Headings of columns: quantities other than 2θ are converted or refused, never taken for 2θ."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.powder.files.contents import CU1, X, Y, rows
from vitreous.core.errors import InputError
from vitreous.powder.files import read_pattern, read_peak_list

SINE = np.sin(np.radians(X / 2))
D = CU1 / 2 / SINE
QUANTITIES: dict[str, NDArray[Any]] = {
    "2theta": X, "2θ (°)": X, "2-Theta [deg]": X, "two_theta": X, "tth": X, "angle": X, "2 theta": X,
    "2theta (rad)": np.radians(X), "_pd_meas_2theta_scan": X,
    "theta": X / 2, "θ [°]": X / 2, "Theta (deg.)": X / 2, "theta/rad": np.radians(X / 2),
    "d": D, "d (Å)": D, "d [nm]": D / 10, "d / pm": D * 100, "d-spacing (A)": D, "d spacing": D, "d_hkl": D,
    "1/d (1/Å)": 1 / D, "d*": 1 / D, "1/d": 1 / D, "1/d^2": D**-2, "s (1/nm)": 10 / D,
    "Q": 2 * np.pi / D, "q_A^-1": 2 * np.pi / D, "Q [1/nm]": 20 * np.pi / D, "Q (Å⁻¹)": 2 * np.pi / D,
    "q(nm-1)": 20 * np.pi / D, "Q/nm^-1": 20 * np.pi / D,
    "sinθ": SINE, "sin²θ": SINE**2, "sin^2(theta)": SINE**2, "sinθ/λ": SINE / CU1,
}  # fmt: skip
LAYOUTS: dict[str, Callable[[str], str]] = {
    "comment": lambda name: f"# {name} intensity\n",
    "commas": lambda name: f"{name},counts\n",
    "tabs": lambda name: f"sample 3, annealed\n{name}\tI (a.u.)\n",
}


@pytest.mark.parametrize("name", QUANTITIES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_column_is_read_as_its_heading_says(tmp_path: Path, name: str, layout: str) -> None:
    separator = "," if layout == "commas" else "\t"
    (tmp_path / "x.csv").write_text(LAYOUTS[layout](name) + rows(QUANTITIES[name], Y, separator=separator))
    pattern = read_pattern(tmp_path / "x.csv", wavelength=CU1)
    np.testing.assert_allclose(pattern.two_theta, X, rtol=1e-7)  # ascending, also where the column falls
    np.testing.assert_array_equal(pattern.intensity, Y)


@pytest.mark.parametrize("name", QUANTITIES)
def test_a_column_of_a_peak_list_is_read_as_its_heading_says(tmp_path: Path, name: str) -> None:
    path = tmp_path / "peaks.txt"
    for heading in (f"{name}, I", f"# {name}, I", f"! peaks of quartz\nno., {name}, I"):
        columns = [QUANTITIES[name], Y] if "no." not in heading else [np.arange(len(X)), QUANTITIES[name], Y]
        path.write_text(f"{heading}\n{rows(*columns, separator=', ')}")
        two_theta, intensity = read_peak_list(path, CU1)[:2]
        np.testing.assert_allclose(two_theta, X, rtol=1e-7)
        np.testing.assert_array_equal(intensity, Y)


def test_a_peak_list_may_hold_one_column_with_its_heading(tmp_path: Path) -> None:
    (tmp_path / "peaks.txt").write_text("d (Å)\n" + rows(D[::20]))
    two_theta, intensity = read_peak_list(tmp_path / "peaks.txt", CU1)[:2]
    np.testing.assert_allclose(two_theta, X[::20], rtol=1e-7)
    assert intensity is None


def test_units_may_stand_in_a_line_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("Q\tI\n1/nm\tcounts\n" + rows(20 * np.pi / D, Y, separator="\t"))
    np.testing.assert_allclose(read_pattern(tmp_path / "x.txt", wavelength=CU1).two_theta, X, rtol=1e-7)


def test_fit2d_names_each_column_in_a_line_of_its_own(tmp_path: Path) -> None:
    header = f"image.tif\nQ (Inverse Nanometres)\nIntensity\n  {len(X)}\n"
    (tmp_path / "x.txt").write_text(header + rows(20 * np.pi / D, Y))
    np.testing.assert_allclose(read_pattern(tmp_path / "x.txt", wavelength=CU1).two_theta, X, rtol=1e-7)


def test_the_angle_is_found_among_other_columns(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("point_id,2theta,intensity\n" + rows(np.arange(len(X)), X, Y, separator=","))
    np.testing.assert_array_equal(read_pattern(tmp_path / "x.csv").two_theta, X)
    (tmp_path / "x.csv").write_text("d,2theta,intensity\n" + rows(D, X, Y, separator=","))
    pattern = read_pattern(tmp_path / "x.csv")
    np.testing.assert_array_equal(pattern.two_theta, X)
    np.testing.assert_array_equal(pattern.intensity, Y)


def test_the_wavelength_of_the_header_converts_unless_the_user_states_another(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(f"# wavelength = {CU1}\n# d I\n" + rows(D, Y))
    np.testing.assert_allclose(read_pattern(tmp_path / "x.txt").two_theta, X, rtol=1e-7)
    other = read_pattern(tmp_path / "x.txt", wavelength=0.7)
    np.testing.assert_allclose(np.sin(np.radians(other.two_theta / 2)), 0.7 / 2 / D, rtol=1e-7)


@pytest.mark.parametrize(
    ("heading", "message"),
    [
        (
            "energy (keV), counts",
            r"found 'energy \(keV\)' as first column; an energy-dispersive pattern also needs the",
        ),
        ("E [keV], I", r"found 'E \[keV\]' as first column; an energy-dispersive pattern"),
        ("TOF (us), I", r"found 'TOF \(us\)' as first column; times of flight also need the calibration of the"),
        ("channel, counts", "found 'channel' as first column; expected 2θ"),
        ("wavelength, intensity", "found 'wavelength' as first column; expected 2θ"),
        ("sin2theta, I", "found 'sin2theta' as first column; expected 2θ"),  # of 2θ, or squared?
        ("d^-2, I", "found 'd^-2, I' above 2 .*; expected 2θ, θ"),
        ("q (furlong), I", "above 2 column"),
        ("theta, scan", "found 'theta, scan' above 2 .*, and intensity"),
        ("d, phase, I", "found 'd, phase, I' above 2 "),
    ],
)
@pytest.mark.parametrize("read", [read_pattern, read_peak_list])
def test_a_quantity_without_2theta_is_refused(
    tmp_path: Path, heading: str, message: str, read: Callable[..., Any]
) -> None:
    (tmp_path / "x.txt").write_text(f"{heading}\n" + rows(X, Y, separator=","))
    with pytest.raises(InputError, match=message.replace("^", r"\^")) as error:
        read(tmp_path / "x.txt", wavelength=CU1)
    assert "\n" not in str(error.value)
    assert "x.txt: " in str(error.value)


def test_a_conversion_without_a_wavelength_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("d I\n" + rows(D, Y))
    with pytest.raises(InputError, match="found 'd' as first column, whose conversion needs the wavelength; give"):
        read_pattern(tmp_path / "x.txt")


@pytest.mark.parametrize(
    "header",
    ["quartz from Brazil", "E. Smith", "Wavelength CuKa", "Energy = 8.05 keV, Time = 3", "d = 3.34, I = 100", "x y",
     "Theta-2Theta scan", "Data collected 2024", "sample"],
)  # fmt: skip
def test_a_line_of_text_is_not_a_heading(tmp_path: Path, header: str) -> None:
    (tmp_path / "x.txt").write_text(f"{header}\n{rows(X, Y)}")
    np.testing.assert_array_equal(read_pattern(tmp_path / "x.txt").two_theta, X)
