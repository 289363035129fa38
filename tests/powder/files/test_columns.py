"""Columns of text files, chosen by number or name or by unambiguous headings."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.powder.files.contents import CU1, ERRORS, X, Y, cif, rows
from vitreous.core.errors import InputError
from vitreous.powder.files import read_pattern, read_peak_list
from vitreous.powder.files.reading import ReadOptions

D = CU1 / 2 / np.sin(np.radians(X / 2))
COLUMNS = {
    "point": np.arange(len(X)), "2theta (deg)": X, "I_obs": Y, "sigma": ERRORS, "I_calc": Y + 3,
    "background": 0 * Y + 20, "d (Å)": D,
}  # fmt: skip


def table(path: Path, names: list[str], heading: bool = True) -> Path:
    columns = rows(*(COLUMNS[name] for name in names), separator=",")
    path.write_text((",".join(names) + "\n") * heading + columns)
    return path


@settings(max_examples=10, deadline=None)
@given(names=st.permutations(list(COLUMNS)))
def test_permuted_columns_give_the_same_pattern_by_name_by_number_and_by_heading(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("columns")
    named, bare = table(folder / "a.csv", names), table(folder / "b.csv", names, heading=False)
    wanted = ("2theta (deg)", "I_obs", "sigma")
    numbers = [str(names.index(name) + 1) for name in wanted]
    patterns = [
        read_pattern(named, columns=wanted),
        read_pattern(named, columns=["2Theta", "i_obs", "SIGMA"]),  # without unit and case
        read_pattern(named, columns=numbers),
        read_pattern(bare, columns=numbers),
        read_pattern(bare, columns=[int(number) for number in numbers]),
        read_pattern(named),
    ]
    for pattern in patterns:
        np.testing.assert_array_equal(pattern.two_theta, X)
        np.testing.assert_array_equal(pattern.intensity, Y)
        np.testing.assert_array_equal(pattern.sigma, ERRORS)


def test_a_chosen_column_is_converted_as_its_heading_or_the_user_says(tmp_path: Path) -> None:
    path = table(tmp_path / "x.csv", list(COLUMNS))
    for columns in (("d", "I_obs"), ("7", "3")):
        np.testing.assert_allclose(read_pattern(path, CU1, columns=columns).two_theta, X, atol=1e-6)
    bare = table(tmp_path / "y.csv", list(COLUMNS), heading=False)
    np.testing.assert_allclose(read_pattern(bare, CU1, columns=("7", "3"), axis="d").two_theta, X, atol=1e-6)


def test_without_a_third_chosen_column_there_are_no_standard_errors(tmp_path: Path) -> None:
    path = table(tmp_path / "x.csv", ["2theta (deg)", "I_obs", "sigma"])
    assert read_pattern(path).sigma is not None
    assert read_pattern(path, columns=(1, 2)).sigma is None


def test_columns_of_a_list_of_lines_are_chosen(tmp_path: Path) -> None:
    path = table(tmp_path / "x.csv", ["point", "d (Å)", "I_calc", "2theta (deg)"])
    lines = read_peak_list(path, CU1, options=ReadOptions(columns=("2theta", "I_calc")))
    np.testing.assert_allclose(lines.two_theta, X, atol=1e-6)
    np.testing.assert_array_equal(lines.intensity, Y + 3)
    lines = read_peak_list(path, CU1, options=ReadOptions(columns=("2",)))
    np.testing.assert_allclose(lines.two_theta, X, atol=1e-6)
    assert lines.intensity is None


NAMES = "2theta (deg),I_obs,I_calc,background"
BAD: dict[str, tuple[str, tuple[str | int, ...]]] = {
    "found 4 columns, expected 2θ, intensity and optionally its standard error; choose them by number or name, e.g. "
    "--columns 1 2": ("", ()),
    "e.g. --columns 1 2; their names: a1, b, c, e2": ("a1,b,c,e2", ()),
    "their names: 2theta, I_one, int_two, foo": ("2theta,I_one,int_two,foo", ()),  # which intensity?
    "columns: found 5, expected 1 to 4": (NAMES, ("1", "5")),
    "columns: found 0, expected 1 to 4": (NAMES, (0, 1)),
    "columns: found no columns 'counts', expected one of: 2theta (deg), I_obs, I_calc, background": (
        NAMES, ("2theta", "counts"),
    ),
    "columns: found several columns 'I_obs', expected": ("2theta,I_obs,I_obs,b", ("2theta", "I_obs")),
    "columns: found one column twice in 1, 2theta": (NAMES, ("1", "2theta")),
    "columns: found 'tth', but no headings; expected numbers from 1 to 4": ("", ("tth", "2")),
    "columns: found 1, expected angle and intensity": (NAMES, ("1",)),
    "columns: found 4, expected angle, intensity and optionally its error": (NAMES, ("1", "2", "3", "4")),
    "found a sorted second column and an unsorted first one": (NAMES, ("2", "1")),
    "found 'TOF (us)' as first column; times of flight also need the": ("a,TOF (us),c,b", ("TOF (us)", "1")),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD)
@pytest.mark.filterwarnings("error")
def test_a_bad_choice_of_columns_is_one_line(tmp_path: Path, message: str) -> None:
    heading, columns = BAD[message]
    (tmp_path / "x.csv").write_text(f"{heading}\n" * bool(heading) + rows(X, Y, Y + 1, 0 * Y, separator=","))
    with pytest.raises(InputError) as error:
        read_pattern(tmp_path / "x.csv", columns=columns)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_columns_are_only_for_text(tmp_path: Path) -> None:
    (tmp_path / "x.cif").write_bytes(cif())
    with pytest.raises(InputError, match=r"columns: only for columns of text; .cif files state"):
        read_pattern(tmp_path / "x.cif", columns=(1, 2))


@pytest.mark.parametrize(("columns", "message"), [((1, 2, 3), "found 3, expected angle and intensity of a list")])
def test_a_list_of_lines_has_no_third_column(tmp_path: Path, columns: tuple[Any, ...], message: str) -> None:
    (tmp_path / "x.txt").write_text(rows(X, Y, ERRORS))
    with pytest.raises(InputError, match=message):
        read_peak_list(tmp_path / "x.txt", CU1, options=ReadOptions(columns=columns))
