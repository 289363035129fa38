"""HDF5 files, read through h5py. Links, raw storage and virtual datasets that lead to other files are refused."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.core.memory import check_memory
from vitreous.data.uploads import InputFile, Upload

HOLDS_OBJECTS = "holds Python objects, expected numbers; are the spectra of unequal length?"
_LOADED_BYTES = 1 << 30  # of a dataset that is loaded although it could be read by rows
_MAX_LINKS = 16  # soft links in a row, as in the HDF5 library


class DatasetRows:
    """A large dataset as an array `(n, channels, points)` whose rows are read on access.

    Every access opens the file anew, so that processes may share the object.
    """

    def __init__(self, path: Path, name: str, shape: tuple[int, ...], dtype: Any) -> None:
        self.path, self.name, self.dtype, self._stored_shape = path, name, dtype, shape
        self.shape = (shape[0], 1, shape[1]) if len(shape) == 2 else shape
        self.ndim, self.nbytes = len(self.shape), math.prod(shape) * dtype.itemsize
        self._numbers = np.arange(len(self))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> NDArray[Any]:
        rows, *others = index if isinstance(index, tuple) else (index,)
        numbers = self._numbers[rows]
        places, back = np.unique(numbers, return_inverse=True)
        values = np.empty((len(places), *self._stored_shape[1:]), dtype=self.dtype)
        starts = np.flatnonzero(np.diff(places, prepend=-2) > 1)  # of consecutive rows, which are read in one piece
        with load_extra("h5py").File(self.path, "r") as file:
            dataset = file[self.name]
            for start, stop in pairwise([*starts, len(places)]):
                values[start:stop] = dataset[places[start] : places[stop - 1] + 1]
        values = values.reshape(-1, *self.shape[1:])
        if not np.array_equal(places, numbers):
            values = values[back.reshape(numbers.shape)]
        return cast(NDArray[Any], values[(slice(None),) * numbers.ndim + tuple(others)])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        check_memory(self.nbytes, f"dataset {self.name!r}")
        return np.asarray(self[:], dtype=dtype)


@contextmanager
def open_hdf5(path: InputFile) -> Iterator[Any]:
    """Open a file for reading."""
    with load_extra("h5py").File(path.open() if isinstance(path, Upload) else path, "r") as file:
        yield file


def dataset_names(file: Any) -> list[str]:
    """Names in the root group that are datasets, or links out of the file."""
    dataset_type = load_extra("h5py").Dataset
    return [name for name in file if _find_outside(file, name) or isinstance(file.get(name), dataset_type)]


def dataset_unit(file: Any, name: str) -> str:
    """The attribute `units` of a dataset, as in NeXus; empty without one."""
    text = "" if _find_outside(file, name) else file[name].attrs.get("units", "")
    return text.decode() if isinstance(text, bytes) else str(text)


def read_dataset(path: InputFile, file: Any, name: str) -> NDArray[Any]:
    """Load a dataset. A large one that is stored uncompressed stays in the file and is read by rows."""
    problem = _find_outside(file, name)
    if problem:
        raise InputError(f"dataset {name!r} {problem}; expected its values in this file")
    dataset = file[name]
    if load_extra("h5py").check_string_dtype(dataset.dtype):
        return _read_text(dataset, name)
    if dataset.dtype.kind == "O":
        raise InputError(f"array {name!r} {HOLDS_OBJECTS}")
    values, chunk = (math.prod(shape or ()) * dataset.dtype.itemsize for shape in (dataset.shape, dataset.chunks))
    is_plain = dataset.chunks is None and dataset.id.get_storage_size() >= values and len(dataset.shape or ()) > 1
    by_rows = is_plain and not isinstance(path, Upload)
    try:
        check_memory(values + chunk, f"dataset {name!r}")
        by_rows = by_rows and values > _LOADED_BYTES
    except InputError:
        if not by_rows:
            raise
    if by_rows:
        return cast(NDArray[Any], DatasetRows(cast(Path, path), name, dataset.shape, dataset.dtype))
    return np.asarray(dataset[...])


def _read_text(dataset: Any, name: str) -> NDArray[Any]:
    count = math.prod(dataset.shape or ())
    check_memory(count * max(64, 4 * dataset.dtype.itemsize), f"dataset {name!r}")
    words = np.asarray(dataset.asstr()[...])
    check_memory(count * 4 * max(map(len, words.flat), default=0), f"dataset {name!r}")  # NumPy pads all to the longest
    return words.astype(str)


def _find_outside(file: Any, path: str, links: int = _MAX_LINKS, inside: set[str] | None = None) -> str:
    """How the values at a path are stored outside this file, for a message; empty if they are inside.

    Follows the links itself, so that no other file is opened; `inside` holds the paths that are known to be inside.
    """
    h5py, item, inside = load_extra("h5py"), file, set() if inside is None else inside
    if path in inside:
        return ""
    if links < 0:
        return f"is behind more than {_MAX_LINKS} links"
    for part in path.split("/"):
        if part in ("", ".") or not isinstance(item, h5py.Group):
            continue
        link = item.get(part, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            return f"is a link to another file, {link.filename}"
        if isinstance(link, h5py.SoftLink):
            target = link.path if link.path.startswith("/") else f"{item.name}/{link.path}"
            if problem := _find_outside(file, target, links - 1, inside):
                return problem
        item = item.get(part)
    if isinstance(item, h5py.Dataset) and item.external:
        return f"has its values in another file, {item.external[0][0]}"
    for source in item.virtual_sources() if isinstance(item, h5py.Dataset) and item.is_virtual else ():
        if source.file_name != ".":
            return f"maps another file, {source.file_name}"
        if problem := _find_outside(file, source.dset_name, links - 1, inside):
            return problem
        if source.dset_name not in file:
            return f"maps {source.dset_name!r}, which is missing"
    inside.add(path)
    return ""
