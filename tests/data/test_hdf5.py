"""HDF5 files: values come from the file itself or the file is refused; large datasets stay on disk."""

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from vitreous.core.errors import InputError
from vitreous.data import Axis, Source, Upload, read_spectra, split
from vitreous.data.scale import fit_scaling

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 9)).astype(np.float32)
WRONG = X + 100  # lies in the outer file, at the place that the values have in the other file


def virtual(file: h5py.File, source: str, name: str) -> None:
    layout = h5py.VirtualLayout(X.shape, X.dtype)
    layout[...] = h5py.VirtualSource(source, name, X.shape)
    file.create_virtual_dataset("x", layout)


def external_link(file: h5py.File, other: Path) -> None:
    file["x"] = h5py.ExternalLink(other.name, "x")


def soft_link_through_an_external_group(file: h5py.File, other: Path) -> None:
    file["group"] = h5py.ExternalLink(other.name, "/")
    file["near"] = h5py.SoftLink("/group/x")
    file["x"] = h5py.SoftLink("near")


def external_storage(file: h5py.File, other: Path) -> None:
    file.create_dataset("x", X.shape, X.dtype, external=[(str(other), 2048, X.nbytes)])


def virtual_map(file: h5py.File, other: Path) -> None:
    virtual(file, other.name, "x")


def virtual_map_of_an_external_link(file: h5py.File, other: Path) -> None:
    file["near"] = h5py.ExternalLink(other.name, "x")
    virtual(file, ".", "near")


LEAVES: list[Callable[[h5py.File, Path], None]] = [
    external_link,
    soft_link_through_an_external_group,
    external_storage,
    virtual_map,
    virtual_map_of_an_external_link,
]


@pytest.mark.parametrize("leave", LEAVES, ids=lambda leave: leave.__name__)
@pytest.mark.parametrize("as_upload", [False, True])
def test_values_in_another_file_are_refused(
    tmp_path: Path, leave: Callable[[h5py.File, Path], None], as_upload: bool
) -> None:
    path, other = tmp_path / "x.h5", tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["x"] = X
    with h5py.File(path, "w") as file:
        file["a"] = WRONG
        leave(file, other)
    with pytest.raises(InputError) as error:
        read_spectra(Upload("x.h5", ".h5", path.read_bytes()) if as_upload else path)
    assert "dataset 'x'" in str(error.value)
    assert "other.h5; expected its values in this file" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_link_that_is_not_read_does_no_harm(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"], file["detector"] = X, h5py.ExternalLink("absent.h5", "/")
    np.testing.assert_array_equal(read_spectra(tmp_path / "x.h5").x[:, 0], X)


@pytest.mark.parametrize("kind", ["soft link", "virtual"])
def test_links_inside_the_file_are_followed(tmp_path: Path, kind: str) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["entry/counts"] = X
        if kind == "virtual":
            virtual(file, ".", "entry/counts")
        else:
            file["x"] = h5py.SoftLink("entry/counts")
    np.testing.assert_array_equal(read_spectra(tmp_path / "x.h5").x[:, 0], X)


def test_a_map_of_a_missing_dataset_is_refused(tmp_path: Path) -> None:
    """HDF5 would fill it with zeros."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        virtual(file, ".", "absent")
    with pytest.raises(InputError, match="dataset 'x' maps 'absent', which is missing"):
        read_spectra(tmp_path / "x.h5")


@pytest.mark.parametrize("kind", ["soft link", "virtual"])
def test_a_loop_of_links_is_refused(tmp_path: Path, kind: str) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        if kind == "virtual":
            virtual(file, ".", "x")
        else:
            file["x"] = h5py.SoftLink("/x")
    with pytest.raises(InputError, match="dataset 'x' is behind more than 16 links"):
        read_spectra(tmp_path / "x.h5")


def test_maps_that_branch_at_every_step_are_followed_once(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["step 10"] = X
        for step in range(10):
            layout = h5py.VirtualLayout(X.shape, X.dtype)
            for row in range(len(X)):
                layout[row] = h5py.VirtualSource(".", f"step {step + 1}", X.shape)[row]
            file.create_virtual_dataset(f"step {step}", layout)
        file["x"] = X
    np.testing.assert_array_equal(read_spectra(tmp_path / "x.h5").x[:, 0], X)  # 30¹⁰ ways to the values of step 0


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    """Spectra in one piece that are larger than the limit on memory, with their targets."""
    monkeypatch.setenv("VITREOUS_MAX_MEMORY", "1e-6")  # 1000 bytes
    with h5py.File(tmp_path / "x.h5", "w", userblock_size=512) as file:
        file["x"], file["y"] = X, np.arange(30.0)
    return read_spectra(tmp_path / "x.h5")


def test_spectra_larger_than_memory_stay_in_the_file(large: Source) -> None:
    assert not isinstance(large.x, np.ndarray)
    assert (len(large), large.input, large.axes) == (30, (1, 9), (Axis(),))
    with pytest.raises(InputError, match=r"dataset 'x': takes 1.08e-06 GB of memory, expected 1e-06 GB at most"):
        np.asarray(large.x)


@pytest.mark.parametrize(
    "index",
    [
        3,
        -1,
        slice(4, 9),
        slice(None, None, -2),
        [5, 5, 2],
        [],
        np.arange(30) % 3 == 0,
        (slice(0, 3), 0),
        [[1, 2], [7, 0]],
    ],
    ids=str,
)
def test_rows_in_the_file_are_indexed_like_an_array(large: Source, index: Any) -> None:
    np.testing.assert_array_equal(large.x[index], X[:, None][index])


def test_rows_beyond_the_end_are_an_error(large: Source) -> None:
    with pytest.raises(IndexError):
        large.x[30]


def test_scaling_is_fitted_to_rows_in_the_file(large: Source) -> None:
    rows = split(large).train
    assert fit_scaling("point", large.x, rows) == fit_scaling("point", X[:, None], rows)


def _sum_of_rows(source: Source, results: Any) -> None:
    results.put(float(source.x[[2, 7]].sum()))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of a process with threads, since Python 3.12
def test_a_forked_process_reads_rows_of_its_own(large: Source) -> None:
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    process = context.Process(target=_sum_of_rows, args=(large, results))
    process.start()
    np.testing.assert_array_equal(large.x[:3, 0], X[:3])
    process.join()
    assert results.get() == float(X[[2, 7]].sum())
