"""Read images from class folders or from a list of files: 8 or 16 bits or float, grey or colour, of equal size."""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError, check_choice, first_line
from vitreous.core.extras import load_extra
from vitreous.core.memory import check_memory
from vitreous.data.arrays import check_npy
from vitreous.data.source import Axis, Source
from vitreous.data.uploads import InputFile, InputPath, as_input_file, file_size

_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".npy")
_FORMATS = ("PNG", "JPEG", "TIFF", "BMP")  # other formats of PIL can start external programs
_PARTS = {"train": "train", "val": "validation", "validation": "validation", "test": "test"}  # folder: part
_IGNORED = ("thumbs.db", "desktop.ini")  # written by file browsers; names that start with a dot are ignored too
_CHANNELS = {1: ("grey",), 3: ("red", "green", "blue")}
_AXES = (Axis("y", "px"), Axis("x", "px"))
_DECODED_BYTES = 8  # of a pixel while an image is read: 4 in PIL, and up to 4 in our array
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R 601, as in PIL

Size = int | tuple[int, int]


def read_images(folder: str | PathLike[str], size: Size | None = None, channels: int | None = None) -> Source:
    """Read `folder/CLASS/*.png`, or `folder/train/CLASS/…` with `val` or `validation` and `test` as predefined parts.

    Args:
        folder: holds PNG, JPEG, TIFF and BMP images or 2-D `.npy` arrays. Values stay uint8, uint16 or float32 as in
            the files, but PIL reduces 16-bit colours to 8 bits.
        size: resize to these rows and columns, or to a square; by default all images must have the same size.
        channels: 1 or 3; by default 3 if any image is in colour.
    """
    folder = Path(folder)
    try:
        groups = _class_folders(folder)
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror})") from None
    part, label, images = zip(*((part, name, file) for part, name, files in groups for file in files), strict=True)
    names = sorted({name for _, name, _ in groups})
    for name in names:
        if name not in label:
            raise InputError(f"{folder}: class {name!r} holds no images, expected some of {', '.join(_SUFFIXES)}")
    if len(names) < 2:
        raise InputError(f"{folder}: found one class only, {names[0]!r}; expected a folder for each of two or more")
    x = _load(images, size, channels)
    y = np.array([names.index(name) for name in label])
    parts = {one: np.flatnonzero(np.array(part) == one) for one in sorted(set(part)) if one}
    return Source(folder.name or str(folder), x, y, _AXES, _CHANNELS[x.shape[1]], tuple(names), parts=parts)


def read_image_files(
    paths: Iterable[InputPath], channels: int | None = None, size: Size | None = None, pixels: int | None = None
) -> Source:
    """Read image files without labels, for prediction; images of more than `pixels` are refused before decoding.

    `channels` and `size` are those of `read_images`.
    """
    files = [as_input_file(path) for path in paths]
    if not files:
        raise InputError("images: found no files")
    x = _load(files, size, channels, pixels)
    name = files[0].name if len(files) == 1 else f"{len(files)} images"
    return Source(name, x, None, _AXES, _CHANNELS[x.shape[1]])


def _class_folders(folder: Path) -> list[tuple[str, str, list[Path]]]:
    """Part (empty if undefined), class and files of every class folder."""
    if not folder.is_dir():
        raise InputError(f"{folder}: {'found a file, expected a folder' if folder.exists() else 'no such folder'}")
    children, parents = _subfolders(folder), [("", folder)]
    if "train" in children and _subfolders(children["train"]):  # a part; a class of this name holds no folders
        parents = [(_PARTS[name], path) for name, path in children.items() if name in _PARTS]
    groups = [
        (part, name, _image_files(path)) for part, parent in parents for name, path in _subfolders(parent).items()
    ]
    if not any(files for _, _, files in groups):
        problem = "images but no class folders" if _image_files(folder, strict=False) else "no images"
        name = folder.name
        raise InputError(f"{folder}: found {problem}; expected {name}/CLASS/*.png or {name}/train/CLASS/*.png")
    return groups


