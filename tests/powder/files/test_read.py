"""Reading: every format gives the same pattern and its wavelength; bad files give an error of one line."""

import gzip
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.powder.files.contents import (
    CU1,
    CU2,
    ERRORS,
    FORMATS,
    ONE_LINE,
    X,
    Y,
    archive,
    brml,
    cif,
    gsas,
    ras,
    rasx,
    raw3,
    raw4,
    rows,
    words,
    xrdml,
)  # fmt: skip
from vitreous.core.errors import InputError
from vitreous.powder.files import read_pattern
from vitreous.powder.radiation import ANODES


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("compression", ["", ".gz"])
def test_every_format_gives_the_same_pattern_and_its_wavelength(tmp_path: Path, kind: str, compression: str) -> None:
    suffix, content = FORMATS[kind]
    path = tmp_path / f"x{suffix}{compression}"
    path.write_bytes(gzip.compress(content()) if compression else content())
    pattern = read_pattern(path)
    np.testing.assert_allclose(pattern.two_theta, X, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(pattern.intensity, Y)
    assert pattern.wavelength == pytest.approx(CU1, rel=1e-9)
    doublet = (None, 0.0) if kind in ONE_LINE else (pytest.approx(CU2, rel=1e-9), 0.5)
    assert (pattern.wavelength2, pattern.ratio) == doublet
    assert pattern.name == path.name


@pytest.mark.parametrize(
    ("suffix", "content"), [(".gsas", gsas("ESD")), (".fxye", gsas("FXYE")), (".xye", rows(X, Y, ERRORS).encode())]
)
def test_standard_errors_are_read(tmp_path: Path, suffix: str, content: bytes) -> None:
    (tmp_path / f"x{suffix}").write_bytes(content)
    np.testing.assert_array_equal(read_pattern(tmp_path / f"x{suffix}").sigma, ERRORS)


def test_standard_errors_of_a_cif_are_in_parentheses_or_follow_from_weights(tmp_path: Path) -> None:
    path = tmp_path / "x.cif"
    path.write_bytes(cif(with_errors=True))
    np.testing.assert_array_equal(read_pattern(path).sigma, np.round(np.sqrt(Y)))
    loop = "\n".join(f"{x} {y} {w}" for x, y, w in zip(X, Y, 1 / ERRORS**2, strict=True))
    path.write_text(
        "data_x\n_diffrn_radiation_wavelength 0.72956(2)\n"
        f"loop_\n_pd_meas.2theta_scan\n_pd_proc.intensity_total\n_pd_proc.ls_weight\n{loop}\n"
    )
    pattern = read_pattern(path)
    assert (pattern.wavelength, pattern.wavelength2) == (0.72956, None)
    assert pattern.sigma is not None
    np.testing.assert_allclose(pattern.sigma, ERRORS)


def test_a_third_column_holds_standard_errors_unless_its_name_says_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    for name, is_error in (("sigma", True), ("esd", True), ("error", True), ("background", False), ("Icalc", False)):
        path.write_text(f"two_theta,intensity,{name}\n{rows(X, Y, ERRORS, separator=',')}")
        assert (read_pattern(path).sigma is not None) == is_error
    path.write_text(rows(X, Y, 0 * X))
    assert read_pattern(path).sigma is None


@pytest.mark.parametrize(
    ("line", "wavelength"),
    [
        ("# Wavelength: 1.54060", 1.5406),
        ("## Calibrated wavelength = 0.412359", 0.412359),
        ("! lambda .7295", 0.7295),
        ("# wavelength (nm) = 0.15406", 1.5406),
        ("# Wavelength: 7.2956e-11 m", 0.72956),
        ("_WL1 = 1.78897", 1.78897),
        ("Alpha1=1.5406", 1.5406),
        ("# cell 4.1 4.1 4.1 alpha=90.0 beta=90.0", None),
        ("K-Alpha1 wavelength,1.540598", 1.540598),
        ("K-Beta wavelength,1.39225", None),
        ("Intended wavelength type,K-Alpha 1", None),
        ("Ratio K-Alpha2/K-Alpha1,0.5", None),
        ("# wavelength = 0.0", None),
        ("# exported 2024-05-01 by k.a. 1.5406", None),
        ("# step 0.05", None),
    ],
)
def test_the_wavelength_is_read_from_the_header(tmp_path: Path, line: str, wavelength: float | None) -> None:
    (tmp_path / "x.txt").write_text(f"{line}\n{rows(X, Y)}")
    assert read_pattern(tmp_path / "x.txt").wavelength == (None if wavelength is None else pytest.approx(wavelength))


def test_a_file_measured_with_a_monochromator_has_one_wavelength(tmp_path: Path) -> None:
    for name, content, line in (
        ("x.ras", ras("Ka1"), CU1), ("x.rasx", rasx("Ka1"), CU1), ("x.xrdml", xrdml("K-Beta"), 1.39225),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        pattern = read_pattern(tmp_path / name)
        assert (pattern.wavelength, pattern.wavelength2, pattern.ratio) == (line, None, 0.0)


def test_the_radiation_of_the_user_replaces_that_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "x.xrdml").write_bytes(xrdml())
    other = read_pattern(tmp_path / "x.xrdml", wavelength=0.73)
    assert (other.wavelength, other.wavelength2, other.ratio) == (0.73, None, 0.0)
    same = read_pattern(tmp_path / "x.xrdml", wavelength=1.5406)
    assert (same.wavelength, same.wavelength2, same.ratio) == (1.5406, CU2, 0.5)
    mean = read_pattern(tmp_path / "x.xrdml", wavelength=1.5418)  # of the doublet, so that Kα2 is in it already
    assert (mean.wavelength, mean.wavelength2) == (1.5418, None)
    tube = read_pattern(tmp_path / "x.xrdml", anode="co")
    assert (tube.wavelength, tube.wavelength2, tube.ratio) == (*ANODES["Co"], 0.5)


def changed(values: NDArray[Any], point: int, value: float) -> NDArray[Any]:
    result = values.copy()
    result[point] = value
    return result


BILLION = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><xrdMeasurements>&b;</xrdMeasurements>'
BAD: dict[str, tuple[str, bytes | str]] = {
    "found a sorted second column and an unsorted first one; are 2θ and intensity swapped?": ("x.xy", rows(Y, X)),
    "2θ: found 10.1 after 10.1, expected ascending angles": ("x.xy", rows(changed(X, 2, X[1]), Y)),
    "2θ: found -5 to 35, expected degrees within 0 to 180": ("x.xy", rows(X - 15, Y)),
    "2θ: found 150 to 190, expected degrees within 0 to 180": ("x.xy", rows(X + 140, Y)),
    "2θ: found nan in point 4": ("x.xy", rows(changed(X, 3, np.nan), Y)),
    "intensity: found -923 at 2θ = 27.3, expected at most noise below zero": ("x.xy", rows(X, np.round(-Y))),
    "intensity: found -999 at 2θ = 12, expected at most noise": ("x.xy", rows(X, changed(Y, 20, -999))),
    "intensity: found nan in point 21, expected a finite number": ("x.xy", rows(X, changed(Y, 20, np.nan))),
    "intensity: found inf in point 21": ("x.xy", rows(X, changed(Y, 20, np.inf))),
    "intensity: found 5 throughout, expected a pattern": ("x.xy", rows(X, 0 * X + 5)),
    "standard error: found -1, expected no negative number": ("x.xye", rows(X, Y, changed(ERRORS, 3, -1))),
    "found 10 point(s), expected 50 or more; is this a list of peaks?": ("x.xy", rows(X[:10], Y[:10])),
    "empty file": ("x.xy", "\n \n"),
    "line 12: found '11.1 lost', expected numbers": ("x.xy", rows(X[:11], Y[:11]) + "11.1 lost\n" + rows(X, Y)),
    "line 4: found 1 columns, the lines before it have 2": ("x.xy", "1 2\n2 3\n3 4\n4\n"),
    "line 2: found 10 columns, the lines before it have 3": ("x.dat", "10 0.1 50\n" + words(Y[:10])),
    "line 2: found '11,,5', expected numbers": ("x.csv", "10,1,5\n11,,5\n"),
    "found 4 columns, expected 2θ, intensity and optionally its standard error": ("x.xy", rows(X, Y, Y, Y)),
    "found no rows of numbers, expected 2θ and intensity": ("x.txt", "a letter\nto a friend\n"),
    "x.csv: found no rows of numbers, expected 2θ": ("x.csv", "# wavelength = 1.54\ntwo_theta,intensity\n"),
    "q_A^-1: found 10 in point 1, which has no 2θ at 1.54059 Å": ("x.dat", "# q_A^-1 I\n" + rows(X, Y)),
    "found binary content, expected text": ("x.xy", raw4()),
    "file type: unknown choice '.xlsx'; expected one of: .xy, .xye, .csv, .dat, .txt, .xrdml": ("x.xlsx", "1 2"),
    "file type: unknown choice ''; expected one of": ("x.gz", "1 2"),
    "found a document type declaration, expected plain XML": ("x.xrdml", BILLION),
    "found a document type declaration": ("y.xrdml", BILLION.encode("utf-16")),
    "cannot be read as .xrdml (syntax error": ("x.xrdml", "10 20"),
    "cannot be read as .xrdml (no element found": ("x.xrdml", xrdml()[:-100]),
    "cannot be read as .ras (": ("x.ras", ras()[:2000]),
    "cannot be read as .rasx (File is not a zip file)": ("x.rasx", rasx()[:1000]),
    "cannot be read as .brml (File is not a zip file)": ("x.brml", brml()[:1000]),
    "cannot be read as .brml (": ("x.brml", archive({"a.txt": "b"})),
    "cannot be read as .raw (": ("x.raw", raw4()[:900]),
    "cannot be read as .raw (Parse error: Bruker RAW: truncated": ("x.raw", raw3()[:-3]),
    "cannot be read as .gsa (": ("x.gsa", gsas("STD")[:1000]),
    "cannot be read as .cif (": ("x.cif", b"data_x\nloop_\n_a\n_b\n1 2 3\n"),
    "found no powder profile, expected _pd_meas_2theta_scan and": ("x.cif", "data_x\n_cell_length_a 4.156\n"),
    "found 'lost' in value 3 of a profile, expected a number": (
        "x.cif",
        "data_x\nloop_\n_pd_meas_2theta_scan\n_pd_meas_counts_total\n1 2\n3 4\n5 lost\n",
    ),
    "cannot be read as .xy (Compressed file ended before": ("x.xy.gz", gzip.compress(rows(X, Y).encode())[:500]),
    "cannot be read as .xy (Not a gzipped file": ("x.xy.gz", rows(X, Y)),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD)
def test_a_bad_file_gives_an_error_of_one_line(tmp_path: Path, message: str) -> None:
    name, content = BAD[message]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as error:
        read_pattern(tmp_path / name, anode="Cu")
    assert message in str(error.value)
    assert f"{name}: " in str(error.value)
    assert "\n" not in str(error.value)


CUT = len(Y) * 9 // 10
RANGE_CIF = cif(scan=False)
COUNTED = b"loop_\n_pd", b"_pd_meas_number_of_points 401\nloop_\n_pd"
INCOMPLETE: dict[str, tuple[str, bytes]] = {  # the last tenth of the points is missing
    "CIF with a range": ("states 2θ from 10 to 50 by 0.1, 401 points, found 360", RANGE_CIF),
    "CIF with a count": (
        "states 401 points, found 360",
        cif().replace(b"loop_\n_pd", b"_pd_meas_number_of_points 401\nloop_\n_pd"),
    ),
    "GSAS STD": ("data is shorter than the declared 401 channels", gsas("STD")),
    "GSAS ESD": ("data is shorter than the declared 401 channels", gsas("ESD")),
    "GSAS FXYE": ("BANK declares 401 points but 360 were read", gsas("FXYE")),
}


def without_last_points(content: bytes) -> bytes:
    lines = content.splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith((b"BANK", b"_pd_meas_counts"))) + 1
    return b"\n".join([*lines[: first + round((len(lines) - first) * CUT / len(Y))], b""])


