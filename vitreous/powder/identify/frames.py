"""The frames of an in-situ series: pattern files of a folder in order, with temperatures or times from a table."""

import csv
import math
import re
from dataclasses import dataclass
from pathlib import Path

from vitreous.core.errors import InputError

TABLE = "frames.csv"
"""File of the folder with a column `file` and one of numbers, such as `temperature (K)`."""
_MOST_FRAMES = 10_000
_MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class Frame:
    """One pattern of a series and where it stands on the axis."""

    path: Path
    at: float


@dataclass(frozen=True)
class Frames:
    """The patterns of a series in order; `axis` says what their numbers are, e.g. `frame` or `temperature (K)`."""

    name: str
    axis: str
    frames: tuple[Frame, ...]


def find_frames(folder: Path) -> Frames:
    """The patterns of a folder in the order of its table or, without one, of their names: frame 2 before frame 10."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder, expected one with the frames of a series")
    paths = [path for path in folder.iterdir() if path.is_file() and path.name[0] != "." and path.name != TABLE]
    if not paths:
        raise InputError(f"{folder}: found no files, expected the frames of a series")
    if len(paths) > _MOST_FRAMES:
        raise InputError(f"{folder}: found {len(paths)} files, expected {_MOST_FRAMES} at most")
    table = folder / TABLE
    if table.is_file():
        return _in_order_of_table(folder, table, paths)
    ordered = sorted(paths, key=_by_numbers)
    return Frames(folder.name, "frame", tuple(Frame(path, float(k)) for k, path in enumerate(ordered, 1)))


def _by_numbers(path: Path) -> list[tuple[int, float, str]]:
    """A name as words and numbers, which are sorted as numbers."""
    parts = re.split(r"(\d+)", path.name)
    return [(1, float(part), "") if part.isdecimal() else (0, 0.0, part.lower()) for part in parts if part]


def _in_order_of_table(folder: Path, table: Path, paths: list[Path]) -> Frames:
    """Frames in the order of their numbers; files that the table does not name are left out."""
    if table.stat().st_size > _MOST_BYTES:
        raise InputError(f"{table}: found {table.stat().st_size} bytes, expected {_MOST_BYTES} at most")
    rows = list(csv.reader(table.read_text("utf-8-sig", errors="replace").splitlines()))
    heading = [cell.strip() for cell in rows[0]] if rows else []
    if len(heading) < 2 or heading[0].lower() != "file":
        found = ", ".join(heading)[:100] or "nothing"
        raise InputError(f"{table}: found the columns {found}, expected file and, e.g., temperature (K)")
    by_name = {path.name: path for path in paths}
    frames = []
    for number, row in enumerate(rows[1:], 2):
        if not any(cell.strip() for cell in row):
            continue
        name, value = row[0].strip(), _number(row[1] if len(row) > 1 else "")
        if name not in by_name:
            raise InputError(f"{table}: found {name[:100]!r} in line {number}, expected the name of a file beside it")
        if value is None:
            found = row[1][:50] if len(row) > 1 else ""
            raise InputError(f"{table}: found {found!r} in line {number}, expected a number ({heading[1]})")
        frames.append(Frame(by_name[name], value))
    if not frames:
        raise InputError(f"{table}: found no frames, expected a line for each")
    return Frames(folder.name, heading[1], tuple(sorted(frames, key=lambda frame: frame.at)))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
