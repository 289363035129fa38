"""Image folders: every file type gives the stored pixels, and errors have one line."""

import io
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from vitreous.core.errors import InputError
from vitreous.data import Axis, read_image_files, read_images, split

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (4, 6, 5), dtype=np.uint8)
DEEP = RNG.integers(0, 65536, (4, 6, 5), dtype=np.uint16)
COLOUR = RNG.integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)


def save(path: Path, image: NDArray[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, image)
    else:
        Image.fromarray(image).save(path)
    return path


def save_classes(folder: Path, images: NDArray[Any], suffix: str = ".png") -> Path:
    """Two of the class `cat`, two of `dog`."""
    for number, image in enumerate(images):
        save(folder / ("cat", "dog")[number // 2] / f"{number}{suffix}", image)
    return folder


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif", ".npy", ".TIFF"])
def test_grey_images_are_what_was_saved(tmp_path: Path, suffix: str) -> None:
    source = read_images(save_classes(tmp_path / "pets", GREY, suffix))
    assert np.array_equal(source.x, GREY[:, None])
    assert source.x.dtype == np.uint8
    assert source.y is not None
    assert source.y.tolist() == [0, 0, 1, 1]
    assert source.classes == ("cat", "dog")
    assert source.channels == ("grey",)
    assert source.axes == (Axis("y", "px"), Axis("x", "px"))
    assert source.name == "pets"
    assert source.parts == {}


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".tif"])
def test_colour_images_are_what_was_saved(tmp_path: Path, suffix: str) -> None:
    source = read_images(save_classes(tmp_path, COLOUR, suffix))
    assert np.array_equal(source.x, np.moveaxis(COLOUR, -1, 1))
    assert source.channels == ("red", "green", "blue")


@pytest.mark.parametrize("suffix", [".png", ".tif", ".npy"])
def test_sixteen_bits_stay_sixteen(tmp_path: Path, suffix: str) -> None:
    source = read_images(save_classes(tmp_path, DEEP, suffix))
    assert source.x.dtype == np.uint16
    assert np.array_equal(source.x, DEEP[:, None])


@pytest.mark.parametrize("suffix", [".tif", ".npy"])
def test_floating_images_are_float32(tmp_path: Path, suffix: str) -> None:
    images = RNG.normal(size=(4, 6, 5)).astype(np.float32)
    source = read_images(save_classes(tmp_path, images, suffix))
    assert source.x.dtype == np.float32
    assert np.array_equal(source.x, images[:, None])


def test_jpeg_is_nearly_what_was_saved(tmp_path: Path) -> None:
    smooth = np.broadcast_to(np.linspace(0, 255, 16, dtype=np.uint8), (4, 16, 16))
    source = read_images(save_classes(tmp_path, smooth, ".jpg"))
    assert np.abs(source.x[:, 0].astype(int) - smooth).max() < 8


def test_palettes_masks_and_transparency_become_grey_or_colour(tmp_path: Path) -> None:
    picture = Image.fromarray(COLOUR[0])
    modes = {"1": 1, "L": 1, "LA": 1, "P": 3, "RGBA": 3, "CMYK": 3}
    for mode, channels in modes.items():
        path = tmp_path / f"{mode}.{'tif' if mode == 'CMYK' else 'png'}"
        picture.convert(mode).save(path)
        assert read_image_files([path]).input == (channels, 6, 5)
    clear = picture.quantize()
    clear.save(tmp_path / "clear.png", transparency=bytes(range(60)))
    assert read_image_files([tmp_path / "clear.png"]).input == (3, 6, 5)


def test_one_colour_image_makes_all_of_them_colour(tmp_path: Path) -> None:
    paths = [save(tmp_path / "grey.png", GREY[0]), save(tmp_path / "colour.png", COLOUR[1])]
    source = read_image_files(paths)
    assert np.array_equal(source.x[0], np.stack([GREY[0]] * 3))
    assert np.array_equal(source.x[1], np.moveaxis(COLOUR[1], -1, 0))


def test_channels_can_be_set(tmp_path: Path) -> None:
    path = save(tmp_path / "colour.png", COLOUR[0])
    grey = read_image_files([path], channels=1)
    assert grey.channels == ("grey",)
    assert np.abs(grey.x[0, 0].astype(int) - np.asarray(Image.fromarray(COLOUR[0]).convert("L"))).max() <= 1
    deep = read_image_files([save(tmp_path / "deep.png", DEEP[0])], channels=3)
    assert np.array_equal(deep.x[0], np.stack([DEEP[0]] * 3))
    with pytest.raises(InputError, match="channels: unknown choice '2'; expected one of: 1, 3"):
        read_image_files([path], channels=2)


@pytest.mark.parametrize("images", [GREY, DEEP, COLOUR, DEEP.astype(np.float32)])
def test_resizing_keeps_type_and_mean(tmp_path: Path, images: NDArray[Any]) -> None:
    suffix = ".tif" if images.dtype == np.float32 else ".png"
    flat = np.full_like(images, 200)
    source = read_images(save_classes(tmp_path, flat, suffix), size=(8, 12))
    assert source.x.shape[2:] == (8, 12)
    assert source.x.dtype == images.dtype
    assert np.all(source.x == 200)


def test_size_resizes_images_of_different_size(tmp_path: Path) -> None:
    paths = [save(tmp_path / "a.png", GREY[0]), save(tmp_path / "b.png", GREY[0, :4])]
    with pytest.raises(
        InputError, match=r"b.png: found 4×5 pixels where a.png has 6×5; expected one size, or give size="
    ):
        read_image_files(paths)
    assert read_image_files(paths, size=4).x.shape == (2, 1, 4, 4)
    with pytest.raises(InputError, match="size: found 0, expected one or two numbers of pixels"):
        read_image_files(paths, size=0)


def test_folders_of_parts_are_the_parts(tmp_path: Path) -> None:
    for part in ("train", "val", "test"):
        save_classes(tmp_path / part, GREY)
    save_classes(tmp_path / "scratch", GREY)
    source = read_images(tmp_path)
    assert len(source) == 12
    assert source.classes == ("cat", "dog")
    subsets = split(source)
    assert (len(subsets.train), len(subsets.validation), len(subsets.test)) == (4, 4, 4)
    assert source.y is not None
    assert source.y[subsets.test].tolist() == [0, 0, 1, 1]
    assert np.array_equal(source.x[subsets.validation], GREY[:, None])


def test_train_can_be_a_class(tmp_path: Path) -> None:
    save(tmp_path / "train" / "1.png", GREY[0])
    save(tmp_path / "bus" / "1.png", GREY[1])
    assert read_images(tmp_path).classes == ("bus", "train")


def test_files_of_file_browsers_are_ignored(tmp_path: Path) -> None:
    save_classes(tmp_path, GREY)
    for litter in (".DS_Store", "Thumbs.db", "._0.png"):
        (tmp_path / "cat" / litter).write_text("x")
    (tmp_path / ".cache").mkdir()
    assert len(read_images(tmp_path)) == 4


def test_the_exif_orientation_is_applied(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held sideways
    Image.fromarray(GREY[0]).save(tmp_path / "a.jpg", exif=exif)
    assert read_image_files([tmp_path / "a.jpg"]).input == (1, 5, 6)


def frames() -> bytes:
    file = io.BytesIO()
    Image.fromarray(GREY[0]).save(file, "TIFF", save_all=True, append_images=[Image.fromarray(GREY[1])])
    return file.getvalue()


def cut() -> bytes:
    file = io.BytesIO()
    Image.fromarray(GREY[0]).save(file, "PNG")
    return file.getvalue()[:-30]


BAD_FILES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "x.png: not an image, or damaged": ("x.png", lambda: b"not an image"),
    "y.png: not an image, or damaged": ("y.png", cut),
    "x.npy: not a NumPy array, or damaged": ("x.npy", lambda: b"not an array"),
    "x.jpg: empty file": ("x.jpg", lambda: b""),
    "x.txt: found a file among the images that is not an image": ("x.txt", lambda: b"notes"),
    "x.tif: found 2 frames, expected one": ("x.tif", frames),
}


@pytest.mark.parametrize("message", BAD_FILES)
def test_a_file_that_is_no_image_is_reported_in_one_line(tmp_path: Path, message: str) -> None:
    name, content = BAD_FILES[message]
    save_classes(tmp_path, GREY)
    (tmp_path / "dog" / name).write_bytes(content())
    with pytest.raises(InputError) as error:
        read_images(tmp_path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 6, 5)), r"found shape \(2, 6, 5\) of float64, expected a 2-D array of numbers"),
        (np.zeros((6, 5), dtype="U1"), "of <U1, expected a 2-D array"),
        (np.full((6, 5), np.nan), "found a missing or infinite value"),
        (np.zeros((6, 5)), "found float32 where a.png is uint8; expected one type"),
    ],
)
def test_an_array_that_is_no_image_is_reported_in_one_line(tmp_path: Path, array: NDArray[Any], message: str) -> None:
    paths = [save(tmp_path / "a.png", GREY[0]), save(tmp_path / "b.npy", array)]
    with pytest.raises(InputError, match=rf"b.npy: {message}" if message.startswith("found") else message):
        read_image_files(paths)