@pytest.mark.parametrize("kind", INCOMPLETE)
def test_a_file_without_its_last_points_is_refused(tmp_path: Path, kind: str) -> None:
    message, content = INCOMPLETE[kind]
    path = tmp_path / f"x{FORMATS.get(kind, ('.cif',))[0]}"
    path.write_bytes(content)
    assert len(read_pattern(path).two_theta) == len(X)
    path.write_bytes(without_last_points(content))
    with pytest.raises(InputError, match=message):
        read_pattern(path)


STATED: dict[str, tuple[str, Callable[[int], bytes]]] = {  # contents with a stated number of points
    "text": (".xy", lambda n: f"{n}\n{rows(X, Y)}".encode()),
    "Rigaku": (".ras", lambda n: ras().replace(b"*RAS_HEADER_END", b'*MEAS_DATA_COUNT "%d"\n*RAS_HEADER_END' % n)),
    "Bruker zip": (".brml", lambda n: brml(f"<MeasurementPoints>{n}</MeasurementPoints>")),
    "CIF": (".cif", lambda n: RANGE_CIF.replace(b"loop_\n_pd", b"_pd_meas_number_of_points %d\nloop_\n_pd" % n)),
}


@pytest.mark.parametrize("kind", STATED)
def test_the_stated_number_of_points_must_be_that_of_the_file(tmp_path: Path, kind: str) -> None:
    suffix, content = STATED[kind]
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content(len(X)))
    np.testing.assert_allclose(read_pattern(path).two_theta, X, rtol=0, atol=1e-9)
    path.write_bytes(content(len(X) + 40))
    with pytest.raises(InputError, match=r"states 441 points, found 401|point count disagrees"):
        read_pattern(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            b"_pd_meas_2theta_range_inc 0.1",
            b"",
            "states 2θ from 10 to 50 only, expected also _pd_meas_2theta_range_inc",
        ),
        (b"range_inc 0.1", b"range_inc 0.2", "states 2θ from 10 to 50 by 0.2, 201 points, found 401"),
        (b"range_inc 0.1", b"range_inc 0", "_pd_meas_2theta_range_inc: found 0, expected a positive number"),
    ],
)
def test_the_range_of_a_cif_must_fix_its_angles(tmp_path: Path, old: bytes, new: bytes, message: str) -> None:
    assert old in RANGE_CIF
    (tmp_path / "x.cif").write_bytes(RANGE_CIF.replace(old, new))
    with pytest.raises(InputError, match=message):
        read_pattern(tmp_path / "x.cif")


