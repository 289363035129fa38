"""Images from class folders, or from a list of files: 8 or 16 bits or floating, grey or colour, of one size."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.data.extras import load_extra
from vitreous.data.held import File, Held, file_of, size_of
from vitreous.data.source import Axis, Source
from vitreous.errors import InputError, check_choice

_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".npy")
_FORMATS = ("PNG", "JPEG", "TIFF", "BMP")  # PIL knows others, some of which run programs
_PARTS = {"train": "train", "val": "validation", "validation": "validation", "test": "test"}  # folder: part
_LITTER = ("thumbs.db", "desktop.ini")  # what file browsers leave behind, besides names that begin with a dot
_CHANNELS = {1: ("grey",), 3: ("red", "green", "blue")}
_AXES = (Axis("y", "px"), Axis("x", "px"))
_LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R 601, as PIL's own conversion to grey

Size = int | tuple[int, int]


def read_images(folder: str | PathLike[str], size: Size | None = None, channels: int | None = None) -> Source:
    """Read `folder/CLASS/*.png`, or `folder/train/CLASS/…` with `val` or `validation` and `test`, which give the parts.

    Args:
        folder: PNG, JPEG, TIFF and BMP images or 2-D `.npy` arrays. Of colours of 16 bits PIL keeps the upper 8.
        size: rows and columns, or one number for both, to resize to; without it all images must have one size.
        channels: 1 or 3; without it 3 if any image has colour.

    Returns:
        Images `(n, channels, rows, columns)` as uint8, uint16 or float32, whichever the files hold.
    """
    folder = Path(folder)
    try:
        groups = _groups(folder)
    except OSError as fault:
        raise InputError(f"{folder}: cannot be read ({fault.strerror})") from None
    names = sorted({name for _, name, _ in groups})
    for name in names:
        if not any(files for _, found, files in groups if found == name):
            raise InputError(f"{folder}: class {name!r} holds no images, expected some of {', '.join(_SUFFIXES)}")
    if len(names) < 2:
        raise InputError(f"{folder}: found one class only, {names[0]!r}; expected a folder for each of two or more")
    x = _load([file for _, _, files in groups for file in files], size, channels)
    y = np.repeat([names.index(name) for _, name, _ in groups], [len(files) for _, _, files in groups])
    part = np.repeat([part for part, _, _ in groups], [len(files) for _, _, files in groups])
    parts = {str(given): np.flatnonzero(part == given) for given in np.unique(part) if given}
    return Source(folder.name or str(folder), x, y, _AXES, _CHANNELS[x.shape[1]], tuple(names), parts=parts)


def read_image_files(
    paths: Iterable[str | PathLike[str] | Held],
    channels: int | None = None,
    size: Size | None = None,
    pixels: int | None = None,
) -> Source:
    """Images to predict from, read as `read_images` reads them; none is decoded that has more than so many pixels."""
    files = [file_of(path) for path in paths]
    if not files:
        raise InputError("images: found no files")
    x = _load(files, size, channels, pixels)
    name = files[0].name if len(files) == 1 else f"{len(files)} images"
    return Source(name, x, None, _AXES, _CHANNELS[x.shape[1]])


def _groups(folder: Path) -> list[tuple[str, str, list[Path]]]:
    """Part (empty if none is given), class and files of every class folder."""
    if not folder.is_dir():
        raise InputError(
            f"{folder}: found a file, expected a folder" if folder.exists() else f"{folder}: no such folder"
        )
    inside = _folders(folder)
    # `train` may be a class, of vehicles perhaps: as a part it holds folders
    if "train" in inside and _folders(inside["train"]):
        found = [(_PARTS[name], inside[name]) for name in inside if name in _PARTS]
    else:
        found = [("", folder)]
    groups = [(part, name, _files(path)) for part, home in found for name, path in _folders(home).items()]
    if not any(files for _, _, files in groups):
        what = "images but no class folders" if _files(folder, strict=False) else "no images"
        raise InputError(
            f"{folder}: found {what}; expected {folder.name}/CLASS/*.png or {folder.name}/train/CLASS/*.png"
        )
    return groups


def _folders(folder: Path) -> Mapping[str, Path]:
    return {path.name: path for path in sorted(folder.iterdir()) if path.is_dir() and not path.name.startswith(".")}


def _files(folder: Path, strict: bool = True) -> list[Path]:
    """The images of a folder in the order of their names; with `strict`, anything else is an error."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in _SUFFIXES and path.is_file() and not path.name.startswith("."):
            found.append(path)
        elif strict and not path.name.startswith(".") and path.name.lower() not in _LITTER:
            raise InputError(f"{path}: found {'a folder' if path.is_dir() else 'a file'} that is no image among images")
    return found


