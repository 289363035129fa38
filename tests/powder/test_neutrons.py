"""Neutrons of one wavelength: named where the file or the user says so, in report, JSON and CIF."""

from pathlib import Path

import numpy as np
import pytest

from tests.powder.files.contents import CU1, FORMATS, X, Y, cif, gsas, rows
from vitreous.core.errors import InputError
from vitreous.powder.files import read_pattern
from vitreous.powder.files.reading import ReadOptions
from vitreous.powder.hints import pattern_hints
from vitreous.powder.indexing import IndexOptions, index_file
from vitreous.powder.page import indexed_page
from vitreous.powder.pattern import Pattern
from vitreous.powder.radiation import radiation_from_user

D2B = 1.594  # Å


def with_probe(probe: str) -> bytes:
    return cif().replace(b"data_radiation\n", f"data_radiation\n_diffrn_radiation_probe {probe}\n".encode())


@pytest.mark.parametrize(
    ("name", "content", "radiation"),
    [
        ("x.cif", with_probe("neutron"), "neutrons"),
        ("x.cif", with_probe("x-ray"), "X-rays"),
        ("x.cif", cif().replace(b"data_radiation\n", b"data_radiation\n_diffrn_radiation.type 'Cu K\\a'\n"), "X-rays"),
        ("x.cif", cif(), None),
        ("x.gsa", gsas("STD").replace(b"quartz", b"quartz, neutrons at 300 K"), "neutrons"),
        ("x.xy", f"# constant wavelength neutron data\n{rows(X, Y)}".encode(), "neutrons"),
        ("x.xy", f"# synchrotron\n{rows(X, Y)}".encode(), "X-rays"),
        ("x.xy", f"# compare X-rays with neutrons\n{rows(X, Y)}".encode(), None),
        ("x.xy", rows(X, Y).encode(), None),
        *((f"x{FORMATS[kind][0]}", FORMATS[kind][1](), "X-rays") for kind in ("Panalytical", "Rigaku", "Bruker 4")),
    ],
)
def test_the_radiation_is_named_as_the_file_says(
    tmp_path: Path, name: str, content: bytes, radiation: str | None
) -> None:
    (tmp_path / name).write_bytes(content)
    assert read_pattern(tmp_path / name).radiation == radiation
    assert read_pattern(tmp_path / name, wavelength=D2B, neutrons=True).radiation == "neutrons"
    assert read_pattern(tmp_path / name, neutrons=True).radiation == "neutrons"
    assert read_pattern(tmp_path / name, anode="Cu").radiation == "X-rays"


def test_neutrons_have_no_anode() -> None:
    with pytest.raises(InputError, match="found both neutrons and anode Cu, expected neutrons with a wavelength"):
        radiation_from_user(None, "Cu", neutrons=True)


def test_report_json_and_cif_name_neutrons(tmp_path: Path) -> None:
    squares = np.array([3, 4, 8, 11, 12, 16, 19, 20, 24, 27])
    angles = np.degrees(2 * np.arcsin(D2B / 2 / 5.6402 * np.sqrt(squares)))
    (tmp_path / "lines.txt").write_text(rows(angles))
    reading = ReadOptions(neutrons=True)
    options = IndexOptions(wavelength=D2B, peaks=True, systems=("cubic",), reading=reading)
    result = index_file(tmp_path / "lines.txt", options)
    assert result.best is not None
    assert result.best.conventional[0] == pytest.approx(5.6402, rel=1e-4)
    record = result.to_dict()
    assert (record["radiation"], record["wavelength"]) == ("neutrons", D2B)
    gemmi = pytest.importorskip("gemmi")
    block = gemmi.cif.read_string(result.best.to_cif()).sole_block()
    assert block.find_value("_diffrn_radiation_probe") == "neutron"
    assert "neutrons, 1.594 Å" in indexed_page(result, "vitreous index")


def test_the_hint_of_another_anode_is_not_for_neutrons() -> None:
    x = np.arange(60, 120, 0.01)
    lines = np.linspace(62, 115, 12)
    second = 2 * np.degrees(np.arcsin(1.5444274 / 1.5405929 * np.sin(np.radians(lines / 2))))
    counts = sum(
        height * np.exp(-(((x - place) / 0.03) ** 2))
        for places, height in ((lines, 1000), (second, 500))
        for place in places
    )
    pattern = Pattern(x, np.asarray(counts) + 10, wavelength=CU1)
    assert any("like Kα1 and Kα2 of Cu" in hint for hint in pattern_hints(pattern, []))
    named = Pattern(x, pattern.intensity, wavelength=CU1, radiation="neutrons")
    assert not any("Kα1" in hint for hint in pattern_hints(named, []))
