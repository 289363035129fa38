"""How commands read files: axis, columns, scans, neutrons and energies by flags; mistakes are one line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.powder.files.contents import X, Y, rows
from tests.users import fails
from vitreous.cli import main
from vitreous.powder.files import read_pattern
from vitreous.powder.radiation import KEV_ANGSTROM

Capture = pytest.CaptureFixture[str]
SPACINGS = 5.6402 / np.sqrt([3.0, 4, 8, 11, 12, 16, 19, 20, 24, 27])
ANGLES = np.degrees(2 * np.arcsin(1.5405929 / 2 / SPACINGS))


def indexed(capsys: Capture, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    main(["index", *words, "--system", "cubic", "--json"])
    (record,) = json.loads(capsys.readouterr().out)
    assert isinstance(record, dict)
    return record


def shuffled(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.random.default_rng(1).permutation(values))


@pytest.mark.parametrize(
    ("values", "more"),
    [
        (ANGLES, ()),
        (shuffled(ANGLES), ()),
        (np.repeat(ANGLES, 2), ()),
        (SPACINGS, ("--axis", "d")),
        (shuffled(SPACINGS), ("--axis", "d")),
        (np.repeat(2 * np.pi / SPACINGS, 2), ("--axis", "q")),
        (SPACINGS**-2, ("--axis", "1/d2")),
    ],
)
def test_a_list_of_positions_in_any_order_and_quantity_has_its_cell(
    tmp_path: Path, capsys: Capture, values: np.ndarray, more: tuple[str, ...]
) -> None:
    (tmp_path / "lines.txt").write_text(rows(values))
    record = indexed(capsys, str(tmp_path / "lines.txt"), "--peaks", "--anode", "Cu", *more)
    assert record["solutions"][0]["centring"] == "F"
    assert record["solutions"][0]["conventional"][0] == pytest.approx(5.6402, rel=1e-4)
    assert record["radiation"] == "X-rays"


def test_a_list_of_energies_has_its_cell_and_says_how_it_was_read(tmp_path: Path, capsys: Capture) -> None:
    energies = KEV_ANGSTROM / (2 * SPACINGS * np.sin(np.radians(6)))
    (tmp_path / "lines.txt").write_text(rows(energies))
    record = indexed(capsys, str(tmp_path / "lines.txt"), "--peaks", "--axis", "energy", "--fixed-angle", "12")
    assert record["solutions"][0]["conventional"][0] == pytest.approx(5.6402, rel=1e-4)
    assert record["hints"][0] == "energies at 2θ = 12° are shown as angles of the same d for 1.085 Å"


def test_columns_scan_and_neutrons_are_flags_that_the_report_repeats(tmp_path: Path, capsys: Capture) -> None:
    lines = np.sum([1000 * np.exp(-(((X - angle) / 0.15) ** 2)) for angle in ANGLES if angle < 50], axis=0)
    counts = np.random.default_rng(0).poisson(20 + lines)
    table = rows(0 * X, counts, X)
    path = tmp_path / "x.dat"
    path.write_text(f"{table}\n{table}")
    words = [str(path), "--columns", "3", "2", "--scan", "merge", "--wavelength", "1.5405929", "--neutrons"]
    record = indexed(capsys, *words, "--report", str(tmp_path / "page.html"), "--cif", str(tmp_path / "cell.cif"))
    assert record["radiation"] == "neutrons"
    assert record["hints"][0] == "2 scans were added"
    assert record["solutions"][0]["conventional"][0] == pytest.approx(5.64, rel=2e-3)
    page = (tmp_path / "page.html").read_text()
    assert "--columns 3 2 --scan merge --neutrons --report page.html" in page
    assert "neutrons, 1.54059 Å" in page
    assert "_diffrn_radiation_probe neutron" in (tmp_path / "cell.cif").read_text()


def test_a_scan_and_columns_are_plotted(tmp_path: Path, capsys: Capture) -> None:
    table = rows(0 * X, Y, X, Y)
    (tmp_path / "x.dat").write_text(f"{table}\n{table}")
    main(
        [
            "powder",
            "plot",
            str(tmp_path / "x.dat"),
            "--columns",
            "3",
            "2",
            "--scan",
            "1",
            "--out",
            str(tmp_path / "a.svg"),
        ]
    )
    assert (tmp_path / "a.svg").stat().st_size > 1000


def test_a_pattern_of_background_alone_has_no_cell_and_says_so(tmp_path: Path, capsys: Capture) -> None:
    x = np.arange(5, 60, 0.02)
    counts = np.random.default_rng(0).poisson(300 + 200 * np.exp(-x / 20))
    (tmp_path / "x.xy").write_text(rows(x, counts))
    record = indexed(capsys, str(tmp_path / "x.xy"), "--anode", "Cu")
    assert not record["solutions"] or record["solutions"][0]["probability"] < 0.5
    assert record["hints"]


def test_a_pattern_that_begins_above_40_degrees_is_indexed(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "high.xy"
    cell = ["--cell", "3.2", "3.2", "3.2", "90", "90", "90"]
    main(["powder", "simulate", *cell, "--clean", "--counts", "1e5", "--two-theta", "41", "140", "--out", str(path)])
    assert read_pattern(path).two_theta[0] > 40
    record = indexed(capsys, str(path))
    assert record["solutions"][0]["conventional"][0] == pytest.approx(3.2, rel=1e-3)


LINES = rows(ANGLES)
BAD: dict[str, tuple[str, list[str]]] = {
    "as d in ångström does; expected 2θ in degrees, ascending, or a heading or --axis d": (
        rows(SPACINGS), ["--peaks", "--anode", "Cu"],
    ),
    "which may be radians, 1/d or q; expected 2θ in degrees, or a heading or --axis such as q": (
        rows(1 / SPACINGS), ["--peaks", "--anode", "Cu"],
    ),
    "an energy-dispersive pattern also needs the fixed angle": (LINES, ["--peaks", "--axis", "energy"]),
    "times of flight also need the calibration of the diffractometer": (
        f"TOF (us)\n{LINES}", ["--peaks", "--anode", "Cu"],
    ),
    "for electrons, give the rings as a list of d": (LINES, ["--peaks", "--wavelength", "0.0251"]),
    "found no wavelength, expected --wavelength (ångström)": (LINES, ["--peaks", "--neutrons"]),
    "found both neutrons and anode Cu": (LINES, ["--peaks", "--neutrons", "--anode", "Cu"]),
    "found energy 8 of photons and neutrons": (LINES, ["--peaks", "--neutrons", "--energy", "8"]),
    "columns: found 'tth', but no headings": (LINES, ["--peaks", "--columns", "tth", "--anode", "Cu"]),
    "scan: only for patterns": (LINES, ["--peaks", "--scan", "1", "--anode", "Cu"]),
    "found 2 scans (10 to 50, 401 points; 10 to 50, 401 points); choose one with --scan 1": (
        2 * rows(X, Y), ["--anode", "Cu"],
    ),
    "scan: found 3, but the file has 2 scans": (2 * rows(X, Y), ["--anode", "Cu", "--scan", "3"]),
    "found 4 columns, expected 2θ, intensity and": (rows(X, Y, Y, Y), ["--anode", "Cu"]),
    "fixed-angle: found 200, expected 2θ of the detector": (
        LINES, ["--peaks", "--axis", "energy", "--fixed-angle", "200"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD)
@pytest.mark.filterwarnings("error")
def test_a_mistake_is_one_line_and_writes_nothing(tmp_path: Path, capsys: Capture, message: str) -> None:
    text, words = BAD[message]
    (tmp_path / "x.xy").write_text(text)
    assert message in fails(capsys, "index", str(tmp_path / "x.xy"), *words, "--cif", str(tmp_path / "cell.cif"))
    assert not (tmp_path / "cell.cif").exists()
