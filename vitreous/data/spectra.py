"""Read spectra from CSV, Parquet, NPY, NPZ and HDF5 files, one spectrum per row, on an evenly spaced axis."""

import math
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError, check_choice, first_line
from vitreous.core.memory import check_memory
from vitreous.data.arrays import read_archive, read_npy
from vitreous.data.source import Axis, Source
from vitreous.data.tables import Contents, encode_targets, read_csv, read_parquet, table_contents
from vitreous.data.uploads import InputFile, InputPath, as_input_file, file_size

_EVEN = 1e-3  # tolerance of an evenly spaced axis, as a fraction of the spacing
_CHUNK = 1 << 24  # values processed at a time in an array that may be larger than memory

_READERS: dict[str, Callable[[InputFile, Sequence[str], str | None], Contents]] = {
    ".csv": lambda path, words, axis: table_contents(read_csv(path), words),
    ".parquet": lambda path, words, axis: table_contents(read_parquet(path), words),
    ".npy": read_npy,
    **dict.fromkeys((".npz", ".h5", ".hdf5"), read_archive),
}


def read_spectra(
    path: InputPath,
    targets: str | Sequence[str] = (),
    axis: str | Axis | None = None,
    unit: str = "",
    name: str | None = None,
) -> Source:
    """Read spectra, one per row, with their targets.

    CSV and Parquet: the columns with a numeric header hold the spectrum, and the headers are its axis. A column `split`
    of the words train, validation and test defines the parts.

    NPZ and HDF5: arrays `x` and, by default, `y`; or `train_x`, `train_y`, `test_x` and `test_y`, which also define the
    parts. An array `axis`, `wavelength`, `two_theta` or `…_nm` is the axis.

    NPY: the spectra, with targets and `split` in a CSV file of the same stem. The array is memory-mapped.

    An uneven axis is resampled linearly onto an even one, in memory. Files that take more memory than `check_memory`
    allows are refused before they are read. NPY files and a large uncompressed HDF5 dataset `x` are not loaded: their
    rows are read when they are needed.

    Args:
        path: the file; its suffix determines the format.
        targets: columns or arrays to predict, `assay` or with a unit `assay:mg`. Text is a class label, a number is a
            quantity; `kind:class` turns numbers into labels. Integer arrays are classes unless they have a unit.
            If `y` is the only target array, these are the names of its columns.
        axis: name of the axis, e.g. `wavelength`; in NPZ and HDF5 files also the array that holds it. An `Axis`
            replaces the axis of the file.
        unit: unit of the axis; overrides the file.
        name: for messages and figures; the file name by default.
    """
    path = as_input_file(path)
    words = (targets,) if isinstance(targets, str) else tuple(targets)
    try:
        contents = _read(path, words, axis if isinstance(axis, str) else None)
        x = _check_spectra(contents)
        if isinstance(axis, Axis):
            grid = axis
        elif contents.points is None:
            grid = Axis(axis or "index", unit)
        else:
            x, origin, spacing = _resample_evenly(x, contents.points)
            grid = Axis(contents.axis or axis or "axis", unit or contents.unit, origin, spacing)
        y, classes, quantities = encode_targets(contents.columns)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    count = x.shape[1]
    channels = ("intensity",) if count == 1 else tuple(f"channel {k + 1}" for k in range(count))
    return Source(name or path.name, x, y, (grid,), channels, classes, quantities, contents.parts)


def read_columns(path: str | PathLike[str], names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Read other columns of a spectra file, named like `targets` in `read_spectra`, by their labels.

    Where a value is missing, numbers `(n,)` hold NaN and text holds an empty string.
    """
    path = Path(path)
    try:
        columns = _read(path, names, None).columns
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return {column.target.name if column.is_class else column.target.label: column.filled() for column in columns}


def _read(path: InputFile, words: Sequence[str], axis: str | None) -> Contents:
    if not path.is_file():
        raise InputError("found a folder, expected a file" if path.is_dir() else "no such file")
    kind = path.suffix.lower()
    check_choice("file type", kind, _READERS)
    if file_size(path) == 0:
        raise InputError("empty file")
    try:
        return _READERS[kind](path, words, axis)
    except InputError:
        raise
    except Exception as error:  # damaged files make the readers raise exceptions of any type
        raise InputError(f"cannot be read as {kind} ({first_line(error)})") from None


def _check_spectra(contents: Contents) -> NDArray[Any]:
    """Spectra as `(n, channels, points)`; they must be real and finite, on a monotonic axis of two points or more."""
    x = contents.x
    if x.dtype.kind not in "fiu":
        raise InputError(f"spectra are of type {x.dtype}, expected real numbers")
    if x.ndim not in (2, 3):
        raise InputError(f"spectra have shape {x.shape}, expected (samples, points) or (samples, channels, points)")
    if x.shape[-1] < 2:
        raise InputError(f"spectra have {x.shape[-1]} point(s), expected two or more")
    if contents.points is not None:
        _check_axis(contents.points)
    x = x[:, None] if x.ndim == 2 else x  # (n, points) -> (n, 1, points)
    for rows in _chunks(x) if x.dtype.kind == "f" else ():
        invalid = np.argwhere(~np.isfinite(x[rows]))
        if len(invalid):
            row, channel, point = invalid[0]
            column = f"point {point}" if contents.points is None else f"column {contents.points[point]:g}"
            where = f"row {rows.start + row}, {column}" + (f", channel {channel + 1}" if x.shape[1] > 1 else "")
            raise InputError(f"spectra: found {x[rows][tuple(invalid[0])]} in {where}, expected a finite number")
    return x


def _check_axis(points: NDArray[Any]) -> None:
    if not np.all(np.isfinite(points)):
        raise InputError(f"axis: found {points[~np.isfinite(points)][0]}, expected finite numbers")
    values, counts = np.unique(points, return_counts=True)
    if counts.max() > 1:
        raise InputError(f"axis: found {values[counts > 1][0]:g} more than once; does the file begin with its header?")
    steps = np.diff(points) * np.sign(points[-1] - points[0])
    if np.any(steps < 0):
        k = int(np.flatnonzero(steps < 0)[0])
        raise InputError(f"axis: found {points[k + 1]:g} after {points[k]:g}, expected it to rise or fall throughout")


def _resample_evenly(x: NDArray[Any], points: NDArray[Any]) -> tuple[NDArray[Any], float, float]:
    """Spectra, origin and spacing; interpolated linearly if the points are not evenly spaced."""
    even = np.linspace(points[0], points[-1], len(points))
    origin, spacing = float(points[0]), float(points[-1] - points[0]) / (len(points) - 1)
    if np.all(np.abs(points - even) <= _EVEN * abs(spacing)):
        return x, origin, spacing
    direction = np.sign(spacing)
    left = np.clip(np.searchsorted(direction * points, direction * even, side="right") - 1, 0, len(points) - 2)
    fraction = (even - points[left]) / (points[left + 1] - points[left])
    dtype = np.result_type(x.dtype, np.float32)
    check_memory(math.prod(x.shape) * dtype.itemsize, "spectra on an evenly spaced axis")
    out = np.empty(x.shape, dtype=dtype)
    for rows in _chunks(x):
        out[rows] = x[rows][..., left] * (1 - fraction) + x[rows][..., left + 1] * fraction
    return out, origin, spacing


def _chunks(x: NDArray[Any]) -> Iterator[slice]:
    step = max(1, _CHUNK // max(1, int(np.prod(x.shape[1:]))))
    return (slice(start, start + step) for start in range(0, len(x), step))
