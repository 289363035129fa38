"""NPY, NPZ and HDF5 files: spectra and targets as named arrays. NPY files are memory-mapped."""

import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError, first_line
from vitreous.core.memory import check_memory
from vitreous.data.hdf5 import HOLDS_OBJECTS, dataset_names, dataset_unit, open_hdf5, read_dataset
from vitreous.data.source import PARTS, Target
from vitreous.data.tables import CLASS, Column, Contents, find_targets, join_names, parse_target, read_csv, read_targets
from vitreous.data.uploads import InputFile, Upload, file_size

_AXES = {"axis": "", "wavelength": "", "two_theta": "degrees"}  # names of arrays that hold the axis, and their unit


class Arrays(NamedTuple):
    """Names of the arrays in an open file, a function that reads one, and their units."""

    names: Sequence[str]
    read: Callable[[str], NDArray[Any]]
    units: Mapping[str, str]


def read_npy(path: InputFile, words: Sequence[str], axis: str | None) -> Contents:
    """Read spectra from an array; targets and parts come from a CSV file of the same stem."""
    with path.open("rb") as file:
        check_npy(file, file_size(path))
        file.seek(0)
        # a file on disk is mapped, so that it may be larger than memory
        x = np.load(file, allow_pickle=False) if isinstance(path, Upload) else np.load(path, mmap_mode="r")
    table_path = None if isinstance(path, Upload) else path.with_suffix(".csv")
    if table_path is None or not table_path.is_file():
        if words:
            raise InputError(f"an .npy file holds no targets; expected them in {path.stem}.csv beside it")
        return Contents(x)
    try:
        frame = read_csv(table_path)
        if x.shape[:1] != (len(frame),):
            raise InputError(f"found {len(frame)} rows for spectra of shape {x.shape}")
        return Contents(x, *read_targets(frame, words))
    except InputError as error:
        raise InputError(f"{table_path.name}: {error}") from None


def check_npy(file: IO[bytes], size: int) -> None:
    """Raise `InputError` if the array that an NPY header describes does not fill the rest of the `size` bytes."""
    try:
        is_first_version = np.lib.format.read_magic(file) == (1, 0)
        read_header = np.lib.format.read_array_header_1_0 if is_first_version else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(file)
    except Exception as error:  # damaged headers make NumPy raise exceptions of several types
        raise InputError(f"has no valid NumPy header ({first_line(error)})") from None
    if dtype.hasobject:
        raise InputError(HOLDS_OBJECTS)
    stated, stored = math.prod(shape) * dtype.itemsize, size - file.tell()
    if stated != stored:
        raise InputError(f"states shape {shape} of {dtype}, {stated} bytes, but holds {stored} bytes")


def read_archive(path: InputFile, words: Sequence[str], axis: str | None) -> Contents:
    """Read spectra, targets and axis from the arrays of an NPZ or HDF5 file."""
    with (_open_npz if path.suffix.lower() == ".npz" else _open_hdf5)(path) as arrays:
        return _contents(arrays, words, axis)


@contextmanager
def _open_npz(path: InputFile) -> Iterator[Arrays]:
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise InputError("not a NumPy archive, or damaged")
        file.seek(0)
        with np.load(file, allow_pickle=False) as archive:

            def read(name: str) -> NDArray[Any]:
                size = archive.zip.getinfo(f"{name}.npy").file_size
                check_memory(size, f"array {name!r}")
                try:
                    with archive.zip.open(f"{name}.npy") as member:
                        check_npy(member, size)
                except InputError as error:
                    raise InputError(f"array {name!r} {error}") from None
                return np.asarray(archive[name])

            yield Arrays(archive.files, read, {})


@contextmanager
def _open_hdf5(path: InputFile) -> Iterator[Arrays]:
    with open_hdf5(path) as file:
        names = dataset_names(file)
        units = {name: dataset_unit(file, name) for name in names}
        yield Arrays(names, lambda name: read_dataset(path, file, name), units)


def _contents(arrays: Arrays, words: Sequence[str], axis: str | None) -> Contents:
    """Contents from `x` and its targets, or from `train_x`, `train_y`, `test_x` and `test_y`, which define parts."""
    parts = [part for part in PARTS if f"{part}_x" in arrays.names]
    if "x" not in arrays.names and "train" not in parts:
        raise InputError(f"found arrays {join_names(arrays.names)}; expected x, or train_x and test_x")
    prefixes = [""] if "x" in arrays.names else [f"{part}_" for part in parts]
    blocks = [arrays.read(f"{prefix}x") for prefix in prefixes]
    for prefix, block in zip(prefixes, blocks, strict=True):
        if block.ndim < 2 or block.shape[1:] != blocks[0].shape[1:]:
            raise InputError(
                f"{prefix}x has shape {block.shape} and {prefixes[0]}x {blocks[0].shape}; "
                "expected (samples, points) or (samples, channels, points) with equal lengths"
            )
    counts = [len(block) for block in blocks]
    columns = _target_columns(arrays, prefixes, counts, words)
    points, name, unit = _find_axis(arrays, blocks[0].shape[-1], axis, {column.target.name for column in columns})
    if prefixes == [""]:
        return Contents(blocks[0], columns, {}, points, name, unit)
    check_memory(sum(block.nbytes for block in blocks), "spectra of all parts together")
    rows = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])
    x = np.concatenate([np.asarray(block) for block in blocks])
    return Contents(x, columns, dict(zip(parts, rows, strict=True)), points, name, unit)


