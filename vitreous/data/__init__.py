"""Samples from files, by name or from memory: what they are, what they mean, and how they are split."""

from collections.abc import Callable, Sequence
from os import PathLike, fspath
from pathlib import Path

from vitreous.data.builtin import WHITE, data_folder, digits, mnist
from vitreous.data.held import Held
from vitreous.data.images import read_image_files, read_images
from vitreous.data.source import PARTS, Axis, Source, Split, Target, split
from vitreous.data.spectra import read_columns, read_spectra
from vitreous.errors import InputError

__all__ = [
    "BUILTIN",
    "PARTS",
    "WHITE",
    "Axis",
    "Held",
    "Source",
    "Split",
    "Target",
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


def read(source: str | PathLike[str] | Held, targets: str | Sequence[str] = ()) -> Source:
    """Read data by what they are.

    Args:
        source: `digits` or `mnist` (a folder of that name is `./digits`), a folder of images, or a file of spectra.
        targets: for spectra, the columns to predict; see `read_spectra`.
    """
    if isinstance(source, Held):
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
