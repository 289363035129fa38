"""Building a database: the same bytes each time, nothing twice, and nothing lost when a build is killed."""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.powder.identify.crystals import NAMES, cif, write_cifs
from tests.users import python
from vitreous.core.errors import InputError
from vitreous.core.lock import lock_folder
from vitreous.powder.identify import build, embedding, parts, retrieval
from vitreous.powder.identify.build import build_database
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.entry import EntryLines

pytest.importorskip("gemmi")

KILLED = """
import os, signal
from vitreous.powder.identify import build, embedding, parts
embedding.has_model = lambda: False
build._BATCH = 2
write = parts.write_part
def write_part(batch, folder):
    if len(list(folder.glob("*.part"))) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return write(batch, folder)
parts.write_part = write_part
if os.fork() == 0:
    build.build_database([{source!r}], {out!r}, progress=False)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.fixture(autouse=True)
def _without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "has_model", lambda: False)


@pytest.fixture
def cifs(tmp_path: Path) -> Path:
    return write_cifs(tmp_path / "cifs")


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources of all items that are computed."""
    sources: list[str] = []
    read = parts.entries_of_item

    def record(item: Any) -> Any:
        sources.append(item.source)
        return read(item)

    monkeypatch.setattr(parts, "entries_of_item", record)
    return sources


def run(sources: Path | Sequence[Path], out: Path, jobs: int = 1) -> build.BuildSummary:
    return build_database([sources] if isinstance(sources, Path) else sources, out, jobs, progress=False)


def names(path: Path) -> list[str]:
    database = Database.open(path)
    return [database.name(i) for i in range(database.count)]


def test_every_cif_of_a_folder_becomes_an_entry(cifs: Path, tmp_path: Path) -> None:
    summary = run(cifs, tmp_path / "my.db")
    assert (summary.added, summary.kept, summary.joined, summary.failed) == (len(NAMES), 0, 0, [])
    assert sorted(names(tmp_path / "my.db")) == sorted(NAMES)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cifs", "my.db"]