def _subfolders(folder: Path) -> Mapping[str, Path]:
    return {path.name: path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")}


def _image_files(folder: Path, strict: bool = True) -> list[Path]:
    """Image files of a folder, sorted by name; with `strict`, any other file is an error."""
    images = []
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in _SUFFIXES and path.is_file() and not path.name.startswith("."):
            images.append(path)
        elif strict and not path.name.startswith(".") and path.name.lower() not in _IGNORED:
            kind = "a folder" if path.is_dir() else "a file"
            raise InputError(f"{path}: found {kind} among the images that is not an image")
    return images


def _load(
    files: Sequence[InputFile], size: Size | None, channels: int | None, pixels: int | None = None
) -> NDArray[Any]:
    """Images `(n, channels, rows, columns)` of one type."""
    if channels is not None:
        check_choice("channels", str(channels), [str(count) for count in _CHANNELS])
    shape = (size, size) if isinstance(size, int) else size
    if shape is not None and (len(shape) != 2 or min(shape) < 1):
        raise InputError(f"size: found {size}, expected one or two numbers of pixels")
    images: list[NDArray[Any]] = []
    for path in files:
        image = _read(path, pixels)
        image = image if shape is None else _resize(image, shape)
        check_memory(len(files) * image.nbytes, f"{path}: {len(files)} images of this size")
        first = images[0] if images else image
        if image.shape[:2] != first.shape[:2]:
            size_here, size_there = ("×".join(map(str, each.shape[:2])) for each in (image, first))
            raise InputError(
                f"{path}: found {size_here} pixels where {files[0].name} has {size_there}; "
                "expected one size, or give size= to resize"
            )
        if image.dtype != first.dtype:
            raise InputError(f"{path}: found {image.dtype} where {files[0].name} is {first.dtype}; expected one type")
        images.append(image)
    if channels is None:
        channels = 3 if any(image.ndim == 3 for image in images) else 1
    shape = len(images), channels, *images[0].shape[:2]
    check_memory(math.prod(shape) * images[0].dtype.itemsize, f"{files[0].name} and the other images")
    x = np.empty(shape, dtype=images[0].dtype)
    for row in reversed(range(len(x))):
        x[row] = _convert_channels(images.pop(), channels)  # frees each image, so that memory holds one copy
    return x


def _read(path: InputFile, pixels: int | None) -> NDArray[Any]:
    """One image `(rows, columns)` or `(rows, columns, 3)` of uint8, uint16 or float32."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(f"{path}: unknown image type {path.suffix!r}; expected one of: {', '.join(_SUFFIXES)}")
    if file_size(path) == 0:
        raise InputError(f"{path}: empty file")
    image = _read_array(path) if path.suffix.lower() == ".npy" else _read_picture(path, pixels)
    _check_pixels(path, image.shape[0] * image.shape[1], pixels)
    if image.dtype.kind == "f" and not np.isfinite(image).all():
        raise InputError(f"{path}: found a missing or infinite value, expected finite numbers")
    return image


def _check_pixels(path: InputFile, count: int, limit: int | None) -> None:
    if limit is not None and count > limit:
        raise InputError(f"{path}: found {count:,} pixels, expected {limit:,} at most")


def _read_array(path: InputFile) -> NDArray[Any]:
    size = file_size(path)
    check_memory(size, str(path))
    try:
        with path.open("rb") as file:
            check_npy(file, size)
            file.seek(0)
            array: NDArray[Any] = np.load(file, allow_pickle=False)
    except Exception as error:  # damaged files make NumPy raise exceptions of any type
        raise InputError(f"{path}: not a NumPy array, or damaged ({first_line(error)})") from None
    if array.ndim != 2 or array.dtype.kind not in "fiub" or 0 in array.shape:
        raise InputError(f"{path}: found shape {array.shape} of {array.dtype}, expected a 2-D array of numbers")
    return array if array.dtype in (np.uint8, np.uint16) else array.astype(np.float32)


def _read_picture(path: InputFile, pixels: int | None) -> NDArray[Any]:
    Image, ImageOps = load_extra("PIL.Image"), load_extra("PIL.ImageOps")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of metadata that are damaged
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with path.open("rb") as file, Image.open(file, formats=_FORMATS) as picture:
                count = picture.width * picture.height
                _check_pixels(path, count, pixels)  # before decoding
                check_memory(_DECODED_BYTES * count, str(path))
                if picture.format == "TIFF" and getattr(picture, "n_frames", 1) > 1:
                    raise InputError(f"{path}: found {picture.n_frames} frames, expected one")
                ImageOps.exif_transpose(picture, in_place=True)
                return _pixels(picture)
    except InputError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        limit = Image.MAX_IMAGE_PIXELS
        raise InputError(f"{path}: more than {limit:,} pixels, PIL's limit for safe images") from None
    except Exception:  # damaged files make PIL raise exceptions of any type
        raise InputError(f"{path}: not an image, or damaged") from None


def _pixels(picture: Any) -> NDArray[Any]:
    """Pixel values; transparency is dropped, palettes and other colour spaces are converted to RGB."""
    mode = picture.mode
    if mode.startswith("I;16"):
        return np.asarray(picture).astype(np.uint16)
    if mode in ("I", "F"):  # older versions of PIL open a 16-bit PNG as 32-bit integers
        return np.asarray(picture).astype(np.uint16 if mode == "I" and picture.format == "PNG" else np.float32)
    if mode in ("1", "L", "LA", "La"):
        return np.asarray(picture.convert("L"))
    if mode == "P":
        picture = picture.convert("RGBA" if "transparency" in picture.info else "RGB")
    return np.asarray(picture.convert("RGB"))


def _resize(image: NDArray[Any], shape: tuple[int, int]) -> NDArray[Any]:
    """Bilinear resampling with antialiasing by PIL; types other than uint8 go through float32."""
    if image.shape[:2] == shape:
        return image
    Image = load_extra("PIL.Image")
    supported = image if image.dtype == np.uint8 else image.astype(np.float32)
    rows, columns = shape
    out = np.asarray(Image.fromarray(supported).resize((columns, rows), Image.Resampling.BILINEAR))
    return out if out.dtype == image.dtype else np.round(out).astype(image.dtype)


def _convert_channels(image: NDArray[Any], channels: int) -> NDArray[Any]:
    """(rows, columns[, 3]) -> (channels, rows, columns)"""
    if image.ndim == 2:
        return np.broadcast_to(image, (channels, *image.shape))
    if channels == 1:
        return np.round(image @ _LUMA).astype(image.dtype)[None]
    return np.moveaxis(image, -1, 0)
