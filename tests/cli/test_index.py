"""`vitreous index`: unit cells of files as tables and JSON; an error is one line."""

import json
from pathlib import Path

import numpy as np
import pytest

from vitreous.cli import main

RUTILE = ["--cell", "4.5937", "4.5937", "2.9587", "90", "90", "90", "--spacegroup", "136"]


def simulated(path: Path, *more: str) -> Path:
    main(["powder", "simulate", *RUTILE, "--clean", "--counts", "1e5", "--out", str(path), *more])
    return path


def test_a_pattern_is_indexed_refined_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern = simulated(tmp_path / "rutile.xy", "--zero", "0.02")
    capsys.readouterr()
    main(["index", str(pattern), "--json", "--figure", str(tmp_path / "fit.png")])
    (record,) = json.loads(capsys.readouterr().out)
    best = record["solutions"][0]
    assert (best["system"], best["centring"]) == ("tetragonal", "P")
    assert record["refined"]["cell"] == pytest.approx([4.5937, 4.5937, 2.9587, 90, 90, 90], rel=2e-4)
    assert all(error > 0 for error in (record["refined"]["errors"][0], record["refined"]["errors"][2]))
    assert (tmp_path / "fit.png").stat().st_size > 10_000
    main(["index", str(pattern), "--system", "tetragonal"])
    out = capsys.readouterr().out
    assert "tetragonal P" in out
    assert "refined on the whole pattern" in out


def test_the_symmetry_by_the_profile_is_told_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pattern = simulated(tmp_path / "rutile.xy")
    capsys.readouterr()
    main(["index", str(pattern), "--system", "tetragonal", "--symmetry"])
    assert "symmetry by the whole profile: tetragonal " in capsys.readouterr().out.replace("\n", " ")
    main(["index", str(pattern), "--system", "tetragonal", "--json"])
    assert "symmetry" not in json.loads(capsys.readouterr().out)[0]


def test_a_list_of_lines_is_indexed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    squares = np.array([3, 4, 8, 11, 12, 16, 19, 20, 24, 27])
    angles = 2 * np.degrees(np.arcsin(1.540593 / 2 / 5.6402 * np.sqrt(squares)))
    (tmp_path / "lines.txt").write_text("# 2theta\n" + "\n".join(f"{angle:.4f}" for angle in angles))
    main(["index", str(tmp_path / "lines.txt"), "--peaks", "--anode", "Cu", "--json"])
    (record,) = json.loads(capsys.readouterr().out)
    best = record["solutions"][0]
    assert (best["system"], best["centring"]) == ("cubic", "F")
    assert best["conventional"][0] == pytest.approx(5.6402, rel=1e-4)


def test_a_list_of_spacings_is_indexed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spacings = 0.56402 / np.sqrt([3, 4, 8, 11, 12, 16, 19, 20, 24, 27])
    (tmp_path / "lines.txt").write_text("d (nm)\n" + "\n".join(f"{d:.7f}" for d in spacings))
    main(["index", str(tmp_path / "lines.txt"), "--peaks", "--anode", "Cu", "--system", "cubic", "--json"])
    (record,) = json.loads(capsys.readouterr().out)
    assert record["solutions"][0]["centring"] == "F"
    assert record["solutions"][0]["conventional"][0] == pytest.approx(5.6402, rel=1e-4)


def test_a_folder_gives_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "patterns").mkdir()
    for name in ("one.xy", "two.xy"):
        simulated(tmp_path / "patterns" / name)
    capsys.readouterr()
    main(["index", str(tmp_path / "patterns"), "--system", "tetragonal"])
    out = capsys.readouterr().out
    assert "one.xy" in out
    assert "two.xy" in out


