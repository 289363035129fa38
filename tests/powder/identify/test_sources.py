"""Sources of a database: the same CIFs in a folder, a zip or a tar are the same items; limits and damage."""

import gzip
import json
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.powder.identify.crystals import NAMES, cif, write_cifs, zipped
from vitreous.core.errors import InputError
from vitreous.powder.identify import sources
from vitreous.powder.identify.read_entries import entries_of_item
from vitreous.powder.identify.sources import Item, check_sources, read_items

MINERAL = {
    "id": 12, "mineral": "Halite", "formula": "Na Cl", "spacegroup": "P 1", "cell": [3.9, 3.9, 3.9, 60, 60, 60],
    "operations": ["x,y,z"], "sites": [["Na", 0, 0, 0, 1], ["Cl", 0.5, 0.5, 0.5, 1]],
}  # fmt: skip


def ids(*paths: Path) -> list[bytes]:
    return [item.id for item in read_items(paths)]


def names(item: Item) -> list[str]:
    entries, failures = entries_of_item(item)
    assert not failures
    return [entry.name for entry in entries]


def test_a_folder_and_archives_of_it_hold_the_same_items(tmp_path: Path) -> None:
    folder = write_cifs(tmp_path / "cifs")
    (folder / "notes.txt").write_text("not a structure")
    packed, tar = tmp_path / "cifs.zip", tmp_path / "cifs.tar.gz"
    with zipfile.ZipFile(packed, "w") as archive, tarfile.open(tar, "w:gz") as tape:
        for file in sorted(folder.rglob("*.*")):
            archive.write(file, file.relative_to(folder))
            tape.add(file, f"./{file.relative_to(folder)}")
    assert len(ids(folder)) == len(NAMES)
    assert set(ids(folder)) == set(ids(packed)) == set(ids(tar))
    assert ids(folder) == ids(folder)


def test_an_item_is_known_by_its_path_and_content(tmp_path: Path) -> None:
    first, second = tmp_path / "a.cif", tmp_path / "b.cif"
    first.write_text(cif("quartz"))
    second.write_text(cif("quartz"))
    before = ids(first, second)
    assert len(set(before)) == 2
    first.write_text(cif("halite"))
    assert ids(first)[0] not in before


def test_a_cif_with_several_structures_becomes_several_entries() -> None:
    pytest.importorskip("gemmi")
    text = cif("quartz") + "data_text\n_publ_section_title none\n" + cif("halite")
    entries, failures = entries_of_item(Item("two.cif", "two.cif", "cif", text.encode()))
    assert [entry.name for entry in entries] == ["quartz", "halite"]
    assert [entry.source for entry in entries] == ["two.cif quartz", "two.cif halite"]
    assert not failures


def test_one_bad_structure_of_a_cif_does_not_hide_the_others() -> None:
    pytest.importorskip("gemmi")
    text = cif("quartz") + cif("halite").replace("Na 0 0 0", "Na ? ? ?")
    entries, failures = entries_of_item(Item("two.cif", "two.cif", "cif", text.encode()))
    assert [entry.name for entry in entries] == ["quartz"]
    assert failures == [("two.cif halite", "atom 'Na' has no position")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "found no unit cell"),
        (b"\x00\xff\x13 no text", "not a CIF"),
        (b"loop_", "not a CIF"),
        (cif("quartz").partition("loop_")[0].encode(), "found no atoms"),
        (cif("quartz").replace("4.91400", "0.1").encode(), "unit cell"),
        (cif("quartz").replace("P 32 2 1", "P 99").encode(), "no symmetry operations"),
        (cif("quartz").replace("Si 0.4699", "Qq 0.4699").encode(), "unknown element"),
        (cif("quartz").replace("0.4699", "1e400").encode(), "no position"),
    ],
)
def test_a_bad_cif_has_a_reason(text: bytes, reason: str) -> None:
    pytest.importorskip("gemmi")
    entries, [(source, found)] = entries_of_item(Item("bad.cif", "bad.cif", "cif", text))
    assert not entries
    assert source == "bad.cif"
    assert reason in found
    assert "\n" not in found
    assert not found.startswith("bad.cif")


def test_a_cif_over_the_limit_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_MAX_CIF", 1000)
    path = tmp_path / "bomb.cif.gz"
    path.write_bytes(zipped(b"#" * 1_000_000))
    [item] = read_items([path])
    assert not item.content
    assert "larger than" in item.reason
    path.write_bytes(path.read_bytes()[:15])
    assert "cannot be unpacked" in next(read_items([path])).reason


def test_structures_of_a_file_are_named_by_it(tmp_path: Path) -> None:
    pytest.importorskip("gemmi")
    path = tmp_path / "minerals.jsonl.gz"
    nameless = MINERAL | {"id": 13, "mineral": "<missing>"}
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, (MINERAL, nameless, {"id": 14}))).encode()))
    first, second, bad = read_items([path])
    [entry] = entries_of_item(first)[0]
    assert (entry.name, entry.formula, entry.source) == ("Halite", "NaCl", "minerals 0000012")
    assert names(second) == ["NaCl"]
    assert entries_of_item(bad)[1][0][0] == "minerals.jsonl.gz, line 3"
    renamed = path.rename(tmp_path / "other.jsonl.gz")
    assert ids(renamed)[0] == first.id


def test_rows_of_a_list_of_cells_are_entries(tmp_path: Path) -> None:
    pytest.importorskip("gemmi")
    path = tmp_path / "cells.csv"
    rows = ["Name,a,b,c,beta,spacegroup,formula", "monazite,6.79,7.02,6.48,103.4,P 1 21/n 1,CePO4", "unknown,5,6,7,,,"]
    path.write_text("\n".join([*rows, "bad,5,x,7,,,", ",,,,,,", "worse,5,6,7,,P 99,"]) + "\n")
    items = list(read_items([path]))
    assert [names(item) for item in items[:2]] == [["monazite"], ["unknown"]]
    [first], [second] = (entries_of_item(item)[0] for item in items[:2])
    assert (first.number, first.cell[4], first.has_atoms) == (14, 103.4, False)
    assert (second.cell, second.system) == ((5.0, 6.0, 7.0, 90.0, 90.0, 90.0), "orthorhombic")
    reasons = [entries_of_item(item)[1] for item in items[2:]]
    assert reasons[0] == [("cells.csv, line 4", "column b: found 'x', expected a number")]
    assert reasons[1][0][1].startswith("found space group 'P 99'")


def test_sources_that_hold_nothing_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "note.doc").write_text("x")
    (tmp_path / "bad.zip").write_bytes(b"PK no zip")
    (tmp_path / "bad.tar.gz").write_bytes(zipped(b"x" * 100)[:-20])
    (tmp_path / "bad.jsonl.gz").write_bytes(b"no gzip")
    (tmp_path / "none.jsonl").write_bytes(b"\n")
    (tmp_path / "cells.csv").write_text("name,d\nx,3\n")
    (tmp_path / "binary.csv").write_bytes(b"a,b,c\0\n")
    messages = {
        "empty": "found no structures", "note.doc": "unknown kind of source", "absent": "no such file or folder",
        "bad.zip": "cannot be read", "bad.tar.gz": "cannot be read", "bad.jsonl.gz": "cannot be read",
        "none.jsonl": "found no structures", "cells.csv": "missing 'a'", "binary.csv": "binary content",
    }  # fmt: skip
    for name, message in messages.items():
        path = tmp_path / name
        with pytest.raises(InputError, match=message) as error:
            list(read_items([path]))
        assert str(error.value).startswith(str(path))
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="sources: found none"):
        check_sources([])
