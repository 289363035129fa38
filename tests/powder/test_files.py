"""Pattern files: every format gives the same pattern and its wavelength, bad ones are one line each."""

import csv
import gzip
import io
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from vitreous.data import data_folder
from vitreous.errors import InputError
from vitreous.powder import instruments
from vitreous.powder.files import ANODES, Pattern, read_pattern, require_wavelength, to_grid, write_pattern

CU1, CU2 = 1.540598, 1.544426
X = np.round(np.linspace(10, 50, 401), 4)
Y = np.round(20 + 900 * np.exp(-(((X - 27.3) / 0.3) ** 2)) + 5 * np.sin(7 * X))  # whole counts suit every format
ERRORS = np.round(np.sqrt(Y), 2)


def peak(two_theta: NDArray[Any], d: float, wavelength: float, width: float = 0.05) -> NDArray[np.float64]:
    """One line of unit height from planes d ångström apart."""
    at = 2 * np.degrees(np.arcsin(wavelength / (2 * d)))
    result: NDArray[np.float64] = np.exp(-(((two_theta - at) / width) ** 2))
    return result


def words(values: NDArray[Any]) -> str:
    return " ".join(f"{value:g}" for value in values)


def rows(*columns: NDArray[Any], separator: str = " ") -> str:
    return "\n".join(separator.join(f"{value:.10g}" for value in row) for row in zip(*columns, strict=True)) + "\n"


