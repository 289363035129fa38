"""Several scans in one file: one is chosen, or all are merged."""

from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.powder.files.contents import ERRORS, FORMATS, ONE_LINE, X, Y, rows
from tests.powder.files.several_scans import FACTORS, SEVERAL
from vitreous.core.errors import InputError
from vitreous.powder.files import read_pattern, read_peak_list
from vitreous.powder.files.reading import ReadOptions

TEXT = (".xy", ".dat", ".txt")


def several(folder: Path, kind: str) -> Path:
    suffix, content = SEVERAL[kind]
    path = folder / f"x{suffix}"
    path.write_bytes(content())
    return path


@pytest.mark.parametrize("kind", SEVERAL)
def test_a_scan_is_chosen_by_its_number_or_all_are_added(tmp_path: Path, kind: str) -> None:
    path = several(tmp_path, kind)
    for number, factor in enumerate(FACTORS, 1):
        pattern = read_pattern(path, scan=number)
        np.testing.assert_allclose(pattern.two_theta, X, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(pattern.intensity, factor * Y)
        assert pattern.wavelength == pytest.approx(1.540598)
        assert pattern.notes == ()
    for word in ("merge", "all"):
        merged = read_pattern(path, scan=word)
        np.testing.assert_allclose(merged.two_theta, X, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(merged.intensity, sum(FACTORS) * Y)
        assert merged.notes == ("3 scans were added",)


@pytest.mark.parametrize("kind", SEVERAL)
def test_without_a_choice_the_first_scan_is_read_with_a_note_or_a_choice_is_demanded(tmp_path: Path, kind: str) -> None:
    path = several(tmp_path, kind)
    if path.suffix in TEXT:
        with pytest.raises(
            InputError, match=r"found 3 scans \(10 to 50, 401 points; .*\); choose one with --scan 1 or"
        ):
            read_pattern(path)
    else:
        pattern = read_pattern(path)
        np.testing.assert_array_equal(pattern.intensity, Y)
        (note,) = pattern.notes
        assert note.startswith("the file holds 3 scans, of which the first was used; choose one with --scan")


@pytest.mark.parametrize("kind", SEVERAL)
def test_a_scan_that_the_file_does_not_have_is_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(InputError, match="scan: found 4, but the file has 3 scans"):
        read_pattern(several(tmp_path, kind), scan=4)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_of_one_scan_is_its_first_scan_and_their_sum(tmp_path: Path, kind: str) -> None:
    suffix, content = FORMATS[kind]
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content())
    expected = read_pattern(path)
    assert expected.notes == ()
    for scan in (1, "merge"):
        pattern = read_pattern(path, scan=scan)  # type: ignore[arg-type] - a literal of two
        np.testing.assert_array_equal(pattern.two_theta, expected.two_theta)
        np.testing.assert_array_equal(pattern.intensity, expected.intensity)
        assert pattern.wavelength2 == expected.wavelength2
        assert (pattern.wavelength2 is None) == (kind in ONE_LINE)
    with pytest.raises(InputError, match="scan: found 2, but the file has 1 scan"):
        read_pattern(path, scan=2)


@settings(max_examples=20, deadline=None)
@given(
    cuts=st.lists(st.integers(60, 340), min_size=1, max_size=3, unique=True), order=st.randoms(), shared=st.booleans()
)
def test_ranges_are_joined_in_the_order_of_their_angles(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], order: Random, shared: bool
) -> None:
    edges = [0, *(cut for cut, next_ in pairwise([*sorted(cuts), len(X)]) if next_ - cut >= 60), len(X)]
    parts = [slice(first, last + (shared and last < len(X))) for first, last in pairwise(edges)]
    order.shuffle(parts)
    path = tmp_path_factory.mktemp("ranges") / "x.xye"
    path.write_text("\n".join(rows(X[part], Y[part], ERRORS[part]) for part in parts))
    pattern = read_pattern(path, scan="merge")
    np.testing.assert_array_equal(pattern.two_theta, X)
    np.testing.assert_array_equal(pattern.intensity, Y)
    np.testing.assert_array_equal(pattern.sigma, ERRORS)


def test_standard_errors_of_added_scans_are_added_in_quadrature(tmp_path: Path) -> None:
    (tmp_path / "x.xye").write_text(rows(X, Y, 3 * ERRORS) + "\n" + rows(X, Y, 4 * ERRORS))
    np.testing.assert_allclose(read_pattern(tmp_path / "x.xye", scan="merge").sigma, 5 * ERRORS)


def test_ranges_in_rising_order_without_a_heading_are_one_pattern(tmp_path: Path) -> None:
    (tmp_path / "x.xy").write_text(rows(X[:200], Y[:200]) + "\n# second range\n" + rows(X[200:], Y[200:]))
    np.testing.assert_array_equal(read_pattern(tmp_path / "x.xy").two_theta, X)
    np.testing.assert_array_equal(read_pattern(tmp_path / "x.xy", scan=2).two_theta, X[200:])


