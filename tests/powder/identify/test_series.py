"""In-situ series: the order of frames, one list of phases, and databases of some entries."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.powder.identify.samples import KNOWN, small_database, write_sample
from vitreous.core.errors import InputError
from vitreous.powder.identify.answer import Identification, IdentifiedPhase, Rival, SampleCurves
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.frames import find_frames
from vitreous.powder.identify.pattern_files import FileOptions
from vitreous.powder.identify.series import Tally, identify_series
from vitreous.powder.identify.subset import chosen_entries
from vitreous.powder.pattern import Pattern

pytest.importorskip("gemmi")


def touch(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).write_text("10 1\n")
    return folder


def test_frames_are_in_the_order_of_the_numbers_in_their_names(tmp_path: Path) -> None:
    found = find_frames(touch(tmp_path, "f10.xy", "f9.xy", "f100.xy", ".hidden"))
    assert [frame.path.name for frame in found.frames] == ["f9.xy", "f10.xy", "f100.xy"]
    assert [frame.at for frame in found.frames] == [1, 2, 3]
    assert found.axis == "frame"


def test_a_table_gives_axis_and_order(tmp_path: Path) -> None:
    touch(tmp_path, "a.xy", "b.xy", "left_out.xy")
    (tmp_path / "frames.csv").write_text("File, temperature (K)\na.xy, 400\nb.xy, 300.5\n\n")
    found = find_frames(tmp_path)
    assert found.axis == "temperature (K)"
    assert [(frame.path.name, frame.at) for frame in found.frames] == [("b.xy", 300.5), ("a.xy", 400)]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("", "found the columns nothing"),
        ("file\na.xy\n", "found the columns file, expected file and"),
        ("file,T\nb.xy,1\n", "found 'b.xy' in line 2, expected the name of a file"),
        ("file,T\na.xy,hot\n", "found 'hot' in line 2, expected a number"),
        ("file,T\na.xy\n", "found '' in line 2"),
        ("file,T\na.xy,nan\n", "found 'nan' in line 2"),
        ("file,T\n", "found no frames"),
    ],
)
def test_a_bad_table_is_one_line(table: str, message: str, tmp_path: Path) -> None:
    touch(tmp_path, "a.xy")
    (tmp_path / "frames.csv").write_text(table)
    with pytest.raises(InputError, match=message):
        find_frames(tmp_path)


def test_chosen_entries_are_those_of_the_database(tmp_path: Path) -> None:
    database = Database.open(small_database(tmp_path))
    places = [3, 0]
    chosen = chosen_entries(database, places)
    assert len(database) == len(KNOWN)
    assert [chosen.name(k) for k in (0, 1)] == [database.name(k) for k in places]
    assert [chosen.formula(k) for k in (0, 1)] == [database.formula(k) for k in places]
    for k, place in enumerate(places):
        for ours, theirs in zip(chosen.lines(k), database.lines(place), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert chosen.entry(k).cell == database.entry(place).cell


def test_entries_with_other_cells_have_their_lines_there(tmp_path: Path) -> None:
    database = Database.open(small_database(tmp_path))
    place = [database.name(k) for k in range(len(database))].index("quartz")
    a, b, c, *angles = database.entry(place).cell
    chosen = chosen_entries(
        database, [0, place] if place else [place], {place: (1.01 * a, 1.01 * b, 1.01 * c, *angles)}
    )
    grown = chosen.entry(len(chosen) - 1)
    assert grown.cell[0] == pytest.approx(1.01 * a)
    assert grown.volume == pytest.approx(1.01**3 * database.entry(place).volume)
    assert chosen.volume[-1] == pytest.approx(grown.volume)
    np.testing.assert_allclose(grown.lines.s, database.lines(place).s / 1.01, rtol=1e-5)
    np.testing.assert_allclose(chosen.strongest[-1], database.strongest[place] / 1.01, rtol=1e-5)
    assert database.entry(place).cell[0] == a


def found(*phases: IdentifiedPhase) -> Identification:
    x = np.linspace(10, 80, 100)
    curves = SampleCurves(x, x, x, np.zeros((len(phases), len(x))))
    return Identification(phases, Pattern(x, x), "my.db", 0.1, 1.0, (), 0.0, 0.0, None, 0.0, curves)


def a_phase(entry: int, name: str, share: float, probability: float = 1.0, *rivals: str) -> IdentifiedPhase:
    cell = (4.0, 4.0, 5.0, 90.0, 90.0, 90.0)
    others = tuple(Rival(rival, "SiO2", "", 0.3) for rival in rivals)
    group = "P " + name
    return IdentifiedPhase(
        name, "SiO2", "", group, "tetragonal", cell, (0.0,) * 6, probability, share, 0.01, share, 1.0, entry, others
    )


def test_a_frame_without_lines_is_left_out(tmp_path: Path) -> None:
    database = Database.open(small_database(tmp_path))
    frames = tmp_path / "frames"
    write_sample(frames / "f2.xy", {"halite": 1.0})
    counts = np.random.default_rng(0).poisson(100, 2000)
    (frames / "f1.xy").write_text("\n".join(f"{15 + 0.02 * k:.2f} {count}" for k, count in enumerate(counts)))
    result = identify_series(find_frames(frames), database, None, FileOptions(anode="Cu"))
    assert [failure.name for failure in result.failures] == ["f1.xy"]
    assert [frame.path.name for frame in result.frames] == ["f2.xy"]
    assert [phase.name for phase in result.phases] == ["halite"]


def test_the_entry_with_more_evidence_stands_for_a_doubtful_one() -> None:
    tally = Tally()
    tally.add(found(a_phase(1, "alpha", 1.0)))
    tally.add(found(a_phase(1, "alpha", 0.8)))
    tally.add(found(a_phase(2, "beta", 0.5, 0.6, "alpha")))
    assert tally.kept() == [1]


def test_a_sure_phase_stays_beside_its_rivals() -> None:
    tally = Tally()
    tally.add(found(a_phase(1, "alpha", 1.0, 1.0, "beta")))
    tally.add(found(a_phase(2, "beta", 0.9, 0.99, "alpha")))
    assert tally.kept() == [1, 2]


def test_two_entries_of_one_formula_and_space_group_are_one_phase() -> None:
    first, second = a_phase(1, "alpha", 1.0), replace(a_phase(2, "alpha", 0.9), name="alpha again")
    tally = Tally()
    tally.add(found(first))
    tally.add(found(second))
    assert tally.kept() == [1]
