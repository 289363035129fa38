"""An uploaded file gives the same data as the file on disk."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.spectra import spectra_file
from vitreous.core.errors import InputError
from vitreous.data import Upload, read, read_image_files
from vitreous.powder.example import example
from vitreous.powder.files import read_pattern, write_pattern


def as_upload(path: Path) -> Upload:
    return Upload("file 0", path.suffix, path.read_bytes())


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 255, (6, 5), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


@pytest.mark.parametrize("kind", [".csv", ".npy", ".npz", ".h5", ".parquet"])
def test_spectra(kind: str, tmp_path: Path) -> None:
    path = spectra_file(tmp_path / "spectra.csv")
    x = read(path).x
    if kind == ".npy":
        np.save(tmp_path / "alone.npy", x)
        path = tmp_path / "alone.npy"
    if kind == ".npz":
        np.savez(tmp_path / "spectra.npz", x=x)
        path = tmp_path / "spectra.npz"
    if kind == ".h5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "spectra.h5", "w") as file:
            file["x"] = x
        path = tmp_path / "spectra.h5"
    if kind == ".parquet":
        pandas = pytest.importorskip("pandas")
        pandas.read_csv(path).to_parquet(tmp_path / "spectra.parquet")
        path = tmp_path / "spectra.parquet"
    np.testing.assert_array_equal(read(as_upload(path)).x, read(path).x)


def test_images(picture: Path) -> None:
    np.testing.assert_array_equal(read_image_files([as_upload(picture)]).x, read_image_files([picture]).x)


def test_the_size_of_an_image_is_checked_before_decoding(picture: Path) -> None:
    assert read_image_files([as_upload(picture)], pixels=30).x.shape == (1, 1, 6, 5)
    broken = Upload("file 0", ".png", picture.read_bytes()[:45])  # the header and almost no pixels
    with pytest.raises(InputError, match="file 0: found 30 pixels, expected 29 at most"):
        read_image_files([broken], pixels=29)


def test_a_file_of_another_format_is_not_opened() -> None:
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"
    with pytest.raises(InputError, match="not an image"):
        read_image_files([Upload("file 0", ".png", script)])


@pytest.mark.parametrize("packed", [False, True])
def test_patterns(packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "pattern.xy"
    write_pattern(path, example("triclinic"))
    content = gzip.compress(path.read_bytes()) if packed else path.read_bytes()
    pattern = read_pattern(Upload("pattern.xy.gz" if packed else "file 0", ".gz" if packed else ".xy", content))
    np.testing.assert_array_equal(pattern.intensity, example("triclinic").intensity)