def _is_axis_name(name: str) -> bool:
    return name in _AXES or name.endswith("_nm")


def _target_columns(
    arrays: Arrays, prefixes: Sequence[str], counts: Sequence[int], words: Sequence[str]
) -> list[Column]:
    first = prefixes[0]
    names = [name.removeprefix(first) for name in arrays.names if name.startswith(first) and name != f"{first}x"]
    if not words and "y" not in names:
        return []
    requested = [parse_target(word, names) for word in words]
    others = [name for name in names if name != "y" and not _is_axis_name(name)]
    only_y = "y" in names and not others and not any(target.name in names for target in requested)
    columns = []
    for target in [Target("y")] if only_y else find_targets(words or ["y"], names):
        with_unit = Target(target.name, target.unit or arrays.units.get(f"{first}{target.name}", ""))
        values = _labels(arrays, target.name, prefixes, counts)
        columns += _split_columns(with_unit, values, requested if only_y else [])
    return columns


def _labels(arrays: Arrays, name: str, prefixes: Sequence[str], counts: Sequence[int]) -> NDArray[Any]:
    """Values of a target in all parts, `(n,)` or `(n, k)`."""
    blocks = []
    for prefix, count in zip(prefixes, counts, strict=True):
        if f"{prefix}{name}" not in arrays.names:
            raise InputError(f"found {prefix}x without {prefix}{name} among arrays {join_names(arrays.names)}")
        block = np.asarray(arrays.read(f"{prefix}{name}"))
        if block.ndim not in (1, 2) or len(block) != count:
            raise InputError(f"{prefix}{name} has shape {block.shape}; expected {count} rows as in {prefix}x")
        blocks.append(block)
    if len({block.shape[1:] for block in blocks}) > 1:
        shapes = join_names(str(block.shape) for block in blocks)
        raise InputError(f"targets {name!r} differ in shape between parts: {shapes}")
    return np.concatenate(blocks)


def _split_columns(array: Target, values: NDArray[Any], names: Sequence[Target]) -> list[Column]:
    """Columns of one array, with the names that the user gave for the columns of `y`, else numbered."""
    width = 1 if values.ndim == 1 else values.shape[1]
    if width == 1:
        values = values.reshape(-1)
    if names and len(names) != width:
        raise InputError(f"no target {names[0].name!r}, and array 'y' has {width} column(s) for {len(names)} name(s)")
    if values.ndim == 1:
        return [_column(names[0] if names else array, values)]
    if values.dtype.kind != "f":
        raise InputError(
            f"array {array.name!r} has shape {values.shape} of type {values.dtype}; "
            "expected class labels (samples,) or floating quantities (samples, targets)"
        )
    targets = names or [Target(f"{array.name} {k + 1}", array.unit) for k in range(width)]
    return [_column(target, values[:, k]) for k, target in enumerate(targets)]


def _column(target: Target, values: NDArray[Any]) -> Column:
    """Floats are quantities; integers and text are classes, except for integers with a unit."""
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    if values.dtype.kind not in "fiubU":
        raise InputError(f"target {target.name!r} is of type {values.dtype}, expected numbers or text")
    is_quantity = values.dtype.kind == "f" or (values.dtype.kind in "iu" and target.unit)
    return Column(target, values, is_class=target.unit == CLASS or not is_quantity)


def _find_axis(arrays: Arrays, count: int, axis: str | None, targets: set[str]) -> tuple[NDArray[Any] | None, str, str]:
    """Values, name and unit of the array that holds the axis."""
    candidates = [name for name in arrays.names if name == axis or _is_axis_name(name)]
    for name in sorted(candidates, key=lambda name: name != axis):
        values = np.asarray(arrays.read(name))
        if values.shape == (count,) and values.dtype.kind in "fiu" and name not in targets:
            unit = arrays.units.get(name) or ("nm" if name.endswith("_nm") else _AXES.get(name, ""))
            axis_name = axis if axis and axis != name else name.removesuffix("_nm")
            return values.astype(np.float64), axis_name, unit
        if name == axis:
            raise InputError(f"axis {name!r} has shape {values.shape} of type {values.dtype}, expected {count} numbers")
    return None, "", ""
