"""Database files: what is written is read, and what is no database is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.powder.identify.crystals import NAMES, crystal
from vitreous.core.errors import InputError
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.database_file import Selection, entry_arrays, write_database
from vitreous.powder.identify.entry import Entry, entry_of, entry_of_cell

ITEM = np.zeros((1, 16), np.uint8)


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    pytest.importorskip("gemmi")
    folder = tmp_path_factory.mktemp("crystals")
    found = [entry_of(crystal(folder, name), name, "", f"{name}.cif") for name in NAMES]
    return [*found, entry_of_cell((5.0, 6.0, 7.0, 90.0, 101.0, 90.0), None, "unbekannt Ä", "", "cells.csv, line 2")]


@pytest.fixture
def path(entries: list[Entry], tmp_path: Path) -> Path:
    path = tmp_path / "some.db"
    write_database(path, [Selection(entry_arrays(entries), np.arange(len(entries)))], ITEM, [("a.cif", "bad")])
    return path


def test_entries_are_read_as_they_were_written(path: Path, entries: list[Entry]) -> None:
    database = Database.open(path)
    assert database.count == len(entries)
    for i, expected in enumerate(entries):
        found = database.entry(i)
        for field in ("name", "formula", "source", "spacegroup", "number", "system", "elements", "has_atoms"):
            assert getattr(found, field) == getattr(expected, field)
        assert found.cell == expected.cell
        assert found.cell_mass == expected.cell_mass
        assert all(np.array_equal(*pair) for pair in zip(found.lines, expected.lines, strict=True))
        assert [part.dtype for part in found.lines] == [np.int16, np.float32, np.float32]


def test_arrays_have_the_types_and_shapes_that_are_documented(path: Path) -> None:
    database, n = Database.open(path), len(NAMES) + 1
    assert (database.cell.shape, database.cell.dtype) == ((n, 6), np.float64)
    assert (database.elements.shape, database.elements.dtype) == ((n, 4), np.uint32)
    assert (database.strongest.shape, database.strongest.dtype) == ((n, 8), np.float32)
    assert (database.embedding.shape, database.embedding.dtype) == ((n, 0), np.float16)
    assert (database.spacegroup.dtype, database.sources.tolist()) == (np.int16, [1] * n)
    assert database.has_atoms.tolist() == [True] * (n - 1) + [False]


def test_the_strongest_line_comes_first(path: Path) -> None:
    database = Database.open(path)
    d = {name: 1 / database.strongest[i, 0] for i, name in enumerate(NAMES)}
    assert d["quartz"] == pytest.approx(3.34, abs=0.01)
    assert d["halite"] == pytest.approx(2.82, abs=0.01)
    assert d["rutile"] == pytest.approx(3.25, abs=0.01)


def test_the_file_has_the_safetensors_format(path: Path) -> None:
    arrays = load_file(path)
    database = Database.open(path)
    assert set(arrays) == set(database.arrays)
    assert all(np.array_equal(arrays[name], database.arrays[name]) for name in arrays)


def test_the_arrays_are_mapped_and_cannot_be_changed(path: Path) -> None:
    with pytest.raises(ValueError, match="read-only"):
        Database.open(path).cell[0, 0] = 1.0


def test_rows_of_several_files_are_joined_in_their_order(path: Path, tmp_path: Path) -> None:
    database, out = Database.open(path), tmp_path / "two.db"
    rows = [np.array([0, 2, 3]), np.array([1, 6])]
    write_database(out, [Selection(database.arrays, each) for each in rows], ITEM, [])
    joined = Database.open(out)
    assert [joined.name(i) for i in range(5)] == [database.name(i) for i in (0, 2, 3, 1, 6)]
    assert np.array_equal(joined.lines(3).hkl, database.lines(1).hkl)


def test_elements_choose_entries(path: Path) -> None:
    database = Database.open(path)

    def names(required: tuple[str, ...] = (), excluded: tuple[str, ...] = ()) -> set[str]:
        return {database.name(int(i)) for i in np.flatnonzero(database.having(required, excluded))}

    assert names(("Cl",)) == {"halite", "sylvite"}
    assert names(("Cl", "K")) == {"sylvite"}
    assert names(("Cl",), ("K",)) == {"halite"}
    assert names((), ("O", "Cl", "F")) == {"unbekannt Ä"}
    assert database.having().all()


@pytest.mark.parametrize(("symbol", "message"), [("Au", "which no entry"), ("Xx", "symbols of elements")])
def test_elements_that_no_entry_has_are_refused(path: Path, symbol: str, message: str) -> None:
    with pytest.raises(InputError, match=f"found {symbol}.*{message}|found '{symbol}'.*{message}"):
        Database.open(path).having((symbol,))


@pytest.mark.parametrize("index", [-1, 99])
def test_the_last_entry_has_the_index_minus_one_and_others_are_errors(path: Path, index: int) -> None:
    database = Database.open(path)
    if index == -1:
        assert database.name(-1) == "unbekannt Ä"
        assert len(database.entry(-1).lines.s) == len(database.lines(database.count - 1).s)
    else:
        for read in (database.name, database.lines, database.entry):
            with pytest.raises(IndexError):
                read(index)


def test_what_is_no_database_is_refused_in_one_line(path: Path, tmp_path: Path) -> None:
    content = path.read_bytes()
    other = tmp_path / "other.safetensors"
    save_file({"x": np.zeros(3)}, other)
    files = {
        "absent": (None, "no such file"),
        "empty": (b"", "not a database"),
        "text": (b"data_quartz\n_cell_length_a 4.9\n" * 50, "not a database"),
        "cut": (content[:-100], "not a database"),
        "head": (content[:50], "not a database"),
        "foreign": (other.read_bytes(), "another kind of file"),
        "version": (content.replace(b"vitreous phases 1", b"vitreous phases 9"), "expected 'vitreous phases 1'"),
        "array": (content.replace(b'"line_s"', b'"line_x"'), "damaged"),
    }
    for name, (data, message) in files.items():
        bad = tmp_path / name
        if data is not None:
            bad.write_bytes(data)
        with pytest.raises(InputError, match=message) as error:
            Database.open(bad)
        assert str(error.value).startswith(str(bad))
        assert "\n" not in str(error.value)


def test_lengths_that_contradict_the_arrays_are_refused(path: Path) -> None:
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    content[8 + size + header["line_count"]["data_offsets"][0]] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        Database.open(path)


def test_a_database_without_entries_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.db"
    write_database(path, [Selection(entry_arrays([]), np.arange(0))], ITEM, [])
    with pytest.raises(InputError, match="no entries"):
        Database.open(path)
