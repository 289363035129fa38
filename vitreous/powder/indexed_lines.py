"""Observed lines with the indices of the reflections of one phase or two, and those that none explains."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_SHOWN = 6  # angles that a sentence names
_LEAST_SHARE = 0.01  # of the intensity that unexplained lines have if they amount to something,
_LEAST_LINES = 0.05  # or their share of all lines where no intensities are known

Reflections = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Miller indices `(n, 3)` and calculated 2θ `(n,)` in degrees."""


class IndexedLine(NamedTuple):
    """An observed line with its Miller indices and calculated angle, both None if no cell explains it."""

    two_theta: float  # degrees
    intensity: float | None  # relative to the strongest line; None if unknown
    hkl: tuple[int, int, int] | None
    calculated: float | None  # degrees, zero shift included
    phase: int | None = None  # 1 or 2: the cell that explains the line

    @property
    def difference(self) -> float | None:
        """Observed less calculated angle in degrees."""
        return None if self.calculated is None else self.two_theta - self.calculated

    def to_dict(self) -> dict[str, Any]:
        """The line as a record for JSON and tables."""
        h, k, l = (None, None, None) if self.hkl is None else self.hkl  # noqa: E741 - the field's own names
        angles = {"two_theta": self.two_theta, "calculated": self.calculated, "difference": self.difference}
        rounded = {name: None if value is None else round(value, 5) for name, value in angles.items()}
        record = {"h": h, "k": k, "l": l, **rounded, "intensity": self.intensity}
        return record | {"foreign": self.hkl is None, "phase": self.phase}


class UnexplainedLine(NamedTuple):
    """An observed line that no cell explains."""

    two_theta: float  # degrees
    intensity: float | None  # relative to the strongest line; None if unknown
    share: float | None  # of the intensity of all lines; None if unknown

    def to_dict(self) -> dict[str, Any]:
        """The line as JSON values."""
        share = None if self.share is None else round(self.share, 5)
        return {"two_theta": round(self.two_theta, 5), "intensity": self.intensity, "share": share}


def assign_lines(
    two_theta: Sequence[float], intensity: Sequence[float], tolerance: Sequence[float], phases: Sequence[Reflections]
) -> list[IndexedLine]:
    """Lines with the indices of the nearest reflection of any phase, if it is within the tolerance; all in degrees.

    `intensity` is empty if it is unknown.
    """
    hkl = np.concatenate([indices for indices, _ in phases])
    calculated = np.concatenate([angles for _, angles in phases])
    phase = np.repeat(np.arange(len(phases)) + 1, [len(angles) for _, angles in phases])
    lines = []
    for angle, strength, reach in zip(two_theta, intensity or (None,) * len(two_theta), tolerance, strict=True):
        line, miss = IndexedLine(angle, strength, None, None), np.abs(calculated - angle)
        if miss.min(initial=np.inf) <= reach:
            nearest = int(miss.argmin())
            h, k, l = hkl[nearest].tolist()  # noqa: E741 - the field's own names
            line = IndexedLine(angle, strength, (h, k, l), float(calculated[nearest]), int(phase[nearest]))
        lines.append(line)
    return lines


def unexplained_lines(lines: Sequence[IndexedLine]) -> list[UnexplainedLine]:
    """The lines without indices, by ascending angle."""
    total = sum(line.intensity or 0.0 for line in lines)
    return [
        UnexplainedLine(
            line.two_theta, line.intensity, None if line.intensity is None else line.intensity / max(total, 1e-300)
        )
        for line in lines
        if line.hkl is None
    ]


def describe_unexplained(lines: Sequence[UnexplainedLine], count: int) -> str:
    """The unexplained ones of `count` lines in words; empty where they amount to nothing."""
    known = [line.share for line in lines if line.share is not None]
    amount = sum(known) / _LEAST_SHARE if known else len(lines) / max(count, 1) / _LEAST_LINES
    if not lines or amount < 1:
        return ""
    strongest = sorted(lines, key=lambda line: -(line.share or 0.0))[:_SHOWN]
    angles = ", ".join(f"{angle:.2f}°" for angle in sorted(line.two_theta for line in strongest))
    number = f"{len(lines)} lines" if len(lines) > 1 else "1 line"
    share = f", {sum(known):.0%} of the intensity," if known else ""
    more = ", …" if len(lines) > _SHOWN else ""
    return f"{number}{share} {'are' if len(lines) > 1 else 'is'} unexplained: {angles}{more}"
