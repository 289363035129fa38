"""Which entries would explain most of what is left of a pattern, before anything is refined.

Every entry's lines are compared with the rest of the pattern by a matched filter: the gain in χ² of adding the entry
at its best scale. Lines are blurred by what the cell and the zero shift may differ; for the best entries, a few strains
and shifts are then tried with sharp lines.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vitreous.powder.bragg import second_wavelength
from vitreous.powder.identify.database import Database
from vitreous.powder.identify.measured import Measured, gaussian_sigma
from vitreous.powder.lineshape import FWHM_PER_SIGMA
from vitreous.powder.pattern import Floats

Places = NDArray[np.int64]


@dataclass(frozen=True)
class ScreenTuning:
    """Constants of the comparison before any refinement."""

    strains: tuple[float, ...] = (-0.009, -0.006, -0.003, 0.0, 0.003, 0.006, 0.009)
    """Relative changes of all lengths of a cell that are tried."""
    zeros: tuple[float, ...] = (-0.08, 0.0, 0.08)
    """Shifts of all lines that are tried, degrees."""
    blur_strain: float = 0.004
    """Relative error of lengths, by which lines are blurred where no strains are tried."""
    blur_zero: float = 0.05
    """Degrees, likewise."""
    sharp_strain: float = 0.0015
    """Left when strains are tried."""
    sharp_zero: float = 0.03
    """Degrees, left when shifts are tried."""
    faintest: float = 0.01
    """Lines of an entry count from this share of its strongest one on."""
    intensity_error: float = 0.15
    """Relative error of intensities of lines, by texture and by other atoms."""


SCREEN_TUNING = ScreenTuning()
_BINS_PER_WIDTH = 2.5
_REACH = 2.5  # standard deviations of a blurred line to either side


class LineTable(NamedTuple):
    """The lines of chosen entries, one entry after another, `(lines,)`."""

    owner: Places  # place of the entry among the chosen ones
    s: Floats  # 1/d in 1/Å
    strength: Floats  # intensity times Lorentz-polarisation factor, relative to the strongest in the range
    entries: int


class Matches(NamedTuple):
    """The gain in χ² of each entry `(n,)`, and with which strain and zero shift (degrees)."""

    gain: Floats
    strain: Floats
    zero: Floats


def line_table(
    database: Database, entries: Places, measured: Measured, tuning: ScreenTuning = SCREEN_TUNING
) -> LineTable:
    """The lines of entries in the range of a pattern."""
    first, last = database.line_start[entries], database.line_start[entries + 1]
    length = last - first
    owner = np.repeat(np.arange(len(entries)), length)
    place = np.arange(len(owner)) + (first - np.concatenate([[0], np.cumsum(length)[:-1]]))[owner]
    s = database.arrays["line_s"][place].astype(float)
    angle = angles(s, measured.wavelength)
    inside = (angle > measured.x[0]) & (angle < measured.x[-1])
    owner, s, angle, place = owner[inside], s[inside], angle[inside], place[inside]
    strength = database.arrays["line_intensity"][place] * polarisation(angle)
    strongest = np.zeros(len(entries))
    np.maximum.at(strongest, owner, strength)
    strength = strength / np.maximum(strongest[owner], 1e-300)
    seen = strength > tuning.faintest
    return LineTable(owner[seen], s[seen], strength[seen], len(entries))


def chosen_lines(table: LineTable, chosen: Places) -> LineTable:
    """The lines of some of the entries, which keep their order in `chosen`."""
    place = np.full(table.entries, -1)
    place[chosen] = np.arange(len(chosen))
    used = place[table.owner] >= 0
    return LineTable(place[table.owner[used]], table.s[used], table.strength[used], len(chosen))


def blurred_gains(
    table: LineTable, measured: Measured, residual: Floats, variance: Floats, tuning: ScreenTuning = SCREEN_TUNING
) -> Floats:
    """The gain in χ² of each entry, with lines blurred by what cells and shifts may differ."""
    comb = _Comb(measured, residual, variance, tuning.blur_strain, tuning.blur_zero)
    return comb.gains(table, 0.0, 0.0)


def sharp_gains(
    table: LineTable, measured: Measured, residual: Floats, variance: Floats, zero: float | None = None,
    tuning: ScreenTuning = SCREEN_TUNING,
) -> Matches:  # fmt: skip
    """The best gain in χ² of each entry over strains and zero shifts, or with the zero shift if it is known."""
    comb = _Comb(measured, residual, variance, tuning.sharp_strain, tuning.sharp_zero if zero is None else 0.0)
    best = Matches(*(np.zeros(table.entries) for _ in Matches._fields))
    for shift in tuning.zeros if zero is None else (zero,):
        for strain in tuning.strains:
            gain = comb.gains(table, strain, shift)
            better = gain > best.gain
            best.gain[better], best.strain[better], best.zero[better] = gain[better], strain, shift
    return best


class _Comb:
    """Gaussian lines at bins along a pattern, their sums with what is left of it, and their products."""

    def __init__(self, measured: Measured, residual: Floats, variance: Floats, strain: float, zero: float) -> None:
        from scipy import sparse

        self.measured = measured
        x = measured.x
        narrowest = math.hypot(float(gaussian_sigma(np.array(measured.width))), zero)
        self.step = narrowest * FWHM_PER_SIGMA / _BINS_PER_WIDTH
        self.first = float(x[0])
        centre = np.asarray(self.first + self.step * np.arange(int((x[-1] - x[0]) / self.step) + 2), dtype=np.float64)
        self.count = len(centre)
        blur = np.degrees(2 * strain * np.tan(np.radians(centre / 2)))
        sigma = np.sqrt(gaussian_sigma(np.full(len(centre), measured.width)) ** 2 + blur**2 + zero**2)
        rows, columns, values = _lines_on_points(x, centre, sigma)
        if ratio := measured.wavelength_ratio:
            second = _lines_on_points(x, second_wavelength(centre, ratio), sigma)
            rows, columns = (np.concatenate(pair) for pair in zip((rows, columns), second[:2], strict=True))
            values = np.concatenate([values, measured.pattern.ratio * second[2]])
        lines = sparse.csr_matrix((values, (rows, columns)), shape=(self.count, len(x)))
        weighted = lines.multiply(1 / variance).tocsr()
        self.overlap = weighted @ residual  # (bins,)
        self.product = (weighted @ lines.T).tocsr()  # (bins, bins)

    def gains(self, table: LineTable, strain: float, zero: float) -> Floats:
        """N²/D of each entry: N its sum with the residual, D its own product."""
        from scipy import sparse

        angle = angles(table.s * (1 - strain), self.measured.wavelength) + zero
        place = np.rint((angle - self.first) / self.step).astype(int)
        inside = (place >= 0) & (place < self.count)
        owner, place, strength = table.owner[inside], place[inside], table.strength[inside]
        lines = sparse.csr_matrix((strength, (owner, place)), shape=(table.entries, self.count))
        own = np.asarray(lines.multiply(lines @ self.product).sum(axis=1)).ravel()
        both = lines @ self.overlap
        return np.where(both > 0, both**2 / np.maximum(own, 1e-300), 0.0)


def _lines_on_points(x: Floats, centre: Floats, sigma: Floats) -> tuple[Places, Places, Floats]:
    """Gaussian lines of area 1 on the points around them: numbers of lines and of points, and values."""
    first, last = np.searchsorted(x, centre - _REACH * sigma), np.searchsorted(x, centre + _REACH * sigma)
    length = last - first
    line = np.repeat(np.arange(len(centre)), length)
    point = np.arange(len(line)) + (first - np.concatenate([[0], np.cumsum(length)[:-1]]))[line]
    value = np.exp(-0.5 * ((x[point] - centre[line]) / sigma[line]) ** 2) / (sigma[line] * np.sqrt(2 * np.pi))
    return line, point, value


def angles(s: Floats, wavelength: float) -> Floats:
    """2θ in degrees at 1/d in 1/Å; 180 for lines that are not reached."""
    return np.asarray(2 * np.degrees(np.arcsin(np.minimum(s * wavelength / 2, 1.0))))


def polarisation(two_theta: Floats) -> Floats:
    """The Lorentz-polarisation factor of unpolarised radiation without a monochromator, at 2θ in degrees."""
    theta = np.radians(np.clip(two_theta, 0.5, 179.5)) / 2
    return np.asarray((1 + np.cos(2 * theta) ** 2) / (np.sin(theta) ** 2 * np.cos(theta)))