def archive(members: dict[str, str]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in members.items():
            target.writestr(name, content)
    return file.getvalue()


def xrdml(intended: str = "K-Alpha 1", unit: str = "Angstrom", scale: float = 1) -> bytes:
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<xrdMeasurements xmlns="http://www.xrdml.com/XRDMeasurement/1.5"><xrdMeasurement>
<usedWavelength intended="{intended}"><kAlpha1 unit="{unit}">{CU1 * scale:.7f}</kAlpha1>
<kAlpha2 unit="{unit}">{CU2 * scale:.7f}</kAlpha2><kBeta unit="{unit}">{1.39225 * scale:.7f}</kBeta>
<ratioKAlpha2KAlpha1>0.5</ratioKAlpha2KAlpha1></usedWavelength>
<scan scanAxis="Gonio"><dataPoints><positions axis="2Theta" unit="deg"><startPosition>10</startPosition>
<endPosition>50</endPosition></positions><intensities unit="counts">{words(Y)}</intensities></dataPoints></scan>
</xrdMeasurement></xrdMeasurements>""".encode()


def ras(wave: str = "Ka") -> bytes:
    return f"""*RAS_DATA_START
*RAS_HEADER_START
*HW_XG_WAVE_LENGTH_ALPHA1 "{CU1}"
*HW_XG_WAVE_LENGTH_ALPHA2 "{CU2}"
*HW_XG_WAVE_LENGTH_UNIT "Angstrom"
*HW_XG_WAVE_TYPE "{wave}"
*MEAS_SCAN_AXIS_X "2theta"
*RAS_HEADER_END
*RAS_INT_START
{rows(X, Y, np.ones_like(X))}*RAS_INT_END
*RAS_DATA_END
""".encode()


def rasx(wave: str = "Ka") -> bytes:
    names = ("Profile0.txt", "MesurementConditions0.xml")
    root = "".join(f'<ContentHashList Name="{name}"/>' for name in names)
    conditions = (
        f"<Measurement><ScanInformation><AxisName>TwoThetaTheta</AxisName></ScanInformation><HWConfigurations>"
        f"<XrayGenerator><WaveType>{wave}</WaveType><WavelengthKalpha1>{CU1}</WavelengthKalpha1>"
        f"<WavelengthKalpha2>{CU2}</WavelengthKalpha2></XrayGenerator></HWConfigurations></Measurement>"
    )
    return archive(
        {
            "root.xml": f"<Root><Data0>{root}</Data0></Root>",
            f"Data0/{names[0]}": rows(X, Y, np.ones_like(X)),
            f"Data0/{names[1]}": conditions,
        }
    )


def brml() -> bytes:
    tube = "".join(
        f'<WaveLength{name} Unit="{unit}" Value="{value}"/>'
        for name, unit, value in (("Alpha1", "Å", CU1), ("Alpha2", "Å", CU2), ("Ratio", "", 0.5))
    )
    views = (
        '<RawDataView xsi:type="VaryingRawDataView" Start="0" Length="1"><Varying><FieldDefinitions AxisId="TwoTheta"/>'
        '</Varying></RawDataView><RawDataView xsi:type="RecordedRawDataView" Start="1" Length="1"/>'
    )
    data = "".join(f"<Datum>{x:.4f},{y:g}</Datum>" for x, y in zip(X, Y, strict=True))
    instance = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    return archive(
        {
            "Experiment0/DataContainer.xml": "<DataContainer><RawDataReferenceList>"
            "<string>Experiment0/RawData0.xml</string></RawDataReferenceList></DataContainer>",
            "Experiment0/RawData0.xml": f"<RawData {instance}><Tube>{tube}</Tube><DataRoutes>"
            f'<DataRoute RouteFlag="Measured">{views}{data}</DataRoute></DataRoutes></RawData>',
        }
    )


def raw3() -> bytes:
    head, scan = bytearray(712), bytearray(304)
    head[:7] = b"RAW1.01"
    struct.pack_into("<I", head, 12, 1)
    struct.pack_into("<5d", head, 616, 1.5418, CU1, CU2, 1.39225, 0.5)
    struct.pack_into("<II", scan, 0, len(scan), len(X))
    struct.pack_into("<d", scan, 16, X[0])
    struct.pack_into("<d", scan, 176, 0.1)
    struct.pack_into("<II", scan, 252, 4, 0)
    return bytes(head + scan + Y.astype("<f4").tobytes())


def raw4() -> bytes:
    head, comment, source, scan = bytearray(61), bytearray(40), bytearray(136), bytearray(160)
    head[:7] = b"RAW4.00"
    struct.pack_into("<II", comment, 0, 10, len(comment))
    struct.pack_into("<II", source, 0, 30, len(source))
    struct.pack_into("<5d", source, 72, 1.5418, CU1, CU2, 1.39225, 0.5)
    scan[32:46] = b"Locked Coupled"
    struct.pack_into("<dd", scan, 72, X[0], 0.1)
    struct.pack_into("<I", scan, 88, len(X))
    struct.pack_into("<I", scan, 136, 4)
    return bytes(head + comment + source + scan + Y.astype("<f4").tobytes())


def gsas(kind: str) -> bytes:
    values = {
        "STD": [f"{y:8.0f}" for y in Y],
        "ESD": [f"{y:8.0f}{e:8.2f}" for y, e in zip(Y, ERRORS, strict=True)],
        "FXYE": [f"{100 * x:15.6f}{y:15.6f}{e:15.6f}" for x, y, e in zip(X, Y, ERRORS, strict=True)],
    }[kind]
    width = {"STD": 10, "ESD": 5, "FXYE": 1}[kind]
    lines = ["".join(values[k : k + width]) for k in range(0, len(values), width)]
    bank = f"BANK 1 {len(X)} {len(lines)} CONST 1000.0 10.0 0 0 {kind}"
    return "\n".join(["quartz", f"# Mean wavelength is:   {CU1}", bank, *lines, ""]).encode()


def cif(with_errors: bool = False, scan: bool = True) -> bytes:
    counts = [f"{y:g}({np.sqrt(y):.0f})" if with_errors else f"{y:g}" for y in Y]
    angles = [f"{x:.4f} " if scan else "" for x in X]
    start = "" if scan else "_pd_meas_2theta_range_min 10\n_pd_meas_2theta_range_max 50\n"
    column = "_pd_meas_2theta_scan\n" if scan else ""
    return (
        f"data_radiation\nloop_\n_diffrn_radiation_wavelength\n_diffrn_radiation_wavelength_wt\n{CU1} 1.0\n{CU2} 0.5\n"
        f"data_profile\n{start}loop_\n{column}_pd_meas_counts_total\n"
        + "\n".join(angle + count for angle, count in zip(angles, counts, strict=True))
    ).encode()


STATED = f"wavelength = {CU1} Å; wavelength2 = {CU2}; ratio = 0.5"
FORMATS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "spaces": (".xy", lambda: f"# {STATED}\n{rows(X, Y)}".encode()),
    "tabs and Windows": (".txt", lambda: f"! {STATED}\n{rows(X, Y, separator=chr(9))}".replace("\n", "\r\n").encode()),
    "commas": (".csv", lambda: f"{STATED}\nangle,counts\n{rows(X, Y, separator=', ')}".encode()),
    "Latin": (".dat", lambda: f"Kα1: {CU1} Å\n{rows(X, Y)}".replace("α", "a").encode("latin-1")),
    "UTF-16": (".txt", lambda: f"'{STATED}\n401\n{rows(X, Y)}".encode("utf-16")),
    "decimal commas": (".csv", lambda: f"; {STATED}\n{rows(X, Y, separator=';').replace('.', ',')}".encode()),
    "trailing commas": (
        ".txt",
        lambda: f"{STATED}\n[Data]\n{rows(X, Y, separator=', ')}".replace("\n", ",\n").encode(),
    ),
    "falling": (".xy", lambda: f"# {STATED}\n{rows(X[::-1], Y[::-1])}".encode()),
    "Panalytical": (".xrdml", xrdml),
    "Panalytical in nm": (".xrdml", lambda: xrdml(unit="nm", scale=0.1)),
    "Rigaku": (".ras", ras),
    "Rigaku zip": (".rasx", rasx),
    "Bruker zip": (".brml", brml),
    "Bruker 3": (".raw", raw3),
    "Bruker 4": (".raw", raw4),
    "GSAS STD": (".gsa", lambda: gsas("STD")),
    "GSAS as raw": (".raw", lambda: gsas("STD")),
    "GSAS ESD": (".gsas", lambda: gsas("ESD")),
    "GSAS FXYE": (".fxye", lambda: gsas("FXYE")),
    "CIF": (".cif", cif),
    "CIF with a range": (".cif", lambda: cif(scan=False)),
}
ONE_LINE = {"GSAS STD", "GSAS as raw", "GSAS ESD", "GSAS FXYE", "Latin"}  # whose header here names one wavelength


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_every_format_gives_the_same_pattern_and_its_wavelength(tmp_path: Path, kind: str, packed: str) -> None:
    suffix, content = FORMATS[kind]
    path = tmp_path / f"x{suffix}{packed}"
    path.write_bytes(gzip.compress(content()) if packed else content())
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
def test_standard_errors_are_kept(tmp_path: Path, suffix: str, content: bytes) -> None:
    (tmp_path / f"x{suffix}").write_bytes(content)
    np.testing.assert_array_equal(read_pattern(tmp_path / f"x{suffix}").sigma, ERRORS)


def test_standard_errors_of_a_cif_stand_in_parentheses_or_are_weights(tmp_path: Path) -> None:
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


def test_a_third_column_is_an_error_unless_its_name_says_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    for name, known in (("sigma", True), ("esd", True), ("error", True), ("background", False), ("Icalc", False)):
        path.write_text(f"two_theta,intensity,{name}\n{rows(X, Y, ERRORS, separator=',')}")
        assert (read_pattern(path).sigma is not None) == known
    path.write_text(rows(X, Y, 0 * X))
    assert read_pattern(path).sigma is None


@pytest.mark.parametrize(
    ("line", "found"),
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
def test_the_wavelength_is_taken_from_a_line_that_states_it(tmp_path: Path, line: str, found: float | None) -> None:
    (tmp_path / "x.txt").write_text(f"{line}\n{rows(X, Y)}")
    assert read_pattern(tmp_path / "x.txt").wavelength == (None if found is None else pytest.approx(found))


def test_a_monochromator_leaves_one_line(tmp_path: Path) -> None:
    for name, content, line in (
        ("x.ras", ras("Ka1"), CU1), ("x.rasx", rasx("Ka1"), CU1), ("x.xrdml", xrdml("K-Beta"), 1.39225),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        pattern = read_pattern(tmp_path / name)
        assert (pattern.wavelength, pattern.wavelength2, pattern.ratio) == (line, None, 0.0)


def test_the_word_of_the_user_stands_above_the_file(tmp_path: Path) -> None:
    (tmp_path / "x.xrdml").write_bytes(xrdml())
    other = read_pattern(tmp_path / "x.xrdml", wavelength=0.73)
    assert (other.wavelength, other.wavelength2, other.ratio) == (0.73, None, 0.0)
    same = read_pattern(tmp_path / "x.xrdml", wavelength=1.5406)
    assert (same.wavelength, same.wavelength2, same.ratio) == (1.5406, CU2, 0.5)
    mean = read_pattern(tmp_path / "x.xrdml", wavelength=1.5418)  # of the doublet, so that Kα2 is in it already
    assert (mean.wavelength, mean.wavelength2) == (1.5418, None)
    tube = read_pattern(tmp_path / "x.xrdml", anode="co")
    assert (tube.wavelength, tube.wavelength2, tube.ratio) == (*ANODES["Co"], 0.5)


def test_anodes_follow_moseley() -> None:
    numbers = {"Cr": 24, "Fe": 26, "Co": 27, "Cu": 29, "Ga": 31, "Mo": 42, "Ag": 47, "W": 74}
    for anode, number in numbers.items():
        first, second = ANODES[anode]
        assert first == pytest.approx(
            1215.02 / (number - 1) ** 2, rel=0.09
        )  # 4/3R / (Z - 1)², which leaves out relativity
        fine = (second - first) / first * 1e4 / (number - 1) ** 2  # splitting over energy goes as Z²
        assert fine == pytest.approx(0.0372, abs=0.009)


@settings(max_examples=30, deadline=None)
@given(
    steps=st.lists(st.floats(0.001, 1), min_size=60, max_size=80),
    seed=st.integers(0, 99),
    kind=st.sampled_from([".xy", ".xye", ".csv"]),
    wavelength=st.none() | st.floats(0.11, 9.5),
    ratio=st.floats(0, 1),
)
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[float],
    seed: int,
    kind: str,
    wavelength: float | None,
    ratio: float,
) -> None:
    rng = np.random.default_rng(seed)
    x = np.cumsum(steps)
    second = wavelength * 1.0025 if wavelength and ratio else None
    sigma = None if kind == ".xy" else rng.uniform(0.1, 1, len(x))
    path = tmp_path_factory.mktemp("written") / f"x{kind}"
    written = Pattern(x, rng.exponential(100, len(x)), sigma, wavelength, path.name, second, ratio if second else 0.0)
    write_pattern(path, written)
    found = read_pattern(path)
    np.testing.assert_array_equal(found.two_theta, written.two_theta)
    np.testing.assert_array_equal(found.intensity, written.intensity)
    assert (found.sigma is None) == (sigma is None)
    if sigma is not None:
        np.testing.assert_array_equal(found.sigma, sigma)
    assert (found.wavelength, found.wavelength2, found.ratio, found.name) == (
        wavelength, written.wavelength2, written.ratio, path.name,
    )  # fmt: skip


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    pattern = Pattern(X, Y, None, None, "x.xy")
    with pytest.raises(
        InputError, match=r"a.brml: file type: unknown choice '.brml'; expected one of: .xy, .xye, .csv"
    ):
        write_pattern(tmp_path / "a.brml", pattern)
    with pytest.raises(InputError, match=r"a.xye: x.xy has no standard errors for an .xye file; expected .xy or .csv"):
        write_pattern(tmp_path / "a.xye", pattern)


@given(d=st.floats(1.5, 6))
def test_a_spacing_lands_on_its_q_whatever_the_wavelength(d: float) -> None:
    q = np.arange(0.5, 5, 0.005)
    x = np.arange(2, 120, 0.01)
    for wavelength in (CU1, 0.73):
        carried = to_grid(Pattern(x, peak(x, d, wavelength), None, wavelength, "x"), q)
        assert abs(q[np.argmax(carried)] - 2 * np.pi / d) <= 0.005


def area_on(count: int) -> float:
    """Area of a peak on so many points of q, over its area in the data, whose step there is that of 8000 points."""
    x = np.arange(2, 120, 0.01)
    y = peak(x, 3, CU1)
    q = np.linspace(0.5, 6, count)
    measured = np.trapezoid(y, 4 * np.pi / CU1 * np.sin(np.radians(x / 2)))
    return float(to_grid(Pattern(x, y, None, CU1, "x"), q).sum() * (q[1] - q[0]) / measured)


@given(count=st.integers(100, 7_900))
def test_a_coarser_grid_keeps_the_area_of_a_peak(count: int) -> None:
    assert area_on(count) == pytest.approx(1, rel=1e-9)


@given(count=st.integers(7_900, 40_000))
def test_a_finer_grid_keeps_the_area_of_a_peak_as_well_as_straight_lines_can(count: int) -> None:
    assert area_on(count) == pytest.approx(1, rel=0.01)  # h²/8 ∫|y″| / ∫y for a step h a fifth of the peak's width


def test_a_fine_grid_is_interpolated_and_nothing_lies_outside() -> None:
    at = 4 * np.pi / CU1 * np.sin(np.radians(X / 2))
    q = np.linspace(0, 6, 100_000)
    carried = to_grid(Pattern(X, Y, None, CU1, "x"), q)
    np.testing.assert_array_equal(carried, np.interp(q, at, Y, left=0, right=0))
    level = to_grid(Pattern(X, 0 * X + 7, None, CU1, "x"), q[::2000])
    np.testing.assert_allclose(level, np.where((q[::2000] >= at[0]) & (q[::2000] <= at[-1]), 7, 0))


def test_q_needs_a_wavelength_and_a_grid_that_rises(tmp_path: Path) -> None:
    (tmp_path / "x.xy").write_text(rows(X, Y))
    silent = read_pattern(tmp_path / "x.xy")
    told = r"^x.xy: does not state its wavelength; give --wavelength \(in ångström\) or --anode Cu$"
    for use in (require_wavelength, lambda pattern: to_grid(pattern, np.arange(1.0, 5))):
        with pytest.raises(InputError, match=told):
            use(silent)
    known = read_pattern(tmp_path / "x.xy", anode="Mo")
    assert require_wavelength(known) == ANODES["Mo"][0]
    with pytest.raises(
        InputError, match=r"grid of q: found shape \(2,\), expected two or more finite numbers that rise"
    ):
        to_grid(known, np.array([2.0, 1.0]))


def changed(values: NDArray[Any], point: int, value: float) -> NDArray[Any]:
    out = values.copy()
    out[point] = value
    return out


BILLION = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><xrdMeasurements>&b;</xrdMeasurements>'
BAD: dict[str, tuple[str, bytes | str]] = {
    "found a second column in order and a first that is not; are 2θ and intensity swapped?": ("x.xy", rows(Y, X)),
    "2θ: found 10.1 after 10.1, expected it to rise": ("x.xy", rows(changed(X, 2, X[1]), Y)),
    "2θ: found -5 to 35, expected degrees within 0 to 180": ("x.xy", rows(X - 15, Y)),
    "2θ: found 150 to 190, expected degrees within 0 to 180": ("x.xy", rows(X + 140, Y)),
    "2θ: found nan in point 4": ("x.xy", rows(changed(X, 3, np.nan), Y)),
    "intensity: found -923 at 2θ = 27.3, expected noise at most below zero": ("x.xy", rows(X, np.round(-Y))),
    "intensity: found -999 at 2θ = 12, expected noise": ("x.xy", rows(X, changed(Y, 20, -999))),
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
    "found 4 columns, expected 2θ, intensity and, if known, its standard error": ("x.xy", rows(X, Y, Y, Y)),
    "found no rows of numbers, expected 2θ and intensity": ("x.txt", "a letter\nto a friend\n"),
    "found 'q_A^-1' as first column, expected 2θ in degrees": ("x.dat", "# q_A^-1 I\n" + rows(X, Y)),
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


@pytest.mark.parametrize("told", BAD)
def test_a_bad_file_is_one_line(tmp_path: Path, told: str) -> None:
    name, content = BAD[told]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as fault:
        read_pattern(tmp_path / name, anode="Cu")
    assert told in str(fault.value)
    assert f"{name}: " in str(fault.value)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(
    ("suffix", "content"), [(s, c) for s, c in FORMATS.values() if s not in (".xy", ".txt", ".csv")]
)
def test_damage_is_never_a_traceback(tmp_path: Path, suffix: str, content: Callable[[], bytes]) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / f"x{suffix}"
    whole = content()
    for _ in range(20):
        damaged = bytearray(whole[: rng.integers(1, len(whole))])
        damaged[rng.integers(len(damaged))] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            read_pattern(path)
        except InputError as fault:
            assert "\n" not in str(fault)  # noqa: PT017 - damage may also leave a pattern that can be read


def test_noise_may_lie_below_zero(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(0, 3, len(X))
    (tmp_path / "x.xy").write_text(rows(X, Y - 20 + noise))
    assert read_pattern(tmp_path / "x.xy").intensity.min() < -5


def test_what_would_swell_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swollen = archive({"Experiment0/RawData0.xml": " " * 5000})
    (tmp_path / "x.brml").write_bytes(swollen)
    (tmp_path / "x.xy.gz").write_bytes(gzip.compress(rows(X, Y).encode()))
    monkeypatch.setattr(instruments, "LARGEST", 1000)
    with pytest.raises(InputError, match=r"RawData0.xml' would unpack to \d+ bytes, expected 1000 at most"):
        read_pattern(tmp_path / "x.brml")
    with pytest.raises(InputError, match=r"x.xy.gz: found more than 1000 bytes, expected a powder pattern"):
        read_pattern(tmp_path / "x.xy.gz")


@pytest.mark.parametrize(
    ("told", "choice"),
    [
        (r"wavelength: found 0.073, expected 0.1 to 10 ångström; is that in nm\?", {"wavelength": 0.073}),
        (r"wavelength: found 154.06, expected 0.1 to 10 ångström; is that in pm\?", {"wavelength": 154.06}),
        ("wavelength: found 0, expected 0.1 to 10 ångström$", {"wavelength": 0}),
        ("wavelength: found nan, expected", {"wavelength": float("nan")}),
        ("anode: unknown choice 'Xx'; expected one of: Cr, Fe, Co, Cu, Ga, Mo, Ag, W", {"anode": "xx"}),
        ("found both wavelength 1.54 and anode Cu, expected one of them", {"wavelength": 1.54, "anode": "Cu"}),
    ],
)  # fmt: skip
def test_a_radiation_that_cannot_be_is_refused(tmp_path: Path, told: str, choice: dict[str, Any]) -> None:
    (tmp_path / "x.xy").write_text(rows(X, Y))
    with pytest.raises(InputError, match=told):
        read_pattern(tmp_path / "x.xy", **choice)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.xy: no such file"):
        read_pattern(tmp_path / "none.xy")
    with pytest.raises(InputError, match="found a folder, expected a file"):
        read_pattern(tmp_path)


@pytest.mark.parametrize(("package", "name", "content"), [("geddes", "x.xrdml", xrdml()), ("gemmi", "x.cif", cif())])
def test_a_missing_package_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=rf"this needs {package}, .* pip install 'vitreous\[powder\]'"):
        read_pattern(tmp_path / name)


def test_real_patterns_have_their_strongest_lines_where_their_cells_put_them() -> None:
    folder = data_folder() / "powder"
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent; set VITREOUS_DATA")
    with (folder / "cells.csv").open() as file:
        known = {row["Name"]: row for row in csv.DictReader(file)}
    assert len(known) == 7
    strongest = {"LaB6": (1, 1, 0), "NaCl": (2, 0, 0)}  # of cubic cells
    for name, row in known.items():
        pattern = read_pattern(folder / f"{row['Material']}.xy.gz", wavelength=float(row["Wavelength"]))
        assert len(pattern.two_theta) > 13_000
        q = np.arange(0.5, 8, 0.002)
        carried = to_grid(pattern, q)
        if name in strongest:
            expected = 2 * np.pi / float(row["a"]) * np.linalg.norm(strongest[name])
            assert q[np.argmax(carried)] == pytest.approx(expected, abs=0.004)