def test_many_files_are_indexed_at_once_and_a_bad_one_does_not_stop_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    squares = np.array([3, 4, 8, 11, 12, 16, 19, 20, 24, 27])
    for i in range(8):
        angles = 2 * np.degrees(np.arcsin(1.540593 / 2 / (5.5 + i / 10) * np.sqrt(squares)))
        (tmp_path / f"{i}.txt").write_text("\n".join(f"{angle:.4f}" for angle in angles))
    (tmp_path / "bad.txt").write_text("ten eleven\n")
    main(["index", str(tmp_path), "--peaks", "--anode", "Cu", "--system", "cubic", "--json"])
    records = {record["file"]: record for record in json.loads(capsys.readouterr().out)}
    for i in range(8):
        assert records[f"{i}.txt"]["solutions"][0]["conventional"][0] == pytest.approx(5.5 + i / 10, rel=1e-4)
    assert "expected numbers" in records["bad.txt"]["fault"]


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        ("10 1\n20 1\n30 1\n40 1\n", ["--peaks"], "found no wavelength, expected --wavelength"),
        ("10 1\n20 1\n", ["--peaks", "--anode", "Cu"], "found 2, expected at least 3"),
        ("", ["--peaks", "--anode", "Cu"], "is empty"),
        ("ten eleven\n", ["--peaks", "--anode", "Cu"], "expected numbers, 2θ and intensity"),
        ("10 1\n20 nan\n30 1\n40 1\n", ["--peaks", "--anode", "Cu"], "found intensity nan in line 2"),
        ("E (keV) I\n10 1\n20 1\n30 1\n40 1\n", ["--peaks", "--anode", "Cu"], "'E (keV)' as first column; an energy"),
        ("20 1\n" * 20, ["--peaks", "--anode", "Cu"], "found 1 distinct, expected at least 3"),
        ("10 1\n20 1\n30 1\n40 1\n", ["--peaks", "--anode", "Xx"], "anode: unknown choice"),
        ("10 1\n20 1\n30 1\n40 1\n", ["--peaks", "--anode", "Cu", "--system", "square"], "system: unknown choice"),
        ("\n".join(f"{x / 10} {x % 7}" for x in range(100, 300)), [], "does not state its wavelength"),
        ("10\n20\n30\n40\n", ["--peaks", "--energy", "8", "--wavelength", "1.5"], "found both energy 8 and wavelength"),
        ("10\n20\n30\n40\n", ["--peaks", "--anode", "Cu", "--exclude", "20-30-40"], "exclude: found '20-30-40'"),
        (
            "10\n20\n30\n40\n",
            ["--peaks", "--anode", "Cu", "--standard", "Si"],
            "standard: found 1 strong line(s) of Si",
        ),
        ("10\n20\n30\n40\n", ["--peaks", "--anode", "Cu", "--standard", "no.cif"], "no.cif: no such file"),
        ("10\n20\n30\n40\n", ["--peaks", "--anode", "Cu", "--standard", "Si", "--zero", "0"], "found both zero and"),
        ("10\n20\n30\n40\n", ["--peaks", "--anode", "Cu", "--cell", "4", "6"], "cell: found 2 numbers, expected"),
        ("10\n20\n30\n40\n", ["--peaks", "--anode", "Cu", "--formula", "Xx"], "formula: found 'Xx'"),
        ("10\n20\n30\n40\n", ["--peaks", "--anode", "Cu", "--density", "2"], "density: found 2 g/cm³ alone"),
        (
            "10\n20\n30\n40\n",
            ["--peaks", "--anode", "Cu", "--exclude", "5-35"],
            "found 1 distinct, expected at least 3",
        ),
    ],
)
@pytest.mark.filterwarnings("error")
def test_an_error_is_one_line(
    text: str, more: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lines.xy").write_text(text)
    with pytest.raises(SystemExit) as end:
        main(["index", str(tmp_path / "lines.xy"), *more])
    assert end.value.code == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert message in text


def fails(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(args)
    assert end.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


@pytest.mark.parametrize("command", [["index"], ["index", "--json"], ["powder", "plot", "--out", "all.png"]])
def test_no_file_is_an_error(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "files: found none, expected patterns" in fails(capsys, *command)


def test_an_empty_folder_is_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert f"files: found none in {tmp_path}, expected patterns" in fails(capsys, "index", str(tmp_path))


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (["index", "--alpha2"], "see vitreous index --help"),  # an option of powder simulate
        (["index", "a.xy", "--peks"], "did you mean --peaks?"),
        (["powder", "simulate", "--peaks", "--out", "a.xy"], "see vitreous powder simulate --help"),
        (["powder", "simulate", "--zer", "0.1"], "did you mean --zero?"),
        (["train", "digits", "--out", "run", "--epoch", "3", "--zero"], "did you mean --epochs?"),
    ],
)
def test_an_unknown_option_is_told_the_nearest_of_its_own_command(
    command: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = fails(capsys, *command)
    assert message.startswith("vitreous: error: Unrecognized options: --")
    assert message.endswith(f"; {hint}\n")


def test_a_stated_cell_with_a_formula_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    squares = np.array([3, 4, 8, 11, 12, 16, 19, 20, 24, 27])
    angles = 2 * np.degrees(np.arcsin(1.540593 / 2 / 5.6402 * np.sqrt(squares)))
    (tmp_path / "lines.txt").write_text("\n".join(f"{angle:.4f}" for angle in angles))
    words = ["--peaks", "--anode", "Cu", "--cell", "5.65", "--formula", "NaCl", "--density", "2.16"]
    main(["index", str(tmp_path / "lines.txt"), *words, "--json"])
    (record,) = json.loads(capsys.readouterr().out)
    assert record["known"] == {"cell": [5.65, 5.65, 5.65, 90, 90, 90], "formula": "NaCl", "density": 2.16}
    best = record["solutions"][0]
    assert (best["system"], best["centring"]) == ("cubic", "F")
    assert best["conventional"][0] == pytest.approx(5.6402, rel=1e-4)
    assert best["formula_units"] == pytest.approx(4, rel=0.01)
    main(["index", str(tmp_path / "lines.txt"), *words])
    assert "3.99" in capsys.readouterr().out


def test_the_cell_and_its_lines_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    squares = np.array([3, 4, 8, 11, 12, 16, 19, 20, 24, 27])
    angles = np.sort([*(2 * np.degrees(np.arcsin(1.540593 / 2 / 5.64 * np.sqrt(squares)))), 40.0, 35.2])
    (tmp_path / "lines.txt").write_text("\n".join(f"{angle:.4f} 1" for angle in angles))
    files = ["--cif", str(tmp_path / "cell.cif"), "--lines", str(tmp_path / "lines.csv")]
    main(["index", str(tmp_path / "lines.txt"), "--peaks", "--energy", "8.0478", "--exclude", "35.2", *files])
    assert "_cell_length_a 5.64" in (tmp_path / "cell.cif").read_text()
    heading, *rows = (tmp_path / "lines.csv").read_text().splitlines()
    assert heading.split(",") == [*"hkl", "two_theta", "calculated", "difference", "intensity", "foreign", "phase"]
    assert len(rows) == len(angles) - 1  # without the excluded line
    assert [row.split(",")[3] for row in rows if row.split(",")[7] == "True"] == ["40.0"]
    capsys.readouterr()
    main(["index", str(tmp_path / "lines.txt"), "--peaks", "--anode", "Cu", "--zero", "0", "--json"])
    record = json.loads(capsys.readouterr().out)[0]
    assert [line["foreign"] for line in record["lines"]].count(True) == 2
