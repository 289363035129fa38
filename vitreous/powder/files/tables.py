"""Tables of numbers as text: header lines, rows, and where one of several scans ends and the next begins."""

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.powder.files.content import check_count
from vitreous.powder.files.reading import ReadOptions
from vitreous.powder.files.scan_choice import choose_scans
from vitreous.powder.pattern import MIN_POINTS, Floats

COMMENTS = "#!'/%*;<"
_DECIMAL_COMMA = re.compile(r"[-+]?\d+(,\d+)?")
_MAX_HEADER = 1_000_000  # characters


@dataclass
class Table:
    """Numbers `(columns, points)` with the lines of text around them."""

    header: list[str] = field(default_factory=list)
    above: int = 0  # header lines above the numbers
    marks: "array[int]" = field(default_factory=lambda: array("q"))  # rows after a blank line, a comment or a heading
    stated: dict[int, float] = field(default_factory=dict)  # counts of points in the lines above a row
    stray: tuple[int, str] | None = None  # line number and text of the first heading below numbers
    numbers: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def scans(self, x: int, options: ReadOptions) -> list[slice]:
        """The rows of every scan that is wanted; `InputError` if several were measured and the options name none.

        Scans are separated by blank lines or headings, or their first column starts again. Ranges that follow each
        other without a heading are one scan, unless the user chooses one.
        """
        axis = self.numbers[x]
        starts = self._starts(axis)
        is_monotonic = bool(np.all(axis[1:] > axis[:-1]) or np.all(axis[1:] < axis[:-1]))
        if options.scan is None and self.stray is None and is_monotonic:
            starts = [0]
        rows = [slice(start, end) for start, end in zip(starts, [*starts[1:], len(axis)], strict=True)]
        for part in rows:
            _check_stated(self.stated.get(part.start, 0.0), part.stop - part.start)
        ranges = [f"{axis[part.start]:g} to {axis[part.stop - 1]:g}, {part.stop - part.start} points" for part in rows]
        return [rows[index] for index in choose_scans(ranges, options, is_required=True)]

    def _starts(self, axis: Floats) -> list[int]:
        """The first rows of scans, each of enough points for a pattern; one if the numbers are no such scans."""
        starts = _scan_starts(np.frombuffer(self.marks, np.int64), len(axis))
        if len(starts) == 1:
            if self.stray is not None:
                raise InputError(f"line {self.stray[0]}: found {self.stray[1]!r}, expected numbers")
            rises, falls = axis[1:] > axis[:-1], axis[1:] < axis[:-1]
            starts = _scan_starts(np.flatnonzero(falls if rises.sum() >= falls.sum() else rises) + 1, len(axis))
        return starts


def _scan_starts(breaks: NDArray[np.int64], count: int) -> list[int]:
    starts = np.unique(np.concatenate(([0], breaks[breaks < count])))
    return starts.tolist() if np.diff(starts, append=count).min() >= MIN_POINTS else [0]


def _check_stated(stated: float, count: int) -> None:
    if stated >= MIN_POINTS and stated == int(stated):
        check_count(int(stated), count)


def read_table(text: str) -> Table:
    """The numbers of a text in two or more columns, below and between any number of header lines."""
    table, numbers, width, room = Table(), array("d"), 0, _MAX_HEADER
    is_header, stated = True, 0.0
    for line, place, is_after_blank in lines(text):
        is_comment = line[0] in COMMENTS
        values = [] if is_comment else parse_numbers(line)
        is_header |= is_comment or (is_after_blank and bool(values))
        is_count = len(values) == 1 and (not width or (is_header and width > 1))
        if not values or is_count:
            if width and not is_comment:
                if not (is_after_blank or is_header or line in table.header):
                    raise InputError(f"line {_line_number(text, place)}: found {line[:40]!r}, expected numbers")
                table.stray = table.stray or (_line_number(text, place), line[:40])
            is_header = True
            stated = values[0] if values else stated  # a single number is the count of points
            table.header.append(line.lstrip(COMMENTS + " ") if is_comment else line)
            room -= len(line)
            if room < 0:
                raise InputError(f"found more than {_MAX_HEADER} characters of text, expected a header and numbers")
            continue
        width, table.above = width or len(values), table.above if width else len(table.header)
        if len(values) != width:
            number = _line_number(text, place)
            raise InputError(f"line {number}: found {len(values)} columns, the lines before it have {width}")
        if is_header:
            row = len(numbers) // width
            table.marks.append(row)
            if stated:
                table.stated[row] = stated
            is_header, stated = False, 0.0
        numbers.extend(values)
    if not width:
        raise InputError("found no rows of numbers, expected 2θ and intensity")
    table.numbers = np.array(numbers, dtype=np.float64).reshape(-1, width).T
    return table


def lines(text: str) -> Iterator[tuple[str, int, bool]]:
    """Lines that are not blank, without spaces at their ends and quotation marks, their places, and after a blank."""
    end, is_after_blank = 0, False
    for match in re.finditer(r"[^\r\n]+", text):
        gap = match.start() - end
        is_after_blank |= gap > 1 and max(text.count("\n", end, end + gap), text.count("\r", end, end + gap)) > 1
        end = match.end()
        if line := match[0].replace('"', "").strip():
            yield line, match.start(), is_after_blank
            is_after_blank = False
        else:
            is_after_blank = True


def _line_number(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def parse_numbers(line: str) -> list[float]:
    """The numbers in a line; empty if one of its words is not a number."""
    try:
        return [float(word) for word in split_words(line)]
    except ValueError:
        return []


def split_words(line: str) -> list[str]:
    """The words of a line, separated by spaces, commas or semicolons; decimal commas become points."""
    line = line.rstrip(",; \t")
    if "," in line:
        words = re.split(r"\s*;\s*|\s+", line)
        if len(words) > 1 and all(_DECIMAL_COMMA.fullmatch(word) for word in words):
            return [word.replace(",", ".") for word in words]
    return re.split(r"\s*[,;]\s*|\s+", line)
