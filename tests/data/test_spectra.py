"""Spectra files: every format gives the same source, large files are mapped, errors have one line."""

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.data import Axis, Source, Target, data_folder, read_columns, read_spectra, split

RNG = np.random.default_rng(0)
N, POINTS = 12, 9
AXIS = 1100 + 2.5 * np.arange(POINTS)
X = RNG.normal(size=(N, POINTS)).astype(np.float32)
ASSAY = RNG.uniform(150, 250, size=N)
KIND = np.array(["oil", "fat", "wax"] * 4)
PART = np.array(["train"] * 8 + ["validation"] * 2 + ["test"] * 2)


def frame(x: NDArray[Any] = X, axis: NDArray[Any] = AXIS, **columns: Any) -> pd.DataFrame:
    columns_by_name = {"assay": ASSAY, "kind": KIND, "split": PART} | columns
    spectra = pd.DataFrame(x, columns=[f"{value:g}" for value in axis])
    return pd.concat([pd.DataFrame({"sample": np.arange(len(x)), **columns_by_name}), spectra], axis=1)


def save_csv(path: Path) -> None:
    frame().to_csv(path, index=False)


def save_parquet(path: Path) -> None:
    frame().to_parquet(path)


def save_npy(path: Path) -> None:
    np.save(path, X)
    frame()[["assay", "kind", "split"]].to_csv(path.with_suffix(".csv"), index=False)


def arrays() -> dict[str, NDArray[Any]]:
    columns_by_name = {"axis": AXIS}
    for part in ("train", "validation", "test"):
        chosen = np.flatnonzero(part == PART)
        columns_by_name |= {f"{part}_x": X[chosen], f"{part}_assay": ASSAY[chosen], f"{part}_kind": KIND[chosen]}
    return columns_by_name


def save_npz(path: Path) -> None:
    np.savez(path, **arrays())


def save_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        for name, values in arrays().items():
            file[name] = values.astype(h5py.string_dtype()) if values.dtype.kind == "U" else values


SAVE: dict[str, Callable[[Path], None]] = {
    ".csv": save_csv,
    ".parquet": save_parquet,
    ".npy": save_npy,
    ".npz": save_npz,
    ".h5": save_hdf5,
    ".hdf5": save_hdf5,
}


@pytest.fixture(params=SAVE)
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"tablets{request.param}"
    SAVE[request.param](path)
    return path


def test_every_format_gives_the_same_quantities(saved: Path) -> None:
    axis = Axis("wavelength", "nm", 1100, 2.5) if saved.suffix == ".npy" else "wavelength"
    source = read_spectra(saved, ["assay:mg"], axis, "nm")
    assert source.name == saved.name
    assert source.axes == (Axis("wavelength", "nm", 1100, 2.5),)
    assert source.channels == ("intensity",)
    assert source.targets == (Target("assay", "mg"),)
    assert source.classes == ()
    assert source.input == (1, POINTS)
    np.testing.assert_allclose(source.x, X[:, None], rtol=1e-6)
    assert source.x.flags.c_contiguous  # a spectrum in one piece
    np.testing.assert_allclose(source.y, ASSAY[:, None], rtol=1e-12)
    assert {part: list(rows) for part, rows in source.parts.items()} == {
        "train": list(range(8)),
        "validation": [8, 9],
        "test": [10, 11],
    }
    assert split(source).test.tolist() == [10, 11]


def test_every_format_gives_the_same_classes(saved: Path) -> None:
    source = read_spectra(saved, "kind", name="fats")
    assert source.name == "fats"
    assert source.classes == ("fat", "oil", "wax")
    assert source.y is not None
    assert [source.classes[k] for k in source.y] == KIND.tolist()


def test_without_targets_there_is_nothing_but_the_spectra(saved: Path) -> None:
    source = read_spectra(saved)
    assert (source.y, source.classes, source.targets) == (None, (), ())
    np.testing.assert_allclose(source.x, X[:, None], rtol=1e-6)


