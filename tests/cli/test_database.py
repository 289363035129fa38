"""`vitreous powder database`: what it prints, and mistakes in one line."""

from pathlib import Path

import pytest

from tests.powder.identify.crystals import NAMES, write_cifs
from tests.users import fails
from vitreous.cli import main

pytest.importorskip("gemmi")
Capture = pytest.CaptureFixture[str]


def test_a_folder_becomes_a_database(tmp_path: Path, capsys: Capture) -> None:
    folder, out = write_cifs(tmp_path / "cifs"), tmp_path / "my.db"
    (folder / "bad.cif").write_text("data_bad\n")
    main(["powder", "database", str(folder), "--out", str(out), "--jobs", "1"])
    told = capsys.readouterr().out.replace("\n", " ")
    assert f"{len(NAMES)} phases ({len(NAMES)} added, 0 there before)" in told
    assert "1 not read" in told
    assert "found no unit cell" in told
    assert "my.db.failed.csv" in told
    main(["powder", "database", str(folder), "--out", str(out)])
    assert f"0 added, {len(NAMES)} there before" in capsys.readouterr().out.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent"], "no such file or folder"),
        ([], "sources: found none"),
        (["cifs", "--jobs", "-1"], "jobs: found -1"),
        (["cifs/quartz.cif", "notes.txt"], "unknown kind of source"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_cifs(tmp_path / "cifs", NAMES[:1])
    (tmp_path / "notes.txt").write_text("x")
    assert message in fails(capsys, "powder", "database", *arguments, "--out", "my.db")
    assert not (tmp_path / "my.db").exists()
    assert not (tmp_path / "my.db.parts").exists()


def test_a_foreign_file_is_not_overwritten(tmp_path: Path, capsys: Capture) -> None:
    folder, out = write_cifs(tmp_path / "cifs", NAMES[:1]), tmp_path / "thesis.txt"
    out.write_text("important")
    assert "not a database of phases" in fails(capsys, "powder", "database", str(folder), "--out", str(out))
    assert out.read_text() == "important"
