"""Which structures are of one phase."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.powder.identify.crystals import crystal
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.database_file import Selection, entry_arrays, write_database
from vitreous.powder.identify.duplicates import join_duplicates, similarity
from vitreous.powder.identify.entry import Entry, entry_of

Joined = Callable[..., list[int]]


@pytest.fixture
def joined(tmp_path: Path) -> Joined:
    """The owners of entries."""
    pytest.importorskip("gemmi")

    def find(*entries: Entry, distinct: int = 0) -> list[int]:
        path, n = tmp_path / "some.db", len(entries)
        write_database(path, [Selection(entry_arrays(entries), np.arange(n))], np.zeros((1, 16), np.uint8), [])
        found = join_duplicates([Database.open(path)], np.zeros(n, np.int64), np.arange(n), distinct)
        return [int(k) for k in found]

    return find


def entry(folder: Path, name: str, scale: float = 1.0, title: str = "x") -> Entry:
    return entry_of(crystal(folder, name, scale), title, "", "")


def test_structures_within_half_a_percent_are_one_phase(tmp_path: Path, joined: Joined) -> None:
    scales = (1.0, 1.004, 0.996, 1.006, 1.0075)
    assert joined(*(entry(tmp_path, "quartz", scale) for scale in scales)) == [0, 0, 0, 3, 3]


def test_other_elements_are_another_phase(tmp_path: Path, joined: Joined) -> None:
    assert joined(entry(tmp_path, "halite", 1.1157), entry(tmp_path, "sylvite")) == [0, 1]


def test_another_space_group_is_another_phase(tmp_path: Path, joined: Joined) -> None:
    quartz = entry(tmp_path, "quartz")
    assert joined(quartz, replace(quartz, number=152)) == [0, 1]


def test_other_intensities_are_another_phase(tmp_path: Path, joined: Joined) -> None:
    quartz = entry(tmp_path, "quartz")
    lines = quartz.lines._replace(intensity=quartz.lines.intensity[::-1].copy())
    assert similarity(quartz.lines, quartz.lines) == pytest.approx(1)
    assert similarity(quartz.lines, lines) < 0.7
    assert joined(quartz, replace(quartz, lines=lines)) == [0, 1]


def test_another_name_needs_the_same_composition(tmp_path: Path, joined: Joined) -> None:
    first = replace(entry(tmp_path, "rutile"), name="Barite", formula="Ba.5Sr.5SO4")
    same, near = (
        replace(first, name="Baryte", formula="SO4Sr.5Ba.5"),
        replace(first, name="Celestine", formula="Ba.4Sr.6SO4"),
    )
    assert joined(first, same, near) == [0, 0, 2]
    assert joined(first, replace(near, name="barite")) == [0, 0]


def test_a_cell_without_atoms_is_not_the_structure(tmp_path: Path, joined: Joined) -> None:
    quartz = entry(tmp_path, "quartz")
    bare = replace(quartz, has_atoms=False, cell_mass=0.0)
    assert joined(quartz, bare, bare) == [0, 1, 1]


def test_phases_of_the_database_stay_apart(tmp_path: Path, joined: Joined) -> None:
    quartz = entry(tmp_path, "quartz")
    assert joined(quartz, quartz, quartz, distinct=2) == [0, 1, 0]


def test_the_same_crystal_in_another_setting_is_the_same_phase(tmp_path: Path, joined: Joined) -> None:
    """Rock salt in a primitive cell."""
    halite = crystal(tmp_path, "halite")
    half = np.array([[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]]).T  # columns: the new axes
    inverse = np.linalg.inv(half)
    rotations, translations = halite.operations
    own = (translations == 0).all(1) | (translations % 1 == 0).all(1)
    turned = np.rint(inverse @ rotations[own] @ half).astype(np.int64), np.zeros((int(own.sum()), 3))
    length = 5.6402 / 2**0.5
    primitive = replace(
        halite, cell=(length,) * 3 + (60.0,) * 3, operations=turned, positions=(halite.positions @ inverse.T) % 1.0
    )
    assert joined(entry_of(halite, "x", "", ""), entry_of(primitive, "x", "", "")) == [0, 0]
