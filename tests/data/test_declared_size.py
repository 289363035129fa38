"""Files that unpack to more than memory, or hold less than they state, are refused before their values are read."""

import gzip
import io
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from vitreous.core.errors import InputError
from vitreous.data import Upload, mnist, read_columns, read_image_files, read_spectra

LIMIT = 20_000_000  # bytes
ROWS, POINTS = 400_000, 25  # 40 MB of float32


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITREOUS_MAX_MEMORY", str(LIMIT / 1e9))


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    """Fail if Python and NumPy use more bytes than the limit at any time."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


def npz_of_zeros(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as member:
        header = {"descr": "<f4", "fortran_order": False, "shape": (ROWS, POINTS)}
        np.lib.format.write_array_header_1_0(member, header)
        for _ in range(4):
            member.write(bytes(ROWS * POINTS))


def parquet_of_zeros(path: Path) -> None:
    pq.write_table(pa.table({str(point): np.zeros(ROWS, np.float32) for point in range(POINTS)}), path)


def hdf5_of_zeros(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (ROWS, POINTS), np.float32, chunks=(ROWS // 100, POINTS), compression="gzip")


def hdf5_without_values(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (ROWS, POINTS), np.float32)


def hdf5_of_one_large_chunk(path: Path) -> None:
    with h5py.File(path, "w") as file:
        chunk = (ROWS, POINTS)
        file.create_dataset("x", (4, 9), np.float32, chunks=chunk, maxshape=(None, None), compression="gzip")


def csv_of_gaps(path: Path) -> None:
    row = "," * (POINTS - 1) + "\n"
    path.write_text(",".join(map(str, range(POINTS))) + "\n" + row * 40_000)


BOMBS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "npz": ("x.npz", npz_of_zeros),
    "parquet": ("x.parquet", parquet_of_zeros),
    "hdf5": ("x.h5", hdf5_of_zeros),
    "hdf5 without values": ("x.h5", hdf5_without_values),
    "hdf5 of one chunk": ("x.h5", hdf5_of_one_large_chunk),
    "csv": ("x.csv", csv_of_gaps),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_small_file_of_many_values_is_refused_before_it_is_read(tmp_path: Path, kind: str) -> None:
    name, write = BOMBS[kind]
    write(tmp_path / name)
    assert (tmp_path / name).stat().st_size < 2_000_000
    with memory_below(LIMIT), pytest.raises(InputError) as error:
        read_spectra(tmp_path / name)
    assert str(error.value).startswith(f"{tmp_path / name}: ")
    assert "GB of memory, expected 0.02 GB at most; the environment variable VITREOUS_MAX_MEMORY" in str(error.value)
    assert "\n" not in str(error.value)


def test_parts_that_fit_one_by_one_must_fit_together(tmp_path: Path) -> None:
    half = np.zeros((ROWS // 3, POINTS), np.float32)
    np.savez_compressed(tmp_path / "x.npz", train_x=half, test_x=half)
    with pytest.raises(InputError, match=r"spectra of all parts together: takes 0.0267 GB of memory"):
        read_spectra(tmp_path / "x.npz")


def test_an_npy_file_is_not_loaded_and_has_no_limit(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((ROWS, POINTS), np.float32))
    assert read_spectra(tmp_path / "x.npy").input == (1, POINTS)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_one_long_label_does_not_multiply_by_the_rows(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x{suffix}"
    labels = ["long" * 10_000] + ["b"] * 999
    table = pa.table({"1": np.arange(1000.0), "2": np.arange(1000.0), "kind": labels})
    if suffix == ".csv":
        table.to_pandas().to_csv(path, index=False)
    else:
        pq.write_table(table, path)
    with pytest.raises(InputError, match=r"target 'kind': takes 0.16 GB of memory"):
        read_spectra(path, "kind")
    with pytest.raises(InputError, match=r"target 'kind': takes 0.16 GB of memory"):
        read_columns(path, ["kind"])


def test_the_pixels_of_an_image_are_compared_with_the_limit(tmp_path: Path) -> None:
    Image.new("L", (4000, 2000)).save(tmp_path / "x.png")
    with pytest.raises(InputError, match=r"x.png: takes 0.064 GB of memory, expected 0.02 GB at most"):
        read_image_files([tmp_path / "x.png"])


def test_images_that_fit_one_by_one_must_fit_together(tmp_path: Path) -> None:
    Image.new("L", (1000, 1000)).save(tmp_path / "x.png")
    assert len(read_image_files([tmp_path / "x.png"] * 3)) == 3
    with pytest.raises(InputError, match=r"x.png: 30 images of this size: takes 0.03 GB of memory"):
        read_image_files([tmp_path / "x.png"] * 30)


def test_mnist_is_not_unpacked_beyond_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITREOUS_DATA", str(tmp_path))
    (tmp_path / "mnist").mkdir()
    block = gzip.compress(bytes(10_000_000))
    (tmp_path / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(block * 20)
    message = "train-images-idx3-ubyte.gz: the decompressed file has SHA-256"
    with memory_below(150_000_000), pytest.raises(InputError, match=message):
        mnist()


def npy(shape: tuple[int, ...], values: int) -> bytes:
    """An NPY file whose header states a shape of float32, followed by some values."""
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return content.getvalue() + bytes(4 * values)


def npz(content: bytes) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as members:
        members.writestr("x.npy", content)
    return archive.getvalue()


@pytest.mark.parametrize("values", [49, 51, 0])
@pytest.mark.parametrize("as_upload", [False, True])
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_an_array_that_does_not_fill_its_shape_is_refused(
    tmp_path: Path, suffix: str, as_upload: bool, values: int
) -> None:
    content = npy((10, 5), values) if suffix == ".npy" else npz(npy((10, 5), values))
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content)
    message = rf"states shape \(10, 5\) of float32, 200 bytes, but holds {4 * values} bytes"
    with pytest.raises(InputError, match=rf"x{suffix}: .*{message}" if suffix == ".npz" else message):
        read_spectra(Upload(path.name, suffix, content) if as_upload else path)


@pytest.mark.parametrize("shape", [(10**9, 10**9), (10**200, 10**200), (-2, -2)])
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_an_uploaded_array_of_a_false_shape_takes_no_memory(shape: tuple[int, ...], suffix: str) -> None:
    content = npy(shape, 8) if suffix == ".npy" else npz(npy(shape, 8))
    with pytest.raises(InputError, match="states shape"):
        read_spectra(Upload("file 0", suffix, content))


@pytest.mark.parametrize("values", [29, 31])
def test_an_image_that_does_not_fill_its_shape_is_refused(tmp_path: Path, values: int) -> None:
    (tmp_path / "x.npy").write_bytes(npy((6, 5), values))
    with pytest.raises(InputError, match=r"x.npy: not a NumPy array, or damaged \(states shape \(6, 5\) of float32"):
        read_image_files([tmp_path / "x.npy"])