@pytest.mark.parametrize("limit", [20, 5])  # PIL warns beyond the limit and stops beyond twice the limit
def test_a_decompression_bomb_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    path = save(tmp_path / "bomb.png", GREY[0])
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        with pytest.raises(InputError, match=f"bomb.png: more than {limit} pixels, PIL's limit"):
            read_image_files([path])


def test_folders_without_classes_of_images_are_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none: no such folder"):
        read_images(tmp_path / "none")
    with pytest.raises(InputError, match=r"found no images; expected .*/CLASS/\*.png"):
        read_images(tmp_path)
    path = save(tmp_path / "1.png", GREY[0])
    with pytest.raises(InputError, match="found images but no class folders"):
        read_images(tmp_path)
    with pytest.raises(InputError, match=r"1.png: found a file, expected a folder"):
        read_images(path)
    save(tmp_path / "cat" / "1.png", GREY[0])
    with pytest.raises(InputError, match="found one class only, 'cat'; expected a folder for each of two or more"):
        read_images(tmp_path)
    (tmp_path / "dog").mkdir()
    with pytest.raises(InputError, match="class 'dog' holds no images"):
        read_images(tmp_path)


def test_files_to_predict_from_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="images: found no files"):
        read_image_files([])
    with pytest.raises(InputError, match=r"a.png: no such file"):
        read_image_files([tmp_path / "a.png"])
    (tmp_path / "a.gif").write_text("GIF89a")
    with pytest.raises(InputError, match=r"unknown image type '.gif'; expected one of: .png, .jpg"):
        read_image_files([tmp_path / "a.gif"])


def test_without_pillow_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.png", GREY[0])
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(InputError, match="this needs pillow, which is not installed"):
        read_image_files([path])


def test_damaged_metadata_do_not_matter(tmp_path: Path) -> None:
    exif = b"Exif\0\0II*\0\x08\0\0\0\x05\0" + b"abc"  # five entries are announced
    Image.new("L", (6, 4), 200).save(tmp_path / "a.jpg", exif=exif)
    assert read_image_files([tmp_path / "a.jpg"]).x.shape == (1, 1, 4, 6)
