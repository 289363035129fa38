"""`vitreous identify`: phases and amounts as a table, JSON, figure and page; an error is one line."""

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.powder.identify.crystals import cif
from tests.powder.identify.samples import small_database, write_sample
from tests.users import fails
from vitreous.cli import main

pytest.importorskip("gemmi")
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database, patterns of samples, and files that are neither."""
    folder = tmp_path_factory.mktemp("identify")
    small_database(folder)
    write_sample(folder / "salts.xy", {"halite": 60, "fluorite": 40})
    write_sample(folder / "spiked.xy", {"quartz": 50, "fluorite": 50}, seed=1)
    write_sample(folder / "unknown.xy", {"rutile": 50, "halite": 50}, seed=2)
    for k, share in enumerate((0.0, 0.4, 0.8), 9):
        write_sample(folder / "frames" / f"frame{k}.xy", {"sylvite": 100 * (1 - share), "fluorite": 100 * share}, k)
    x = np.arange(15, 80, 0.02)
    counts = np.random.default_rng(0).poisson(1000 * np.exp(-x / 40))
    (folder / "glass.xy").write_text("\n".join(f"{a:.2f} {n}" for a, n in zip(x, counts, strict=True)))
    (folder / "bad.xy").write_text("ten eleven\n")
    (folder / "empty.db").touch()
    (folder / "text.db").write_text("not a database")
    save_file({"cell": np.zeros((1, 6))}, folder / "other.db", {"format": "vitreous phases 0"})
    return folder


def run(folder: Path, names: Sequence[str], *more: str) -> None:
    main(["identify", *(str(folder / name) for name in names), "--database", str(folder / "my.db"), *more])


def test_phases_amounts_and_cells_are_those_of_the_sample(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    out, figure, report = (tmp_path / name for name in ("found.json", "fit.png", "page.html"))
    run(folder, ["salts.xy"], "--anode", "Cu", "--out", str(out), "--figure", str(figure), "--report", str(report))
    (record,) = json.loads(out.read_text())
    halite, fluorite = record["phases"]
    assert (halite["name"], fluorite["name"]) == ("halite", "fluorite")
    for phase, mass, length in ((halite, 0.6, 5.6402), (fluorite, 0.4, 5.4631)):
        assert abs(phase["mass_fraction"] - mass) < 3 * phase["mass_fraction_error"] < 0.1
        assert phase["cell"][0] == pytest.approx(length, rel=5e-4)
    assert record["unexplained_lines"] == []
    told = capsys.readouterr().out
    assert "halite" in told
    shown = [float(length) for length in re.findall(r"a = ([\d.]+)", told)]
    assert shown == pytest.approx([halite["cell"][0], fluorite["cell"][0]], abs=1e-4)
    assert figure.stat().st_size > 10_000
    page = report.read_text()
    assert "vitreous identify salts.xy --database my.db --anode Cu --report page.html" in page
    assert "<table>" in page


def test_what_remains_is_indexed(folder: Path, capsys: Capture) -> None:
    run(folder, ["unknown.xy"], "--anode", "Cu", "--index")
    told = capsys.readouterr().out
    assert "unexplained" in told
    assert "an unknown phase is tetragonal P, a = 4.59" in told


def test_the_amorphous_share_follows_from_a_standard(folder: Path, capsys: Capture) -> None:
    run(folder, ["spiked.xy"], "--anode", "Cu", "--standard", "fluorite", "25")  # half of what is crystalline
    told = capsys.readouterr().out
    share = float(told.split("amorphous share of the sample: ")[1].partition("%")[0])
    assert share == pytest.approx(100 * (1 - 0.25 / 0.5) / 0.75, abs=6)


def test_elements_narrow_the_choice(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "found.json"
    run(folder, ["salts.xy"], "--anode", "Cu", "--elements", "Na", "Cl", "--out", str(out))
    assert [each["name"] for each in json.loads(out.read_text())[0]["phases"]] == ["halite"]
    run(folder, ["salts.xy"], "--anode", "Cu", "--exclude-elements", "Na", "--out", str(out))
    assert "halite" not in [each["name"] for each in json.loads(out.read_text())[0]["phases"]]


def test_a_bad_file_does_not_stop_the_others(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "found.json"
    with pytest.raises(SystemExit) as end:
        run(folder, ["bad.xy", "glass.xy", "salts.xy"], "--anode", "Cu", "--out", str(out))
    assert end.value.code == 1
    told = capsys.readouterr().out.splitlines()
    assert sum("bad.xy: " in line for line in told) == 1
    assert sum("glass.xy: " in line for line in told) == 1
    assert [record["pattern"] for record in json.loads(out.read_text())] == ["salts.xy"]


def test_names_with_brackets_are_shown_as_they_are(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "salt.cif").write_text(cif("halite", title="'[/red] salt [b]'"))
    main(["powder", "database", str(tmp_path / "salt.cif"), "--out", str(tmp_path / "salt.db"), "--jobs", "1"])
    main(["identify", str(folder / "salts.xy"), "--anode", "Cu", "--database", str(tmp_path / "salt.db")])
    assert "[/red] salt [b]" in capsys.readouterr().out


def test_a_series_keeps_its_phases_from_frame_to_frame(folder: Path, tmp_path: Path, capsys: Capture) -> None:
    out, figure = tmp_path / "series.csv", tmp_path / "series.png"
    more = ["--series", str(folder / "frames"), "--anode", "Cu", "--out", str(out), "--figure", str(figure)]
    run(folder, [], *more)
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert list(dict.fromkeys(row["file"] for row in rows)) == ["frame9.xy", "frame10.xy", "frame11.xy"]
    places = {("frame9.xy", "sylvite"), *((f"frame{k}.xy", name) for k in (10, 11) for name in ("sylvite", "fluorite"))}
    assert {(row["file"], row["phase"]) for row in rows} == places
    fluorite = [row for row in rows if row["phase"] == "fluorite"]
    assert [float(row["mass_fraction"]) for row in fluorite] == pytest.approx([0.4, 0.8], abs=0.05)
    assert figure.stat().st_size > 10_000
    assert "3 frames" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["salts.xy", "--database", "absent.db"], "no such file"),
        (["salts.xy", "--database", "empty.db"], "not a database of phases"),
        (["salts.xy", "--database", "text.db"], "not a database of phases"),
        (["salts.xy", "--database", "other.db"], "found 'vitreous phases 0', expected 'vitreous phases"),
        (["salts.xy", "--elements", "Xx"], "elements: found 'Xx'"),
        (["salts.xy", "--elements", "U"], "elements: found U, which no entry of"),
        (["salts.xy", "--elements", "Na", "--exclude-elements", "Cl"], "found no entry of the database"),
        (["salts.xy", "--exclude-elements", "Qq"], "elements: found 'Qq'"),
        (["salts.xy", "--max-phases", "0"], "max-phases: found 0"),
        (["salts.xy", "--standard", "halite", "120"], "standard: found 120 %"),
        (["salts.xy", "--standard", "corundum", "20"], "standard: found 'corundum' nowhere"),
        (["salts.xy", "--out", "found.txt"], "found.txt: file type"),
        (["salts.xy", "--figure", "found.tex"], "found.tex: file type"),
        (["salts.xy", "unknown.xy", "--figure", "found.png"], "figure: found 2 patterns, expected one"),
        (["salts.xy", "--two-theta", "40", "40.1"], "points in the chosen ranges"),
        (["salts.xy", "--energy", "8", "--wavelength", "1.5"], "found both energy 8 and wavelength 1.5"),
        (["glass.xy"], "found no lines"),
        (["bad.xy"], "found no rows of numbers"),
        (["absent.xy"], "absent.xy"),
        ([], "files: found none"),
        (["--series", "absent"], "absent: no such folder"),
        (["--series", "none"], "found no files"),
        (["--series", "wrong"], "found the columns name, T, expected file and"),
        (["--series", "frames", "--report", "page.html"], "series: found report beside it"),
        (["salts.xy", "--series", "frames"], "series: found files beside it"),
    ],
)
def test_mistakes_are_one_line(
    folder: Path, arguments: list[str], message: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "none").mkdir(exist_ok=True)
    (folder / "wrong").mkdir(exist_ok=True)
    (folder / "wrong" / "frames.csv").write_text("name,T\na.xy,1\n")
    (folder / "wrong" / "a.xy").write_text("1 2\n")
    database = [] if "--database" in arguments else ["--database", "my.db"]
    assert message in fails(capsys, "identify", *arguments, *database, "--anode", "Cu")
    assert not [path for path in folder.iterdir() if path.name.startswith(("found", "page"))]


def test_a_pattern_without_wavelength_is_refused(folder: Path, capsys: Capture) -> None:
    database = str(folder / "my.db")
    told = fails(capsys, "identify", str(folder / "glass.xy"), "--database", database)
    assert "does not state its wavelength" in told