def test_columns_are_read_beside_the_spectra(saved: Path) -> None:
    values = read_columns(saved, ["assay:mg", "kind"])
    np.testing.assert_allclose(values["assay (mg)"], ASSAY)
    assert values["kind"].tolist() == KIND.tolist()
    with pytest.raises(InputError, match="no target 'width'"):
        read_columns(saved, ["width"])


def test_columns_may_have_gaps(tmp_path: Path) -> None:
    gap = np.arange(N) % 5 == 2
    lot = np.where(gap, np.nan, 7.0)
    frame(assay=np.where(gap, np.nan, ASSAY), kind=np.where(gap, "", KIND), lot=lot).to_csv(
        tmp_path / "x.csv", index=False
    )
    values = read_columns(tmp_path / "x.csv", ["assay", "kind", "lot:class"])
    np.testing.assert_array_equal(values["assay"], np.where(gap, np.nan, ASSAY))
    assert values["kind"].tolist() == np.where(gap, "", KIND).tolist()
    assert values["lot"].tolist() == np.where(gap, "", "7").tolist()


def test_a_missing_target_is_named_beside_those_there_are(saved: Path) -> None:
    with pytest.raises(InputError, match=r"tablets\..*: no target 'asay'; found: .*assay, kind"):
        read_spectra(saved, ["asay"])


def test_a_class_label_among_quantities_is_refused(saved: Path) -> None:
    with pytest.raises(InputError, match="'kind' is a class label, one of 2 targets; expected one class label or any"):
        read_spectra(saved, ["assay", "kind"])


def test_an_empty_file_is_refused(saved: Path) -> None:
    saved.write_bytes(b"")
    with pytest.raises(InputError, match=f"{saved.name}: empty file"):
        read_spectra(saved)


