"""Data: sources with axes and units, readers, data sets, splits, scaling and augmentation."""

from collections.abc import Callable, Sequence
from os import PathLike, fspath
from pathlib import Path

from vitreous.core.errors import InputError
from vitreous.data.builtin import WHITE as WHITE
from vitreous.data.builtin import data_folder as data_folder
from vitreous.data.builtin import digits as digits
from vitreous.data.builtin import mnist as mnist
from vitreous.data.images import read_image_files as read_image_files
from vitreous.data.images import read_images as read_images
from vitreous.data.source import PARTS as PARTS
from vitreous.data.source import Axis as Axis
from vitreous.data.source import Source as Source
from vitreous.data.source import Split as Split
from vitreous.data.source import Target as Target
from vitreous.data.source import split as split
from vitreous.data.spectra import read_columns as read_columns
from vitreous.data.spectra import read_spectra as read_spectra
from vitreous.data.uploads import Upload as Upload

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