def test_the_angles_of_a_cif_may_follow_from_the_first_and_the_increment(tmp_path: Path) -> None:
    (tmp_path / "x.cif").write_bytes(RANGE_CIF.replace(b"_pd_meas_2theta_range_max 50", b""))
    np.testing.assert_allclose(read_pattern(tmp_path / "x.cif").two_theta, X, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("suffix", "content"), [(s, c) for s, c in FORMATS.values() if s not in (".xy", ".txt", ".csv")]
)
def test_a_damaged_file_never_gives_a_traceback(tmp_path: Path, suffix: str, content: Callable[[], bytes]) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / f"x{suffix}"
    whole = content()
    for _ in range(20):
        damaged = bytearray(whole[: rng.integers(1, len(whole))])
        damaged[rng.integers(len(damaged))] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            read_pattern(path)
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017 - damage may also leave a pattern that can be read


def test_times_of_flight_are_refused_saying_what_is_missing(tmp_path: Path) -> None:
    bank = gsas("STD").replace(b"CONST", b"SLOG")
    assert b"SLOG" in bank
    (tmp_path / "x.gsa").write_bytes(bank)
    with pytest.raises(InputError, match=r"found a bank of times of flight \(SLOG\), expected .* the calibration"):
        read_pattern(tmp_path / "x.gsa")
    (tmp_path / "x.xy").write_text(rows(100 * X, Y))
    with pytest.raises(InputError, match="times of flight must be converted to d first"):
        read_pattern(tmp_path / "x.xy")


