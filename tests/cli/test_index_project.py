"""`vitreous index --project` and `--cif`: files for refinement programs."""

from pathlib import Path

import numpy as np
import pytest

from vitreous.cli import main
from vitreous.powder.example import example
from vitreous.powder.files import read_pattern, write_pattern

CELL = ["5.9501", "21.6", "7.5349", "103.785"]


@pytest.fixture
def pattern(tmp_path: Path) -> Path:
    path = tmp_path / "sample.xy"
    write_pattern(path, example("thiosulfate"))
    return path


def fails(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as left:
        main(list(words))
    assert left.value.code == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    return message


def test_projects_and_a_full_cif_are_written(pattern: Path, tmp_path: Path) -> None:
    names = ["a.pcr", "a.inp", "a.instprm", "a.m50"]
    projects, cif = [str(tmp_path / name) for name in names], str(tmp_path / "a.cif")
    main(["index", str(pattern), "--wavelength", "0.7291367", "--cell", *CELL, "--project", *projects, "--cif", cif])
    assert all((tmp_path / name).exists() for name in [*names, "a.dat", "a.xye", "a_gsas2.py", "a_phase.cif"])
    assert len(read_pattern(tmp_path / "a.xye").two_theta) == len(example("thiosulfate").two_theta)
    assert "_pd_calc_intensity_total" in Path(cif).read_text()


def test_a_known_zero_and_excluded_ranges_hold_for_the_project(pattern: Path, tmp_path: Path) -> None:
    words = ["--cell", *CELL, "--zero", "0.01", "--exclude", "13-13.4", "--project", str(tmp_path / "a.pcr")]
    main(["index", str(pattern), "--wavelength", "0.7291367", *words])
    text = (tmp_path / "a.dat").read_text().splitlines()
    assert float(text[6].split()[0]) == pytest.approx(1.99)
    lines = (tmp_path / "a.pcr").read_text().splitlines()
    place = next(k for k, line in enumerate(lines) if line.startswith("! Excluded"))
    assert [float(word) for word in lines[place + 1].split()] == pytest.approx([12.99, 13.39], abs=0.01)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--project", "a.gpx"], "project: found a.gpx, expected a name that ends in one of: .pcr (FullProf), .inp"),
        (["--project", "a.pcr", "--peaks"], "project: found a peak list, expected one pattern"),
        (["--project", "sample.pcr", "a b.inp"], "project: found a b.inp, expected a name of letters"),
    ],
)
def test_a_wrong_project_is_one_line_before_the_search(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none.xy"  # which is read after the check
    assert message in fails(capsys, "index", str(missing), *words)


def test_several_patterns_are_refused(pattern: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = fails(capsys, "index", str(pattern), str(pattern), "--project", "a.pcr")
    assert "project: found 2 patterns, expected one pattern" in message


def test_the_measured_file_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.dat").write_text("1 2\n")
    assert "is the measured pattern" in fails(capsys, "index", "a.dat", "--project", "a.pcr")
    assert (tmp_path / "a.dat").read_text() == "1 2\n"


def test_without_a_likely_cell_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noise = np.random.default_rng(0).poisson(100, 500)
    rows = [f"{angle:.3f} {count}" for angle, count in zip(np.linspace(10, 20, 500), noise, strict=True)]
    (tmp_path / "noise.xy").write_text("\n".join(rows))
    words = ["--anode", "Cu", "--project", str(tmp_path / "a.inp")]
    message = fails(capsys, "index", str(tmp_path / "noise.xy"), *words)
    assert "found no likely cell, expected one to write projects from" in message
    assert not (tmp_path / "a.inp").exists()
