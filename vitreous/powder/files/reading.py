"""What a user states about the layout of a pattern file: its axis, its columns, its scans, and the radiation."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vitreous.core.errors import InputError, check_choice

AxisName = Literal["2theta", "theta", "d", "q", "1/d2", "sin2theta", "energy"]
"""Quantities of the first column: degrees, ångström, 1/Å (q), 1/Å² (1/d²) and keV."""
AXES: tuple[AxisName, ...] = ("2theta", "theta", "d", "q", "1/d2", "sin2theta", "energy")
MERGE_WORDS = ("merge", "all")
Scan = int | Literal["merge", "all"]
MOST_SCANS = 100
"""Scans of a file that can be chosen or merged."""


@dataclass(frozen=True)
class ReadOptions:
    """How a pattern file is read, where the file does not say it or says it wrongly.

    Args:
        axis: quantity of the first column of a text file, one of `AXES`; replaces what its heading says.
        columns: names or numbers (from 1) of the columns of a text file: angle, intensity, and optionally the standard
            errors of the intensities; a list of peaks may have the angle alone.
        scan: number of the scan in the file, from 1; `merge` (or `all`) adds scans along the same angles and joins
            those of different ranges.
        fixed_angle: 2θ of the detector in degrees, for an axis of energies.
        neutrons: the radiation is neutrons of one wavelength.
    """

    axis: AxisName | None = None
    columns: Sequence[str | int] = ()
    scan: Scan | None = None
    fixed_angle: float | None = None
    neutrons: bool = False

    def __post_init__(self) -> None:
        if self.axis is not None:
            check_choice("axis", self.axis, AXES)
        if len(self.columns) > 3:
            raise InputError(f"columns: found {len(self.columns)}, expected angle, intensity and optionally its error")
        if isinstance(self.scan, str):
            check_choice("scan", self.scan, MERGE_WORDS)
        elif self.scan is not None and not 1 <= self.scan <= MOST_SCANS:
            raise InputError(f"scan: found {self.scan}, expected 1 to {MOST_SCANS}, or merge")
        if self.fixed_angle is not None and not 0 < self.fixed_angle < 180:
            raise InputError(f"fixed-angle: found {self.fixed_angle:g}, expected 2θ of the detector, 0 to 180 degrees")
        if self.fixed_angle is not None and self.axis not in (None, "energy"):
            raise InputError(f"fixed-angle: found {self.fixed_angle:g} with axis {self.axis}, expected axis energy")

    @property
    def merges(self) -> bool:
        """Whether all scans of the file become one pattern."""
        return self.scan in MERGE_WORDS

    @property
    def words(self) -> str:
        """The options as words of a command line, each after a space."""
        values = {"axis": self.axis, "fixed-angle": self.fixed_angle, "columns": shlex.join(map(str, self.columns))}
        words = "".join(f" --{name} {value}" for name, value in {**values, "scan": self.scan}.items() if value)
        return words + " --neutrons" * self.neutrons

    def require_no_columns(self, kind: str) -> None:
        """Raise `InputError` if an axis or columns are stated for a format that names them itself."""
        for name, value in (("axis", self.axis), ("columns", self.columns), ("fixed-angle", self.fixed_angle)):
            if value:
                raise InputError(f"{name}: only for columns of text; {kind} files state what their numbers are")


AS_IN_FILE = ReadOptions()
"""Everything as the file states it."""