@pytest.mark.parametrize("suffix", [suffix for suffix in SAVE if suffix != ".csv"])
def test_a_damaged_file_is_reported_in_one_line(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    SAVE[suffix](path)
    whole = path.read_bytes()
    for content in (b"not what its name says", whole[: len(whole) // 2], pickle.dumps([1, 2])):
        path.write_bytes(content)
        with pytest.raises(InputError) as error:
            read_spectra(path)
        assert str(error.value).startswith(f"{path}: ")
        assert "\n" not in str(error.value)


def test_an_npy_file_is_mapped(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    source = read_spectra(tmp_path / "x.npy")
    assert isinstance(source.x, np.memmap)
    assert source.axes == (Axis(),)


def test_hdf5_keeps_units_beside_the_arrays(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"], file["two_theta"], file["count"] = X, AXIS, np.arange(N)
        file["two_theta"].attrs["units"] = np.bytes_("rad")
        file["count"].attrs["units"] = "1/s"
    source = read_spectra(tmp_path / "x.h5", "count")
    assert source.axes[0].label == "two_theta (rad)"
    assert source.targets == (Target("count", "1/s"),)


@pytest.mark.parametrize(
    ("name", "axis"),
    [
        ("wavelength_nm", Axis("wavelength", "nm", 1100, 2.5)),
        ("two_theta", Axis("two_theta", "degrees", 1100, 2.5)),
        ("wavelength", Axis("wavelength", "", 1100, 2.5)),
        ("axis", Axis("axis", "", 1100, 2.5)),
        ("shift", Axis("shift", "", 1100, 2.5)),
    ],
)
def test_the_axis_of_an_archive_is_known_by_its_name(tmp_path: Path, name: str, axis: Axis) -> None:
    np.savez(tmp_path / "x.npz", x=X, **{name: AXIS})  # type: ignore[arg-type]
    assert read_spectra(tmp_path / "x.npz", axis="shift" if name == "shift" else None).axes == (axis,)
    assert read_spectra(tmp_path / "x.npz", axis=name).axes == (axis,)
    assert read_spectra(tmp_path / "x.npz", axis="energy").axes[0].name == "energy"


def test_channels_stay_apart(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.stack([X, 2 * X], axis=1), y=ASSAY)
    source = read_spectra(tmp_path / "x.npz")
    assert source.channels == ("channel 1", "channel 2")
    assert source.input == (2, POINTS)
    assert source.targets == (Target("y"),)


def test_integers_of_an_archive_are_classes_and_with_a_unit_quantities(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=X, y=np.array([10, 9, 2] * 4))
    assert read_spectra(tmp_path / "x.npz").classes == ("2", "9", "10")
    assert read_spectra(tmp_path / "x.npz", "y:mm").targets == (Target("y", "mm"),)


def test_numbers_of_a_table_are_quantities_and_when_told_classes(tmp_path: Path) -> None:
    frame(grade=[10, 9, 2] * 4).to_csv(tmp_path / "x.csv", index=False)
    assert read_spectra(tmp_path / "x.csv", "grade").targets == (Target("grade"),)
    assert read_spectra(tmp_path / "x.csv", "grade:class").classes == ("2", "9", "10")


def test_columns_of_y_are_numbered_or_take_the_names_given(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=X, y=np.stack([ASSAY, -ASSAY], axis=1), axis=AXIS)
    assert read_spectra(tmp_path / "x.npz").targets == (Target("y 1"), Target("y 2"))
    named = read_spectra(tmp_path / "x.npz", ["a:Å", "b:Å"])
    assert named.targets == (Target("a", "Å"), Target("b", "Å"))
    with pytest.raises(InputError, match=r"no target 'a', and array 'y' has 2 column\(s\) for 1 name"):
        read_spectra(tmp_path / "x.npz", ["a"])


def test_separators_byte_order_marks_blank_lines_and_unnamed_columns_do_not_matter(tmp_path: Path) -> None:
    for number, separator in enumerate(",;\t"):
        path = tmp_path / f"{number}.csv"
        frame().to_csv(path, sep=separator, encoding="utf-8-sig")  # with pandas' own unnamed row numbers
        path.write_bytes(path.read_bytes() + b"\n")
        np.testing.assert_allclose(read_spectra(path, "assay").x, X[:, None], rtol=1e-6)


@given(steps=st.lists(st.floats(0.5, 2), min_size=2, max_size=30), falling=st.booleans())
def test_an_uneven_axis_is_resampled_onto_an_even_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[float], falling: bool
) -> None:
    axis = np.cumsum([400.0, *steps])[:: -1 if falling else 1]
    path = tmp_path_factory.mktemp("uneven") / "x.npz"
    np.savez(path, x=np.stack([3 * axis + 1, -axis]), axis=axis)  # straight lines stay what they are
    source = read_spectra(path)
    grid = source.axes[0].origin + source.axes[0].spacing * np.arange(len(axis))
    np.testing.assert_allclose(grid[[0, -1]], axis[[0, -1]])
    within = 3.1e-3 * abs(source.axes[0].spacing)  # slope times a thousandth of a step, where it counts as even
    np.testing.assert_allclose(source.x[:, 0], np.stack([3 * grid + 1, -grid]), rtol=0, atol=within)


def test_an_axis_even_to_a_thousandth_is_left_alone(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=X, axis=AXIS + RNG.uniform(-1e-3, 1e-3, POINTS))
    assert np.array_equal(read_spectra(tmp_path / "x.npz").x[:, 0], X)


def changed(value: float, row: int = 3, point: int = 4) -> NDArray[np.float32]:
    x = X.copy()
    x[row, point] = value
    return x


def as_objects(*rows: list[float]) -> NDArray[Any]:
    out = np.empty(len(rows), dtype=object)
    out[:] = [np.array(row) for row in rows]
    return out


BAD_TABLES: dict[str, tuple[str | pd.DataFrame, str]] = {
    "ragged: line 3 has 2 cells, the header has 3": ("1,2,assay\n1,2,3\n1,2\n", "assay"),
    "ragged: line 2 has 4 cells": ("1,2,assay\n1,2,3,4\n", "assay"),
    "found no column whose header is a number, only a, b": ("a,b\n1,2\n", ""),
    "spectra have 1 point(s), expected two or more": ("1,b\n1,2\n", ""),
    "found headers and no rows": ("1,2\n", ""),
    "empty file": ("\n \n", ""),
    "column 1: found 'x' in row 1, expected a number": ("1,2\n1,2\nx,2\n", ""),
    "column 1: found '0,5' in row 0, expected a number": ("1;2\n0,5;2\n", ""),
    "axis: found 1 more than once; does the file begin with its header?": ("1,1.0\n3,4\n", ""),
    "axis: found 2 after 3, expected it to rise or fall": ("1,3,2,4\n1,1,1,1\n", ""),
    "found nan in row 3, column 1110, expected a finite number": (frame(changed(np.nan)), ""),
    "found inf in row 3, column 1110": (frame(changed(np.inf)), ""),
    "target 'flat' is constant (1)": (frame(flat=1), "flat"),
    "target 'gaps' has 2 missing or infinite value(s), the first in row 1": (
        frame(gaps=[1, np.nan, 3, np.nan] + [0] * 8),
        "gaps",
    ),
    "target 'gaps' has 4 missing label(s), the first in row 1": (frame(gaps=["a", None, "b"] * 4), "gaps"),
    "target 'one': found 'lost' in row 2 among numbers; expected numbers, or one:class for labels": (
        frame(one=["1", "2", "lost"] * 4),
        "one",
    ),
    "found one class only, 'a'": (frame(same="a"), "same"),
    "column 'split': found 'trian' in row 0, expected train, validation, test": (frame(split="trian"), "assay"),
    "found 2 columns named 'assay', expected one": ("1,2,assay,assay\n1,2,3,4\n", "assay"),
}


@pytest.mark.parametrize("message", BAD_TABLES)
def test_a_bad_table_is_reported_in_one_line(tmp_path: Path, message: str) -> None:
    content, target = BAD_TABLES[message]
    path = tmp_path / "x.csv"
    path.write_text(content if isinstance(content, str) else content.to_csv(index=False))
    with pytest.raises(InputError) as error:
        read_spectra(path, target or ())
    assert message in str(error.value)
    assert "x.csv: " in str(error.value)
    assert "\n" not in str(error.value)


BAD_ARCHIVES: dict[str, dict[str, Any]] = {
    "found arrays y, z; expected x, or train_x and test_x": {"y": ASSAY, "z": X},
    "'x' holds Python objects, expected numbers; are the spectra of unequal length?": {"x": as_objects([1, 2], [3])},
    "test_x has shape (12, 5) and train_x (12, 9)": {"train_x": X, "test_x": X[:, :5]},
    "found test_x without test_y among arrays train_x, train_y, test_x": {"train_x": X, "train_y": ASSAY, "test_x": X},
    "y has shape (11,); expected 12 rows as in x": {"x": X, "y": ASSAY[:-1]},
    "array 'y' has shape (12, 2) of type int64": {"x": X, "y": np.zeros((N, 2), dtype=np.int64)},
    "target 'y' is of type complex128": {"x": X, "y": ASSAY * 1j},
    "spectra are of type complex64, expected real numbers": {"x": X * np.complex64(1j)},
    "spectra have shape (12, 3, 3, 1), expected": {"x": X.reshape(N, 3, 3, 1)},
    "x has shape (9,)": {"x": X[0]},
    "found nan in row 3, point 4, expected a finite number": {"x": changed(np.nan)},
    "found nan in row 3, point 4, channel 1": {"x": np.stack([changed(np.nan), X], axis=1)},
    "axis: found nan, expected finite numbers": {"x": X, "axis": AXIS * np.nan},
    "axis: found 1100 more than once": {"x": X, "axis": AXIS // 100 * 100},
    "target 'y' is constant (2)": {"x": X, "y": np.full(N, 2.0)},
    "found no samples": {"x": X[:0]},
}


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
@pytest.mark.parametrize("message", BAD_ARCHIVES)
def test_a_bad_archive_is_reported_in_one_line(tmp_path: Path, message: str, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    if suffix == ".npz":
        np.savez(path, **BAD_ARCHIVES[message])
    else:
        with h5py.File(path, "w", track_order=True) as file:
            for name, values in BAD_ARCHIVES[message].items():
                kind = h5py.vlen_dtype(np.float64) if values.dtype == object else values.dtype
                file.create_dataset(name, data=values, dtype=kind)
    with pytest.raises(InputError) as error:
        read_spectra(path)
    assert message in str(error.value)
    assert f"x{suffix}: " in str(error.value)
    assert "\n" not in str(error.value)


def test_an_axis_of_another_length_is_refused_when_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=X, shift=AXIS[1:])
    with pytest.raises(InputError, match=r"axis 'shift' has shape \(8,\) of type float64, expected 9 numbers"):
        read_spectra(tmp_path / "x.npz", axis="shift")


def test_a_target_named_twice_is_refused(saved: Path) -> None:
    with pytest.raises(InputError, match="target 'assay' is named twice"):
        read_spectra(saved, ["assay", "assay:mg"])


def test_npy_targets_stand_in_a_csv_of_as_many_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, X)
    with pytest.raises(InputError, match=r"x.npy: an .npy file holds no targets; expected them in x.csv beside it"):
        read_spectra(path, "assay")
    frame()[:5].to_csv(tmp_path / "x.csv")
    with pytest.raises(InputError, match=r"x.npy: x.csv: found 5 rows for spectra of shape \(12, 9\)"):
        read_spectra(path, "assay")
    np.save(path, as_objects([1, 2], [3]), allow_pickle=True)
    with pytest.raises(InputError, match="holds Python objects, expected numbers; are the spectra of unequal length"):
        read_spectra(path)


def test_missing_files_and_unknown_types_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none.csv: no such file"):
        read_spectra(tmp_path / "none.csv")
    with pytest.raises(InputError, match="found a folder, expected a file"):
        read_spectra(tmp_path)
    (tmp_path / "x.xlsx").write_text("1")
    with pytest.raises(InputError, match=r"unknown choice '.xlsx'; expected one of: .csv, .parquet, .npy, .npz, .h5"):
        read_spectra(tmp_path / "x.xlsx")
    (tmp_path / "latin.csv").write_bytes("1,2,größe\n1,2,3\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin.csv: cannot be read as .csv \('utf-8' codec"):
        read_spectra(tmp_path / "latin.csv")


@pytest.mark.parametrize(
    ("package", "suffix"), [("pandas", ".csv"), ("pyarrow", ".parquet"), ("h5py", ".h5"), ("pandas", ".npy")]
)
def test_a_missing_package_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, suffix: str
) -> None:
    path = tmp_path / f"x{suffix}"
    SAVE[suffix](path)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        InputError, match=rf"this needs {package}, which is not installed: pip install 'vitreous\[files"
    ):
        read_spectra(path)


def real(name: str, *targets: str) -> Source:
    path = data_folder() / "spectra" / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"{path} is absent; set VITREOUS_DATA")
    return read_spectra(path, targets)


def test_real_tablets() -> None:
    source = real("tablets", "assay:mg")
    assert source.axes == (Axis("wavelength", "nm", 600, 2),)
    assert source.targets == (Target("assay", "mg"),)
    values = split(source)
    assert (len(values.train), len(values.validation), len(values.test)) == (360, 40, 212)


def test_real_mayonnaise() -> None:
    source = real("mayonnaise")
    assert source.classes == ("1", "2", "3", "4", "5", "6")
    assert source.y is not None
    assert len(np.unique(source.y[split(source).validation])) == 6
    assert len(split(source).test) == 42
