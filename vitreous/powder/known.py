"""What a user knows before the search: cell or volume, density, formula, a standard, zero shift, angles that count."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.bravais import bravais_options
from vitreous.powder.cell import check_cell, volumes
from vitreous.powder.formula import parse_formula
from vitreous.powder.formula_units import FormulaUnits
from vitreous.powder.pattern import MIN_POINTS, Floats, Pattern
from vitreous.powder.solution import Solution
from vitreous.powder.standards import check_standard
from vitreous.powder.tuning import SearchTuning

_HALF_WIDTH = 0.15  # degrees to either side of a single excluded angle
_FIXED_ZERO = 0.003  # degrees: standard deviation of a zero shift that is known
_CALIBRATED_ZERO = 0.01  # degrees: the same after a calibration with a standard
_VOLUME_SLACK = 0.02  # relative
_CELL_CONTENTS = (0.25, 1 / 3, 0.5, 1.0, 2.0, 3.0, 4.0)  # volumes of cells of one lattice, relative
_CENTRED = 4.0  # largest ratio of the volumes of conventional and primitive cells
_SYMMETRY_STRAIN = 3e-3  # relative: symmetries by which a lattice may be described

Range = tuple[float, float]


@dataclass(frozen=True)
class Known:
    """What is known; each field narrows the search.

    Args:
        volume: smallest and largest volume of the conventional or the primitive cell, Å³.
        two_theta: first and last angle to use, degrees.
        exclude: ranges of 2θ to leave out, degrees: lines of the sample holder, of a known impurity.
        zero: zero shift of the diffractometer in degrees; the angles are corrected by it, and none is fitted.
        standard: Si, LaB6, Al2O3, CeO2 or a CIF of a standard in the sample: its lines calibrate the angles and are
            left out.
        cell: a, b, c (Å), α, β, γ (°) of a cell that is refined and judged; no other one is searched.
        density: g/cm³, with a formula.
        formula: chemical formula, e.g. Na2S2O3·5H2O: cells with a possible number of formula units are more probable.
    """

    volume: Range | None = None
    two_theta: Range | None = None
    exclude: tuple[Range, ...] = ()
    zero: float | None = None
    standard: str | None = None
    cell: tuple[float, ...] | None = None
    density: float | None = None
    formula: str | None = None

    def __post_init__(self) -> None:
        ranges = (("volume", self.volume), ("two_theta", self.two_theta), *(("exclude", each) for each in self.exclude))
        for name, limits in ranges:
            if limits is not None and not 0 <= limits[0] < limits[1] < np.inf:
                raise InputError(f"{name}: found {limits[0]:g} to {limits[1]:g}, expected an ascending range above 0")
        if self.zero is not None and not abs(self.zero) < 5:
            raise InputError(f"zero: found {self.zero:g}, expected less than 5°")
        if self.standard is not None:
            check_standard(self.standard)
            if self.zero is not None:
                raise InputError("found both zero and standard, which states the zero shift; expected one of them")
        self._check_volumes()

    def _check_volumes(self) -> None:
        """Raise `InputError` if cell, volume, density and formula contradict each other."""
        if self.density is not None and self.formula is None:
            raise InputError(f"density: found {self.density:g} g/cm³ alone, expected a formula with it")
        units = self.formula_units
        if self.volume is not None and units is not None:
            units.check_volume(*self.volume, _VOLUME_SLACK)
        if self.cell is None:
            return
        check_cell(self.cell)
        own = float(volumes([self.cell])[0])
        if self.volume is not None:
            low, high = self.volume
            possible = [own * factor for factor in _CELL_CONTENTS]  # the cell may be primitive or conventional
            if not any(low * (1 - _VOLUME_SLACK) <= volume <= high * (1 + _VOLUME_SLACK) for volume in possible):
                raise InputError(f"cell: found a volume of {own:.1f} Å³, expected {low:g} to {high:g} as volume states")

    @property
    def formula_units(self) -> FormulaUnits | None:
        """The volume of a formula unit, if the formula is known."""
        return None if self.formula is None else FormulaUnits(parse_formula(self.formula), self.density)

    def log_prior(self, primitive_volume: float) -> float:
        """The logarithm of how well a volume of a primitive cell in Å³ agrees with density and formula; 0 at best."""
        units = self.formula_units
        return 0.0 if units is None else units.log_prior(primitive_volume)

    def units_in(self, volume: float) -> float | None:
        """The number of formula units in a volume in Å³, not rounded; None if the formula is not known."""
        units = self.formula_units
        return None if units is None else units.count(volume)

    def to_dict(self) -> dict[str, Any]:
        """What is known as JSON values."""
        return {part.name: value for part in fields(self) if (value := getattr(self, part.name)) not in (None, ())}

    @property
    def words(self) -> str:
        """What is known as words of a command; empty if it is nothing."""
        texts = {name: [value] if isinstance(value, str) else np.ravel(value) for name, value in self.to_dict().items()}
        if self.exclude:
            texts["exclude"] = [f"{low:g}-{high:g}" for low, high in self.exclude]
        flags = ((f"--{name.replace('_', '-')}", *map(str, values)) for name, values in texts.items())
        return "".join(f" {shlex.join(flag)}" for flag in flags)

    def uses(self, two_theta: Floats) -> np.ndarray:
        """Which angles count, `(n,)`."""
        low, high = self.two_theta or (-np.inf, np.inf)
        used = (two_theta >= low) & (two_theta <= high)
        for first, last in self.exclude:
            used &= (two_theta < first) | (two_theta > last)
        return used

    def corrected(self, two_theta: Floats) -> Floats:
        """Angles without the known zero shift."""
        return two_theta - (self.zero or 0.0)

    def select(self, pattern: Pattern) -> Pattern:
        """The pattern at the angles that count, without the known zero shift."""
        if self == NOTHING_KNOWN:
            return pattern
        used = self.uses(pattern.two_theta) & (self.corrected(pattern.two_theta) >= 0)
        if used.sum() < MIN_POINTS:
            raise InputError(f"{pattern.name}: found {used.sum()} points in the chosen ranges, expected {MIN_POINTS}")
        chosen = pattern.part(used)
        return replace(chosen, two_theta=self.corrected(chosen.two_theta))

    def narrow(self, tuning: SearchTuning) -> SearchTuning:
        """The constants of a search among what is known."""
        if self.zero is not None or self.standard is not None:
            tuning = with_small_zero(tuning, _FIXED_ZERO if self.zero is not None else _CALIBRATED_ZERO)
        if self.volume is not None:
            low, high = self.volume
            smallest, largest = tuning.volume
            tuning = replace(tuning, volume=(max(smallest, 0.9 * low / _CENTRED), min(largest, 1.1 * _CENTRED * high)))
        return tuning

    def filter(self, solutions: Sequence[Solution]) -> list[Solution]:
        """The solutions with a possible volume, in some symmetry that their lattice nearly has."""
        if self.volume is None:
            return list(solutions)
        return [solution for solution in solutions if self._may_have_volume(solution)]

    def _may_have_volume(self, solution: Solution) -> bool:
        assert self.volume is not None
        low, high = self.volume[0] * (1 - _VOLUME_SLACK), self.volume[1] * (1 + _VOLUME_SLACK)
        options = bravais_options(np.array(solution.cell), _SYMMETRY_STRAIN)
        possible = volumes(np.array([solution.cell, *(option.conventional for option in options)]))
        return bool(((possible >= low) & (possible <= high)).any())


NOTHING_KNOWN = Known()


def with_small_zero(tuning: SearchTuning, spread: float) -> SearchTuning:
    """The constants of a search of lines with a zero shift of this standard deviation, in degrees."""
    efforts = tuple(replace(effort, zero_shifts=(0.0,)) for effort in tuning.efforts)
    errors, quick = (replace(model, zero=((spread, 1.0),)) for model in (tuning.errors, tuning.quick_errors))
    return replace(tuning, efforts=efforts, errors=errors, quick_errors=quick, usual_zero=spread)


def parse_ranges(words: Sequence[str]) -> tuple[Range, ...]:
    """Ranges of angles from words such as `26.5` and `33.1-33.4`; a single angle stands for the line around it."""
    ranges = []
    for word in words:
        try:
            numbers = [float(part) for part in word.split("-")]
        except ValueError:
            numbers = []
        if len(numbers) == 1:
            ranges.append((max(0.0, numbers[0] - _HALF_WIDTH), numbers[0] + _HALF_WIDTH))
        elif len(numbers) == 2:
            ranges.append((numbers[0], numbers[1]))
        else:
            raise InputError(f"exclude: found {word!r}, expected degrees such as 26.5 or 33.1-33.4")
    return tuple(ranges)
