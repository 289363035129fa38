"""Files of several scans in every format, for the tests."""

import io
import struct
import zipfile
from collections.abc import Callable

import numpy as np

from tests.powder.files.contents import X, Y, archive, brml, cif, gsas, ras, rasx, raw3, raw4, rows, words, xrdml

FACTORS = (1, 3, 2)  # intensities of the scans relative to Y


def between(text: str, first: str, last: str) -> str:
    """The part of a text from the first words to the last ones."""
    start = text.index(first)
    return text[start : text.index(last, start) + len(last)]


def xrdml_scans(in_measurements: bool = False) -> bytes:
    text = xrdml().decode()
    element = "xrdMeasurement" if in_measurements else "scan"
    part = between(text, f"<{element}>" if in_measurements else "<scan ", f"</{element}>")
    return text.replace(part, "".join(part.replace(words(Y), words(factor * Y)) for factor in FACTORS)).encode()


def ras_scans() -> bytes:
    text = ras().decode()
    part = between(text, "*RAS_HEADER_START", "*RAS_INT_END\n")
    points = [rows(X, factor * Y, np.ones_like(X)) for factor in FACTORS]
    return text.replace(part, "".join(part.replace(points[0], each) for each in points)).encode()


def members(content: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(content)) as source:
        return {name: source.read(name).decode() for name in source.namelist()}


def rasx_scans() -> bytes:
    files = members(rasx())
    scans: dict[str, str] = {}
    lists = ""
    for index, factor in enumerate(FACTORS):
        for name, text in files.items():
            if name.startswith("Data0/"):
                changed = text.replace(rows(X, Y, np.ones_like(X)), rows(X, factor * Y, np.ones_like(X)))
                scans[name.replace("0", str(index))] = changed
        lists += between(files["root.xml"], "<Data0>", "</Data0>").replace("0", str(index))
    return archive({"root.xml": f"<Root>{lists}</Root>", **scans})


def brml_scans() -> bytes:
    files = members(brml())
    text = files["Experiment0/RawData0.xml"]
    points = [[f"<Datum>{x:.4f},{f * y:g}</Datum>" for x, y in zip(X, Y, strict=True)] for f in FACTORS]
    for index, each in enumerate(points):
        files[f"Experiment0/RawData{index}.xml"] = text.replace("".join(points[0]), "".join(each))
    return archive(files)


def raw3_scans() -> bytes:
    content = bytearray(raw3())
    struct.pack_into("<I", content, 12, len(FACTORS))
    first = bytes(content[712 : 712 + 304])
    return bytes(content[:712]) + b"".join(first + (factor * Y).astype("<f4").tobytes() for factor in FACTORS)


def raw4_scans() -> bytes:
    content = raw4()
    head = 61 + 40 + 136
    first = content[head : head + 160]
    return content[:head] + b"".join(first + (factor * Y).astype("<f4").tobytes() for factor in FACTORS)


def gsas_scans(kind: str) -> bytes:
    text = gsas(kind).decode()
    bank = text[text.index("BANK") :]
    numbers = {"STD": lambda y: f"{y:8.0f}", "FXYE": lambda y: f"{y:15.6f}"}[kind]
    banks = []
    for factor in FACTORS:
        changed = bank.splitlines()
        if kind == "STD":
            values = [numbers(factor * y) for y in Y]
            changed[1:] = ["".join(values[k : k + 10]) for k in range(0, len(values), 10)]
        else:
            changed[1:] = [line[:15] + numbers(factor * y) + line[30:] for line, y in zip(changed[1:], Y, strict=True)]
        banks.append("\n".join([*changed, ""]))
    return (text[: text.index("BANK")] + "".join(banks)).encode()


def cif_scans() -> bytes:
    text = cif().decode()
    head, start = text[: text.index("data_profile")], "loop_\n_pd_meas_2theta_scan\n_pd_meas_counts_total\n"
    blocks = [f"data_profile{n}\n{start}{rows(X, factor * Y)}" for n, factor in enumerate(FACTORS)]
    return (head + "".join(blocks)).encode()


def text_scans(before: str) -> bytes:
    header = "# wavelength = 1.540598\n# wavelength2 = 1.544426; ratio = 0.5\n"
    return (header + "".join(before + rows(X, factor * Y) for factor in FACTORS)).encode()


SEVERAL: dict[str, tuple[str, Callable[[], bytes]]] = {
    "Panalytical": (".xrdml", xrdml_scans),
    "Panalytical, measurements": (".xrdml", lambda: xrdml_scans(in_measurements=True)),
    "Rigaku": (".ras", ras_scans),
    "Rigaku zip": (".rasx", rasx_scans),
    "Bruker zip": (".brml", brml_scans),
    "Bruker 3": (".raw", raw3_scans),
    "Bruker 4": (".raw", raw4_scans),
    "GSAS": (".gsa", lambda: gsas_scans("STD")),
    "GSAS as raw": (".raw", lambda: gsas_scans("STD")),
    "GSAS FXYE": (".fxye", lambda: gsas_scans("FXYE")),
    "CIF": (".cif", cif_scans),
    "blank lines": (".xy", lambda: text_scans("\n")),
    "Windows": (".xy", lambda: text_scans("\n").replace(b"\n", b"\r\n")),
    "repeated headings": (".dat", lambda: text_scans("2theta I\n")),
    "comments": (".txt", lambda: text_scans("# next\n")),
    "titles": (".txt", lambda: text_scans("\nScan 5\n2theta I\n401\n")),
    "angles that start again": (".xy", lambda: text_scans("")),
}
