"""Data: sources with axes and units, readers, data sets, splits, scaling and augmentation."""

from collections.abc import Callable, Sequence
from os import PathLike, fspath
from pathlib import Path

from vitreous.core.errors import InputError
from vitreous.data.builtin import WHITE, data_folder, digits, mnist
from vitreous.data.images import read_image_files, read_images
from vitreous.data.source import PARTS, Axis, Source, Split, Target, split
from vitreous.data.spectra import read_columns, read_spectra
from vitreous.data.uploads import Upload

__all__ = [
    "BUILTIN",
    "PARTS",
    "WHITE",
    "Axis",
    "Source",
    "Split",
    "Target",
    "Upload",
    "data_folder",
    "digits",
    "mnist",
    "read",
    "read_columns",
    "read_image_files",
    "read_images",
    "read_spectra",
    "split",
]

BUILTIN: dict[str, Callable[[], Source]] = {"digits": digits, "mnist": mnist}


def read(source: str | PathLike[str] | Upload, targets: str | Sequence[str] = ()) -> Source:
    """Read a data set, a folder of images or a file of spectra.

    Args:
        source: `digits` or `mnist` (write `./digits` for a folder of that name), a folder of images, or a file of
            spectra.
        targets: columns to predict from spectra; see `read_spectra`.
    """
    if isinstance(source, Upload):
        return read_spectra(source, targets)
    text = fspath(source)
    path = Path(text)
    if text not in BUILTIN and not path.is_dir():
        if not path.exists():
            raise InputError(f"{text}: no such file or folder; expected one, or a data set: {', '.join(BUILTIN)}")
        return read_spectra(path, targets)
    if targets:
        raise InputError(f"{text}: the class of an image is its folder; targets are for spectra")
    return BUILTIN[text]() if text in BUILTIN else read_images(path)
