"""One pattern in every file format, for the tests."""

import io
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

CU1, CU2 = 1.540598, 1.544426
X = np.round(np.linspace(10, 50, 401), 4)
Y = np.round(20 + 900 * np.exp(-(((X - 27.3) / 0.3) ** 2)) + 5 * np.sin(7 * X))  # integers, which every format can hold
ERRORS = np.round(np.sqrt(Y), 2)


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


def brml(scan: str = "") -> bytes:
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
            f'<DataRoute RouteFlag="Measured">{scan}{views}{data}</DataRoute></DataRoutes></RawData>',
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
    start = (
        "" if scan else "_pd_meas_2theta_range_min 10\n_pd_meas_2theta_range_max 50\n_pd_meas_2theta_range_inc 0.1\n"
    )
    column = "_pd_meas_2theta_scan\n" if scan else ""
    return (
        f"data_radiation\nloop_\n_diffrn_radiation_wavelength\n_diffrn_radiation_wavelength_wt\n{CU1} 1.0\n{CU2} 0.5\n"
        f"data_profile\n{start}loop_\n{column}_pd_meas_counts_total\n"
        + "\n".join(angle + count for angle, count in zip(angles, counts, strict=True))
    ).encode()


HEADER = f"wavelength = {CU1} Å; wavelength2 = {CU2}; ratio = 0.5"
FORMATS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "spaces": (".xy", lambda: f"# {HEADER}\n{rows(X, Y)}".encode()),
    "tabs and Windows": (".txt", lambda: f"! {HEADER}\n{rows(X, Y, separator=chr(9))}".replace("\n", "\r\n").encode()),
    "commas": (".csv", lambda: f"{HEADER}\nangle,counts\n{rows(X, Y, separator=', ')}".encode()),
    "Latin": (".dat", lambda: f"Kα1: {CU1} Å\n{rows(X, Y)}".replace("α", "a").encode("latin-1")),
    "UTF-16": (".txt", lambda: f"'{HEADER}\n401\n{rows(X, Y)}".encode("utf-16")),
    "decimal commas": (".csv", lambda: f"; {HEADER}\n{rows(X, Y, separator=';').replace('.', ',')}".encode()),
    "trailing commas": (
        ".txt",
        lambda: f"{HEADER}\n[Data]\n{rows(X, Y, separator=', ')}".replace("\n", ",\n").encode(),
    ),
    "falling": (".xy", lambda: f"# {HEADER}\n{rows(X[::-1], Y[::-1])}".encode()),
    "Panalytical": (".xrdml", xrdml),
    "Panalytical in nm": (".xrdml", lambda: xrdml(unit="nm", scale=0.1)),
    "Rigaku": (".ras", ras),
    "Rigaku zip": (".rasx", rasx),
    "Bruker zip": (".brml", lambda: brml()),
    "Bruker 3": (".raw", raw3),
    "Bruker 4": (".raw", raw4),
    "GSAS STD": (".gsa", lambda: gsas("STD")),
    "GSAS as raw": (".raw", lambda: gsas("STD")),
    "GSAS ESD": (".gsas", lambda: gsas("ESD")),
    "GSAS FXYE": (".fxye", lambda: gsas("FXYE")),
    "CIF": (".cif", cif),
    "CIF with a range": (".cif", lambda: cif(scan=False)),
}
ONE_LINE = {"GSAS STD", "GSAS as raw", "GSAS ESD", "GSAS FXYE", "Latin"}  # formats with one wavelength here