def test_blank_lines_between_all_rows_separate_no_scans(tmp_path: Path) -> None:
    (tmp_path / "x.xy").write_text(rows(X, Y).replace("\n", "\n\n"))
    np.testing.assert_array_equal(read_pattern(tmp_path / "x.xy").two_theta, X)


def test_scans_of_falling_spacings_are_found(tmp_path: Path) -> None:
    d = 1.540598 / 2 / np.sin(np.radians(X / 2))
    (tmp_path / "x.xy").write_text("# d I\n" + rows(d, Y) + rows(d, 2 * Y))
    pattern = read_pattern(tmp_path / "x.xy", 1.540598, scan=2)
    np.testing.assert_allclose(pattern.two_theta, X, atol=1e-6)
    np.testing.assert_array_equal(pattern.intensity, 2 * Y)


def test_the_stated_number_of_points_is_that_of_each_scan(tmp_path: Path) -> None:
    (tmp_path / "x.xy").write_text(f"401\n{rows(X, Y)}\n440\n{rows(X, Y)}")
    with pytest.raises(InputError, match="states 440 points, found 401"):
        read_pattern(tmp_path / "x.xy", scan=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            rows(X, Y) + "\n" + rows(X + 20.03, Y),
            r"scans that overlap from 30.03 to 50° at different angles; choose one",
        ),
        (rows(X, Y) + "\nEnd of the data\n", "line 403: found 'End of the data', expected numbers"),
        (rows(X[:200], Y[:200]) + "11.1 lost\n" + rows(X[200:], Y[200:]), "line 201: found '11.1 lost', expected"),
        (rows(X, Y) + "2theta counts\n" + rows(X, Y), "line 402: found '2theta counts', expected numbers"),
        (rows(X, Y) + "\n" + rows(X, Y, Y), "line 403: found 3 columns, the lines before it have 2"),
        (
            "\n".join(rows(X[:50] + 9e-4 * k, Y[:50]) for k in range(101)),
            "found 101 scans to merge, expected at most 100",
        ),
    ],
)
def test_scans_that_cannot_be_merged_are_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.xy").write_text(text)
    with pytest.raises(InputError, match=message) as error:
        read_pattern(tmp_path / "x.xy", scan="merge")
    assert "\n" not in str(error.value)


def test_scans_of_different_wavelengths_are_not_merged(tmp_path: Path) -> None:
    first, second = (SEVERAL["Panalytical, measurements"][1]() for _ in range(2))
    head, _, rest = second.partition(b"</xrdMeasurement>")
    (tmp_path / "x.xrdml").write_bytes(head + b"</xrdMeasurement>" + rest.replace(b"1.5405980", b"1.7890000"))
    assert first != second.replace(b"1.54", b"1.78")
    assert read_pattern(tmp_path / "x.xrdml", scan=2).wavelength == pytest.approx(1.789)
    with pytest.raises(InputError, match=r"scan: found wavelengths of 1.5406 and 1.789 Å among the scans"):
        read_pattern(tmp_path / "x.xrdml", scan="merge")


@pytest.mark.parametrize("scan", [0, -1, 101, "sum"])
def test_an_impossible_scan_is_refused(tmp_path: Path, scan: "int | str") -> None:
    (tmp_path / "x.xy").write_text(rows(X, Y))
    with pytest.raises(InputError, match=r"^scan: "):
        read_pattern(tmp_path / "x.xy", scan=scan)  # type: ignore[arg-type] - that is the mistake


def test_a_list_of_lines_has_no_scans(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(rows(X, Y))
    with pytest.raises(InputError, match="scan: only for patterns, not for lists of lines"):
        read_peak_list(tmp_path / "x.txt", 1.5, options=ReadOptions(scan=1))


@pytest.mark.parametrize("kind", SEVERAL)
def test_a_damaged_file_of_several_scans_never_gives_a_traceback(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(0)
    suffix, content = SEVERAL[kind]
    whole = content()
    for turn in range(12):
        damaged = bytearray(whole[: rng.integers(1, len(whole))] if turn % 2 else whole)
        damaged[rng.integers(len(damaged))] = rng.integers(256)
        (tmp_path / f"x{suffix}").write_bytes(damaged)
        try:
            read_pattern(tmp_path / f"x{suffix}", scan=2 if turn % 3 else "merge")
        except InputError as error:
            assert "\n" not in str(error)  # noqa: PT017 - damage may also leave scans that can be read


def test_scans_are_merged_within_a_limit_of_their_sizes(tmp_path: Path) -> None:
    title, banks = SEVERAL["GSAS"][1]().split(b"\nBANK", 1)
    content = title + b"\n#" + b"x" * 30_000 + (b"\nBANK" + banks) * 3  # every scan has the header
    (tmp_path / "x.gsa").write_bytes(content)
    np.testing.assert_array_equal(read_pattern(tmp_path / "x.gsa", scan="merge").intensity, 3 * sum(FACTORS) * Y)
    with pytest.raises(InputError, match=r"x.gsa: scan: found more than \d+ bytes to merge, expected fewer"):
        read_pattern(tmp_path / "x.gsa", max_bytes=len(content), scan="merge")