def test_noise_below_zero_is_accepted(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(0, 3, len(X))
    (tmp_path / "x.xy").write_text(rows(X, Y - 20 + noise))
    assert read_pattern(tmp_path / "x.xy").intensity.min() < -5


@pytest.mark.parametrize(
    ("message", "choice"),
    [
        (r"wavelength: found 0.073, expected 0.1 to 10 ångström; is that in nm\?", {"wavelength": 0.073}),
        (r"wavelength: found 0.0251, .*; for electrons, give the rings as a list of d", {"wavelength": 0.0251}),
        (r"wavelength: found 154.06, expected 0.1 to 10 ångström; is that in pm\?", {"wavelength": 154.06}),
        ("wavelength: found 0, expected 0.1 to 10 ångström$", {"wavelength": 0}),
        ("wavelength: found -1.54, expected 0.1 to 10 ångström$", {"wavelength": -1.54}),
        ("wavelength: found nan, expected", {"wavelength": float("nan")}),
        ("anode: unknown choice 'Xx'; expected one of: Cr, Fe, Co, Cu, Ga, Mo, Ag, W", {"anode": "xx"}),
        ("found both wavelength 1.54 and anode Cu, expected one of them", {"wavelength": 1.54, "anode": "Cu"}),
    ],
)  # fmt: skip
def test_invalid_radiation_is_refused(tmp_path: Path, message: str, choice: dict[str, Any]) -> None:
    (tmp_path / "x.xy").write_text(rows(X, Y))
    with pytest.raises(InputError, match=message):
        read_pattern(tmp_path / "x.xy", **choice)


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.xy: no such file"):
        read_pattern(tmp_path / "none.xy")
    with pytest.raises(InputError, match="found a folder, expected a file"):
        read_pattern(tmp_path)


@pytest.mark.parametrize(("package", "name", "content"), [("geddes", "x.xrdml", xrdml()), ("gemmi", "x.cif", cif())])
def test_an_error_about_a_missing_package_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"this needs {package}, .* pip install 'vitreous\[powder\]'"):
        read_pattern(tmp_path / name)
