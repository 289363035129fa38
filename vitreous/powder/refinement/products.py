"""Sums of products over the points of a pattern, in blocks of points that only a few lines reach."""

from collections.abc import Iterator, Sequence

import numpy as np

from vitreous.powder.refinement.profile import Array, Indices, Windows

_BLOCK = 256  # points


class LineBlocks:
    """The windows of lines in blocks of points."""

    def __init__(self, windows: Windows, size: int) -> None:
        self.windows, self.count, self.size, number = windows, len(windows.width), size, -(-size // _BLOCK)
        first: Indices = np.full(number, self.count)  # (blocks,), first line that reaches into each,
        last: Indices = np.zeros(number, dtype=np.int64)  # and the one after the last
        filled = np.flatnonzero(np.diff(windows.starts))
        low = windows.points[windows.starts[filled]] // _BLOCK
        high = windows.points[windows.starts[filled + 1] - 1] // _BLOCK + 1
        for line, start, end in zip(filled.tolist(), low.tolist(), high.tolist(), strict=True):
            first[start:end] = np.minimum(first[start:end], line)
            last[start:end] = line + 1
        heights = np.maximum(last - first, 0)
        offset = _BLOCK * (np.cumsum(heights) - heights)
        self.length = _BLOCK * int(heights.sum())
        block = windows.points // _BLOCK
        self.places = (offset - _BLOCK * first)[block] + _BLOCK * windows.line + windows.points % _BLOCK
        self.parts = []  # points, lines, and place among the values of each block that lines reach
        for start, line, height, place in zip(
            range(0, size, _BLOCK), first.tolist(), heights.tolist(), offset.tolist(), strict=True
        ):
            if height:
                points = slice(start, min(start + _BLOCK, size))
                self.parts.append((points, slice(line, line + height), slice(place, place + _BLOCK * height)))


class LineRows:
    """Rows `(lines, points)` that are zero outside the windows of the lines; `values` `(entries,)` are within them."""

    def __init__(self, blocks: LineBlocks, values: Array) -> None:
        self.blocks = blocks
        self.values = np.zeros(blocks.length)
        self.values[blocks.places] = values

    def products(self, dense: Array) -> tuple[Array, Array]:
        """The products of the rows with each other `(lines, lines)` and with other rows `(n, points)`: `(lines, n)`."""
        count = self.blocks.count
        own, cross = np.zeros((count, count)), np.zeros((count, len(dense)))
        for points, lines, part in self._parts():
            own[lines, lines] += part @ part.T
            cross[lines] += part @ dense[:, points].T
        return own, cross

    def cross_products(self, dense: Array) -> Array:
        """The products of the rows with other rows `(n, points)`: `(lines, n)`."""
        cross = np.zeros((self.blocks.count, len(dense)))
        for points, lines, part in self._parts():
            cross[lines] += part @ dense[:, points].T
        return cross

    def _parts(self) -> Iterator[tuple[slice, slice, Array]]:
        """Points, lines, and the part of the rows there, for each block that lines reach."""
        for points, lines, places in self.blocks.parts:
            part = self.values[places].reshape(-1, _BLOCK)
            yield points, lines, part[:, : points.stop - points.start]

    @staticmethod
    def gram_matrix(sets: Sequence["LineRows"], dense: Array) -> Array:
        """All products of sets of rows of the same lines, one set after another, and of dense rows `(n, points)`."""
        count = sets[0].blocks.count
        gram = np.zeros((len(sets) * count + len(dense),) * 2)
        tail = slice(len(sets) * count, None)
        gram[tail, tail] = dense @ dense.T
        for blocks in zip(*(rows._parts() for rows in sets), strict=True):
            points, lines = blocks[0][:2]
            for number, (*_, part) in enumerate(blocks):
                own = slice(lines.start + number * count, lines.stop + number * count)
                gram[own, tail] += part @ dense[:, points].T
                for other, (*_, second) in enumerate(blocks):
                    gram[own, slice(lines.start + other * count, lines.stop + other * count)] += part @ second.T
        gram[tail, : len(sets) * count] = gram[: len(sets) * count, tail].T
        return gram