def test_the_same_sources_give_the_same_bytes(cifs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(cifs, tmp_path / "a.db")
    monkeypatch.setattr(build, "_BATCH", 1)
    run(cifs, tmp_path / "b.db")
    assert (tmp_path / "a.db").read_bytes() == (tmp_path / "b.db").read_bytes()


def test_several_processes_give_the_same_bytes(cifs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(cifs, tmp_path / "a.db")
    monkeypatch.setattr(build, "_BATCH", 2)
    monkeypatch.setattr(parts, "_ITEMS_PER_PROCESS", 1)
    run(cifs, tmp_path / "b.db", jobs=2)
    assert (tmp_path / "a.db").read_bytes() == (tmp_path / "b.db").read_bytes()


def test_more_sources_add_to_what_is_there(tmp_path: Path, computed: list[str]) -> None:
    first, second = write_cifs(tmp_path / "first", NAMES[:3]), write_cifs(tmp_path / "second", NAMES[2:])
    out, at_once = tmp_path / "my.db", tmp_path / "at_once.db"
    run(first, out)
    del computed[:]
    summary = run([first, second], out)
    assert (summary.added, summary.kept) == (len(NAMES) - 3, 3)
    assert len(computed) == len(NAMES) - 3  # the third is in both folders, with the same path
    run([first, second], at_once)
    assert out.read_bytes() == at_once.read_bytes()
    del computed[:]
    before = out.stat().st_mtime_ns
    summary = run(second, out)
    assert (summary.added, summary.kept) == (0, len(NAMES))
    assert (computed, out.stat().st_mtime_ns) == ([], before)


def test_structures_of_one_phase_are_one_entry(tmp_path: Path) -> None:
    folder, out = tmp_path / "cifs", tmp_path / "my.db"
    folder.mkdir()
    for place, scale in enumerate((1.0, 1.003, 1.02)):
        (folder / f"quartz{place}.cif").write_text(cif("quartz", scale))
    summary = run(folder, out)
    assert (summary.added, summary.joined) == (2, 1)
    assert Database.open(out).sources.tolist() == [2, 1]
    (folder / "quartz3.cif").write_text(cif("quartz", 0.998))
    summary = run(folder, out)
    assert (summary.added, summary.kept, summary.joined) == (0, 2, 1)
    assert Database.open(out).sources.tolist() == [3, 1]


def test_a_bad_cif_is_a_row_that_says_why(cifs: Path, tmp_path: Path, computed: list[str]) -> None:
    out, table = tmp_path / "my.db", tmp_path / "my.db.failed.csv"
    (cifs / "bad.cif").write_text("data_bad\n_cell_length_a 5\n")
    summary = run(cifs, out)
    assert summary.added == len(NAMES)
    assert summary.failed == [("bad.cif", "found no atoms")]
    with table.open(newline="") as file:
        assert list(csv.reader(file)) == [["source", "reason"], ["bad.cif", "found no atoms"]]
    del computed[:]
    assert run(cifs, out).failed == summary.failed
    assert computed == []
    (cifs / "bad.cif").write_text(cif("quartz", 1.1))
    summary = run(cifs, out)
    assert (summary.added, summary.failed, table.exists()) == (1, [], False)


def test_a_killed_build_continues(cifs: Path, tmp_path: Path, computed: list[str]) -> None:
    out, whole = tmp_path / "my.db", tmp_path / "whole.db"
    assert python(KILLED.format(source=str(cifs), out=str(out))).strip() == "-9"
    assert not out.exists()
    assert len(list((tmp_path / "my.db.parts").glob("*.part"))) == 2
    summary = run(cifs, out)
    assert summary.added == len(NAMES)
    assert len(computed) == len(NAMES) - 4
    run(cifs, whole)
    assert out.read_bytes() == whole.read_bytes()
    assert not (tmp_path / "my.db.parts").exists()


def test_parts_of_a_build_killed_after_joining_are_not_joined_again(
    cifs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "my.db"

    def fail(path: Path, failures: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(build, "_write_failures", fail)
        with pytest.raises(MemoryError):
            run(cifs, out)
    content = out.read_bytes()
    assert list((tmp_path / "my.db.parts").glob("*.part"))
    summary = run(cifs, out)
    assert (summary.added, summary.kept, summary.joined) == (0, len(NAMES), 0)
    assert out.read_bytes() == content
    assert not (tmp_path / "my.db.parts").exists()


def test_another_model_embeds_the_entries_again_and_computes_no_lines(
    cifs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, computed: list[str]
) -> None:
    out = tmp_path / "my.db"
    run(cifs, out)
    assert Database.open(out).embedding.shape == (len(NAMES), 0)
    del computed[:]

    def embed(lines: Sequence[EntryLines]) -> Any:
        return np.array([[len(each.s), 1] for each in lines], np.float16).reshape(-1, 2)

    monkeypatch.setattr(embedding, "has_model", lambda: True)
    monkeypatch.setattr(retrieval, "embed_lines", embed)
    for digest in ("first", "second"):
        monkeypatch.setattr(retrieval, "model_digest", lambda digest=digest: digest)
        run(cifs, out)
        database = Database.open(out)
        assert database.model == digest
        expected = [len(database.lines(i).s) for i in range(database.count)]
        assert database.embedding[:, 0].tolist() == expected
    assert computed == []
    (cifs / "new.cif").write_text(cif("quartz", 1.1))
    assert run(cifs, out).added == 1
    assert Database.open(out).embedding.shape == (len(NAMES) + 1, 2)


Damage = Callable[[Path], Any]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda out: out.write_text("my thesis"), "not a database of phases"),
        (lambda out: out.mkdir(), "is a folder"),
        (lambda out: out.write_bytes(b""), "not a database of phases"),
    ],
)
def test_a_file_that_is_no_database_is_not_overwritten(
    cifs: Path, tmp_path: Path, damage: Damage, message: str
) -> None:
    out = tmp_path / "my.db"
    damage(out)
    before = out.read_bytes() if out.is_file() else b""
    with pytest.raises(InputError, match=message):
        run(cifs, out)
    assert not out.is_file() or out.read_bytes() == before
    assert not (tmp_path / "my.db.parts").exists()


def test_sources_without_a_good_structure_make_no_database(tmp_path: Path) -> None:
    path, out = tmp_path / "bad.cif", tmp_path / "my.db"
    path.write_text("data_bad\n")
    with pytest.raises(InputError, match=r"no structure that can be read; bad\.cif: found no unit cell"):
        run(path, out)
    assert not out.exists()
    assert not (tmp_path / "my.db.parts").exists()


def test_a_source_is_not_overwritten(cifs: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is one of the sources"):
        run(cifs / "quartz.cif", cifs / "quartz.cif")
    assert (cifs / "quartz.cif").read_text() == cif("quartz")


def test_two_builds_of_one_database_do_not_run_at_once(cifs: Path, tmp_path: Path) -> None:
    with lock_folder(tmp_path / "my.db.parts"), pytest.raises(InputError, match="another build") as error:
        run(cifs, tmp_path / "my.db")
    assert "training" not in str(error.value)


def test_a_stopped_build_says_how_to_continue(cifs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(parts, "write_part", stop)
    with pytest.raises(KeyboardInterrupt, match="the same command continues"):
        run(cifs, tmp_path / "my.db")