def _load(files: Sequence[File], size: Size | None, channels: int | None, pixels: int | None = None) -> NDArray[Any]:
    """Images `(n, channels, rows, columns)`, all of the type of the first."""
    if channels is not None:
        check_choice("channels", str(channels), [str(count) for count in _CHANNELS])
    shape = (size, size) if isinstance(size, int) else size
    if shape is not None and (len(shape) != 2 or min(shape) < 1):
        raise InputError(f"size: found {size}, expected one or two numbers of pixels")
    images: list[NDArray[Any]] = []
    for path in files:
        image = _read(path, pixels)
        image = image if shape is None else _resized(image, shape)
        first = images[0] if images else image
        if image.shape[:2] != first.shape[:2]:
            raise InputError(
                f"{path}: found {_by(image)} pixels where {files[0].name} has {_by(first)}; "
                f"expected one size, or give size= to resize"
            )
        if image.dtype != first.dtype:
            raise InputError(f"{path}: found {image.dtype} where {files[0].name} is {first.dtype}; expected one type")
        images.append(image)
    if channels is None:
        channels = 3 if any(image.ndim == 3 for image in images) else 1
    x = np.empty((len(images), channels, *images[0].shape[:2]), dtype=images[0].dtype)
    for row in reversed(range(len(x))):
        x[row] = _in_channels(images.pop(), channels)  # freed as we go: the images are never held twice
    return x


def _read(path: File, pixels: int | None) -> NDArray[Any]:
    """One image `(rows, columns)` or `(rows, columns, 3)` of uint8, uint16 or float32."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(f"{path}: unknown type of image {path.suffix!r}; expected one of: {', '.join(_SUFFIXES)}")
    if size_of(path) == 0:
        raise InputError(f"{path}: empty file")
    image = _read_array(path) if path.suffix.lower() == ".npy" else _read_picture(path, pixels)
    _check_size(path, image.shape[0] * image.shape[1], pixels)
    if image.dtype.kind == "f" and not np.isfinite(image).all():
        raise InputError(f"{path}: found a missing or infinite value, expected finite numbers")
    return image


def _check_size(path: File, found: int, most: int | None) -> None:
    if most is not None and found > most:
        raise InputError(f"{path}: found {found:,} pixels, expected {most:,} at most")


def _read_array(path: File) -> NDArray[Any]:
    try:
        with path.open("rb") as file:
            array = np.load(file, allow_pickle=False)
    except Exception:  # on damaged bytes NumPy raises whatever it stumbles over
        raise InputError(f"{path}: not a NumPy array, or damaged") from None
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "fiub" or 0 in array.shape:
        found = f"shape {array.shape} of {array.dtype}" if isinstance(array, np.ndarray) else "an archive"
        raise InputError(f"{path}: found {found}, expected a 2-D array of numbers")
    return array if array.dtype in (np.uint8, np.uint16) else array.astype(np.float32)


def _read_picture(path: File, pixels: int | None) -> NDArray[Any]:
    Image, ImageOps = load_extra("PIL.Image"), load_extra("PIL.ImageOps")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with path.open("rb") as file, Image.open(file, formats=_FORMATS) as picture:
                _check_size(path, picture.width * picture.height, pixels)  # nothing is decoded yet
                if picture.format == "TIFF" and getattr(picture, "n_frames", 1) > 1:
                    raise InputError(f"{path}: found {picture.n_frames} frames, expected one")
                ImageOps.exif_transpose(picture, in_place=True)
                return _pixels(picture)
    except InputError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        limit = Image.MAX_IMAGE_PIXELS
        raise InputError(f"{path}: more than {limit:,} pixels, PIL's limit for an image that can be trusted") from None
    except Exception:  # on damaged bytes PIL raises whatever it stumbles over
        raise InputError(f"{path}: not an image, or damaged") from None


def _pixels(picture: Any) -> NDArray[Any]:
    """Transparency is dropped, palettes and other colour spaces become RGB."""
    mode = picture.mode
    if mode.startswith("I;16"):
        return np.asarray(picture).astype(np.uint16)
    if mode in ("I", "F"):  # older PIL opens a PNG of 16 bits as 32-bit integers
        return np.asarray(picture).astype(np.uint16 if mode == "I" and picture.format == "PNG" else np.float32)
    if mode in ("1", "L", "LA", "La"):
        return np.asarray(picture.convert("L"))
    if mode == "P":
        picture = picture.convert("RGBA" if "transparency" in picture.info else "RGB")
    return np.asarray(picture.convert("RGB"))


def _resized(image: NDArray[Any], shape: tuple[int, int]) -> NDArray[Any]:
    """Bilinear and antialiased, by PIL; types other than 8 bits by way of float32."""
    if image.shape[:2] == shape:
        return image
    Image = load_extra("PIL.Image")
    plain = image if image.dtype == np.uint8 else image.astype(np.float32)
    rows, columns = shape
    out = np.asarray(Image.fromarray(plain).resize((columns, rows), Image.Resampling.BILINEAR))
    return out if out.dtype == image.dtype else np.round(out).astype(image.dtype)


def _in_channels(image: NDArray[Any], channels: int) -> NDArray[Any]:
    """(rows, columns[, 3]) -> (channels, rows, columns)"""
    if image.ndim == 2:
        return np.broadcast_to(image, (channels, *image.shape))
    if channels == 1:
        return np.round(image @ _LUMA).astype(image.dtype)[None]
    return np.moveaxis(image, -1, 0)


def _by(image: NDArray[Any]) -> str:
    return f"{image.shape[0]}×{image.shape[1]}"
