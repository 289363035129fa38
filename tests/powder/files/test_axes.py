"""The axis that a user states: the same pattern along every quantity has the same angles and the same cell."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.powder.files.contents import CU1, X, Y, raw4, rows, xrdml
from vitreous.core.errors import InputError
from vitreous.powder.files import read_pattern, read_peak_list
from vitreous.powder.files.reading import AXES, ReadOptions
from vitreous.powder.indexing import IndexOptions, index_file
from vitreous.powder.radiation import KEV_ANGSTROM

Values = NDArray[np.float64]
FIXED = 12.0  # degrees of 2θ


def spacing(two_theta: Values, wavelength: float) -> Values:
    return np.asarray(wavelength / 2 / np.sin(np.radians(two_theta / 2)))


ALONG: dict[str, Callable[[Values, float], Values]] = {
    "2theta": lambda x, wave: x,
    "theta": lambda x, wave: x / 2,
    "d": spacing,
    "q": lambda x, wave: 2 * np.pi / spacing(x, wave),
    "1/d2": lambda x, wave: spacing(x, wave) ** -2,
    "sin2theta": lambda x, wave: np.sin(np.radians(x / 2)) ** 2,
    "energy": lambda x, wave: KEV_ANGSTROM / (2 * spacing(x, wave) * math.sin(math.radians(FIXED / 2))),
}


def stated(axis: str) -> dict[str, Any]:
    return {"axis": axis, "fixed_angle": FIXED if axis == "energy" else None}


def test_every_axis_is_tested() -> None:
    assert set(ALONG) == set(AXES)


@pytest.mark.parametrize("axis", AXES)
@settings(max_examples=8, deadline=None)
@given(wavelength=st.floats(0.3, 2.5), low=st.floats(1, 60), step=st.floats(0.005, 0.1))
def test_the_same_pattern_along_any_axis_has_the_same_angles(
    tmp_path_factory: pytest.TempPathFactory, axis: str, wavelength: float, low: float, step: float
) -> None:
    path = tmp_path_factory.mktemp("axes") / "x.xy"
    x = low + step * np.arange(len(Y))
    values = ALONG[axis](x, wavelength)
    path.write_text("\n".join(f"{value!r} {y:g}" for value, y in zip(values.tolist(), Y, strict=True)))
    pattern = read_pattern(path, wavelength, **stated(axis))
    np.testing.assert_allclose(pattern.two_theta, x, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(pattern.intensity, Y)
    lines, intensity = read_peak_list(path, wavelength, options=ReadOptions(**stated(axis)))[:2]
    np.testing.assert_allclose(lines, x, rtol=0, atol=1e-6)
    assert intensity is not None


@pytest.mark.parametrize("axis", AXES)
def test_the_same_lines_along_any_axis_have_the_same_cell(tmp_path: Path, axis: str) -> None:
    d = 5.6402 / np.sqrt([3.0, 4, 8, 11, 12, 16, 19, 20, 24, 27])
    angles = np.degrees(2 * np.arcsin(CU1 / 2 / d))
    (tmp_path / "lines.txt").write_text(rows(ALONG[axis](angles, CU1)))
    wavelength = None if axis == "energy" else CU1  # an equivalent one is chosen for energies
    reading = ReadOptions(**stated(axis))
    options = IndexOptions(wavelength=wavelength, peaks=True, systems=("cubic",), reading=reading)
    best = index_file(tmp_path / "lines.txt", options).best
    assert best is not None
    assert (best.centring, best.indexed) == ("F", 10)
    assert best.conventional[0] == pytest.approx(5.6402, rel=1e-4)


def test_energies_choose_the_wavelength_of_their_angles_and_say_so(tmp_path: Path) -> None:
    energy = ALONG["energy"](X, CU1)
    (tmp_path / "x.xy").write_text(rows(energy, Y))
    pattern = read_pattern(tmp_path / "x.xy", axis="energy", fixed_angle=FIXED)
    assert pattern.wavelength is not None
    np.testing.assert_allclose(spacing(pattern.two_theta, pattern.wavelength), spacing(X, CU1), rtol=1e-8)
    assert pattern.two_theta[-1] == pytest.approx(60, abs=0.1)
    assert pattern.notes == (f"energies at 2θ = 12° are shown as angles of the same d for {pattern.wavelength:g} Å",)


def test_a_spectrum_of_energies_is_indexed(tmp_path: Path) -> None:
    energy = np.linspace(2, 100, 2048)
    counts = 20 + 200 * np.exp(-(((energy - 50) / 40) ** 2))
    for place in 5.6402 / np.sqrt([3.0, 4, 8, 11, 12, 16, 19, 20, 24, 27]):
        line = KEV_ANGSTROM / (2 * place * math.sin(math.radians(FIXED / 2)))
        counts += 3000 * np.exp(-(((energy - line) / (0.1 + 0.0015 * line)) ** 2))
    counts = np.random.default_rng(0).poisson(counts).astype(np.float64)
    (tmp_path / "x.xy").write_text(rows(energy, counts))
    reading = ReadOptions("energy", fixed_angle=FIXED)
    result = index_file(tmp_path / "x.xy", IndexOptions(systems=("cubic",), refine=False, reading=reading))
    assert result.best is not None
    assert result.best.centring == "F"
    assert result.best.conventional[0] == pytest.approx(5.6402, rel=1e-3)
    assert "energies at 2θ = 12°" in result.hints[0]


@pytest.mark.parametrize(
    ("heading", "scale"), [("energy (keV)", 1), ("E [eV]", 1000), ("Photon energy", 1), ("keV", 1)]
)
def test_a_heading_of_energies_needs_only_the_fixed_angle(tmp_path: Path, heading: str, scale: float) -> None:
    (tmp_path / "x.csv").write_text(f"{heading},counts\n" + rows(scale * ALONG["energy"](X, CU1), Y, separator=","))
    two_theta = read_pattern(tmp_path / "x.csv", CU1, fixed_angle=FIXED).two_theta
    np.testing.assert_allclose(two_theta, X, rtol=0, atol=1e-5)


def test_a_stated_axis_replaces_the_heading_but_keeps_its_unit(tmp_path: Path) -> None:
    q = ALONG["q"](X, CU1)
    for heading, scale in (("q (1/nm), I", 10), ("x, I", 1), ("2theta, I", 1), ("E (furlong), I", 1)):
        (tmp_path / "x.csv").write_text(f"{heading}\n" + rows(scale * q, Y, separator=","))
        np.testing.assert_allclose(read_pattern(tmp_path / "x.csv", CU1, axis="q").two_theta, X, atol=1e-6)


def test_the_column_of_the_stated_quantity_is_found(tmp_path: Path) -> None:
    d = ALONG["d"](X, CU1)
    (tmp_path / "x.csv").write_text("no,2theta,d,I\n" + rows(np.arange(len(X)), X + 1, d, Y, separator=","))
    np.testing.assert_allclose(read_pattern(tmp_path / "x.csv", CU1, axis="d").two_theta, X, atol=1e-6)
    np.testing.assert_allclose(read_pattern(tmp_path / "x.csv", CU1).two_theta, X + 1, atol=1e-6)


XY = rows(X, Y).encode()
BAD: dict[str, tuple[str, bytes, dict[str, Any]]] = {
    "axis: unknown choice 'tof'; expected one of: 2theta, theta, d, q": ("x.xy", XY, {"axis": "tof"}),
    "found 'energy' as first column; an energy-dispersive pattern also needs the fixed angle of its detector: give "
    "--fixed-angle": ("x.xy", XY, {"axis": "energy"}),
    "fixed-angle: found 12, but the first column is 2θ, not energy": ("x.xy", XY, {"fixed_angle": 12}),
    "fixed-angle: found 12 with axis d, expected axis energy": ("x.xy", XY, {"axis": "d", "fixed_angle": 12}),
    "fixed-angle: found 0, expected 2θ of the detector": ("x.xy", XY, {"axis": "energy", "fixed_angle": 0}),
    "fixed-angle: found nan, expected": ("x.xy", XY, {"axis": "energy", "fixed_angle": math.nan}),
    "and an anode, but energies have no single wavelength": (
        "x.xy", XY, {"axis": "energy", "fixed_angle": 12, "anode": "Cu"},
    ),
    "whose conversion needs the wavelength; give --wavelength": ("x.xy", XY, {"axis": "q"}),
    "energy: found -5 in point 1, which has no 2θ": (
        "x.xy", rows(X - 15, Y).encode(), {"axis": "energy", "fixed_angle": 12},
    ),
    "d: found 0 in point 1, which has no 2θ": ("x.xy", rows(X - 10, Y).encode(), {"axis": "d", "wavelength": 0.1}),
    "sin2theta: found 10 in point 1, which has no 2θ": ("x.xy", XY, {"axis": "sin2theta"}),
    "axis: only for columns of text; .xrdml files state what": ("x.xrdml", xrdml(), {"axis": "d"}),
    "fixed-angle: only for columns of text; .raw files": ("x.raw", raw4(), {"fixed_angle": 5}),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD)
@pytest.mark.filterwarnings("error")
def test_an_impossible_axis_is_refused_in_one_line(tmp_path: Path, message: str) -> None:
    name, content, options = BAD[message]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        read_pattern(tmp_path / name, **options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_energies_without_a_positive_one_are_refused(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("0\n-1\n-2\n")
    with pytest.raises(InputError, match=r"lines.txt: energy: found -1 in point 2, which has no 2θ at 10 Å"):
        read_peak_list(tmp_path / "lines.txt", options=ReadOptions("energy", fixed_angle=FIXED))
