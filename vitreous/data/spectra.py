"""Spectra from files: CSV, Parquet, NPY, NPZ and HDF5, one spectrum a row, on an evenly spaced axis."""

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.data.arrays import read_hdf5, read_npy, read_npz
from vitreous.data.contents import Contents, encode, with_gaps
from vitreous.data.held import File, Held, file_of, size_of
from vitreous.data.source import Axis, Source
from vitreous.data.tables import read_csv, read_parquet, table_contents
from vitreous.errors import InputError, check_choice, first_line

_EVEN = 1e-3  # of the spacing: how far a point may lie from an even grid and still count as on it
_CHUNK = 1 << 24  # values looked at together in an array that may be larger than memory

_READERS: dict[str, Callable[[File, Sequence[str], str | None], Contents]] = {
    ".csv": lambda path, words, axis: table_contents(read_csv(path), words),
    ".parquet": lambda path, words, axis: table_contents(read_parquet(path), words),
    ".npy": read_npy,
    ".npz": read_npz,
    ".h5": read_hdf5,
    ".hdf5": read_hdf5,
}


def read_spectra(
    path: str | PathLike[str] | Held,
    targets: str | Sequence[str] = (),
    axis: str | Axis | None = None,
    unit: str = "",
    name: str | None = None,
) -> Source:
    """Read one spectrum a row with what is to be predicted from it.

    CSV and Parquet: columns whose header is a number are the spectrum and those numbers its axis; a column `split` of
    train, validation and test gives the parts. NPZ and HDF5: arrays `x` and, by default, `y`; or `train_x`, `train_y`,
    `test_x`, `test_y`, which also give the parts; an array `axis`, `wavelength`, `two_theta` or `…_nm` is the axis.
    NPY: `x` alone, with targets and `split` in a CSV of the same stem. NPY and HDF5 stored in one piece are mapped,
    not loaded. An uneven axis is resampled linearly onto an even one, in memory.

    Args:
        path: the file; its suffix says what it is.
        targets: columns or arrays to predict, `assay` or with a unit `assay:mg`; text is a class label, a number a
            quantity. `kind:class` makes labels of numbers. Integer arrays are classes, unless they have a unit.
            Where `y` is the only array of targets, these are the names of its columns.
        axis: what the axis measures, e.g. `wavelength`; in NPZ and HDF5 also the array that holds it. An `Axis` stands
            for whatever the file says.
        unit: of the axis, where the file does not say it or says it wrongly.
        name: for messages and figures; the file's name by default.
    """
    path = file_of(path)
    words = (targets,) if isinstance(targets, str) else tuple(targets)
    try:
        found = _read(path, words, axis if isinstance(axis, str) else None)
        x = _checked(found)
        if isinstance(axis, Axis):
            grid = axis
        elif found.points is None:
            grid = Axis(axis or "index", unit)
        else:
            x, origin, spacing = _on_even_grid(x, found.points)
            grid = Axis(found.axis or axis or "axis", unit or found.unit, origin, spacing)
        y, classes, quantities = encode(found.columns)
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from None
    count = x.shape[1]
    channels = ("intensity",) if count == 1 else tuple(f"channel {k + 1}" for k in range(count))
    return Source(name or path.name, x, y, (grid,), channels, classes, quantities, found.parts)


def read_columns(path: str | PathLike[str], names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """What else a file knows of its spectra, by the columns' labels.

    Args:
        path: as for `read_spectra`.
        names: of columns or arrays, as its `targets`; they may have gaps.

    Returns:
        Numbers `(n,)`, NaN where there is none, or words, empty where there is none.
    """
    path = Path(path)
    try:
        columns = _read(path, names, None).columns
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from None
    return {column.target.name if column.is_class else column.target.label: with_gaps(column) for column in columns}


def _read(path: File, words: Sequence[str], axis: str | None) -> Contents:
    if not path.is_file():
        raise InputError("found a folder, expected a file" if path.is_dir() else "no such file")
    kind = path.suffix.lower()
    check_choice("file type", kind, _READERS)
    if size_of(path) == 0:
        raise InputError("empty file")
    try:
        return _READERS[kind](path, words, axis)
    except InputError:
        raise
    except Exception as fault:  # on damaged bytes the readers raise whatever they stumble over
        raise InputError(f"cannot be read as {kind} ({first_line(fault)})") from None


def _checked(found: Contents) -> NDArray[Any]:
    """Spectra as `(n, channels, points)`: real, finite, of two points or more, their axis monotonic."""
    x = found.x
    if x.dtype.kind not in "fiu":
        raise InputError(f"spectra are of type {x.dtype}, expected real numbers")
    if x.ndim not in (2, 3):
        raise InputError(f"spectra have shape {x.shape}, expected (samples, points) or (samples, channels, points)")
    if x.shape[-1] < 2:
        raise InputError(f"spectra have {x.shape[-1]} point(s), expected two or more")
    if found.points is not None:
        _check_axis(found.points)
    x = x[:, None] if x.ndim == 2 else x  # (n, points) -> (n, 1, points)
    for rows in _chunks(x) if x.dtype.kind == "f" else ():
        bad = np.argwhere(~np.isfinite(x[rows]))
        if len(bad):
            row, channel, point = bad[0]
            column = f"point {point}" if found.points is None else f"column {found.points[point]:g}"
            where = f"row {rows.start + row}, {column}" + (f", channel {channel + 1}" if x.shape[1] > 1 else "")
            raise InputError(f"spectra: found {x[rows][tuple(bad[0])]} in {where}, expected a finite number")
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


def _on_even_grid(x: NDArray[Any], points: NDArray[Any]) -> tuple[NDArray[Any], float, float]:
    """Spectra, origin and spacing; resampled linearly if the points are not evenly spaced already."""
    even = np.linspace(points[0], points[-1], len(points))
    origin, spacing = float(points[0]), float(points[-1] - points[0]) / (len(points) - 1)
    if np.all(np.abs(points - even) <= _EVEN * abs(spacing)):
        return x, origin, spacing
    way = np.sign(spacing)
    left = np.clip(np.searchsorted(way * points, way * even, side="right") - 1, 0, len(points) - 2)
    share = (even - points[left]) / (points[left + 1] - points[left])
    out = np.empty(x.shape, dtype=np.result_type(x.dtype, np.float32))
    for rows in _chunks(x):
        out[rows] = x[rows][..., left] * (1 - share) + x[rows][..., left + 1] * share
    return out, origin, spacing


def _chunks(x: NDArray[Any]) -> Iterator[slice]:
    step = max(1, _CHUNK // max(1, int(np.prod(x.shape[1:]))))
    return (slice(start, start + step) for start in range(0, len(x), step))
