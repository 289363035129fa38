"""The number Z of formula units in a cell, from density and formula, or from the usual volumes of atoms."""

import math
from dataclasses import dataclass

from vitreous.core.errors import InputError
from vitreous.powder.formula import Formula
from vitreous.powder.tuning import FORMULA_TUNING, FormulaTuning

_AVOGADRO = 0.602214076  # 1e24/mol: g/cm³ times Å³ times this is g/mol
_LARGEST_DENSITY = 30.0  # g/cm³
_MARGIN = 3.0  # errors of the density


@dataclass(frozen=True)
class FormulaUnits:
    """The volume of a formula unit.

    Args:
        formula: of one unit.
        density: g/cm³; None estimates the volume from those of the atoms.
    """

    formula: Formula
    density: float | None = None
    tuning: FormulaTuning = FORMULA_TUNING

    def __post_init__(self) -> None:
        if self.density is not None and not 0 < self.density < _LARGEST_DENSITY:
            raise InputError(f"density: found {self.density:g}, expected g/cm³, above 0 and below {_LARGEST_DENSITY:g}")

    @property
    def volume(self) -> float:
        """Å³."""
        if self.density is not None:
            return self.formula.mass / (_AVOGADRO * self.density)
        if self.formula.is_organic:
            return self.formula.volume
        start, slope = self.tuning.inorganic
        return self.formula.volume * math.exp(start + slope * self.formula.hydrogen)

    @property
    def error(self) -> float:
        """Relative standard error of the volume."""
        if self.density is not None:
            return self.tuning.density_error
        return self.tuning.organic_error if self.formula.is_organic else self.tuning.inorganic_error

    def count(self, volume: float) -> float:
        """Z of a cell of this volume in Å³, as it follows: not rounded."""
        return volume / self.volume

    def log_prior(self, primitive_volume: float) -> float:
        """The logarithm of how well the volume of a primitive cell agrees with a possible Z; 0 for the best."""
        floor = self.tuning.estimate_floor if self.density is None else self.tuning.floor
        miss = self._miss(primitive_volume) / self.error
        return math.log(floor + (1 - floor) * math.exp(-0.5 * miss**2))

    def _miss(self, primitive_volume: float) -> float:
        """Logarithm of a volume over that of the nearest possible Z."""
        least = self.formula.least_share
        steps = self.count(primitive_volume) / least
        return min(abs(math.log(steps / whole)) for whole in (max(1, math.floor(steps)), math.floor(steps) + 1))

    def check_volume(self, low: float, high: float, slack: float) -> None:
        """Raise `InputError` if no cell has both a volume in a range in Å³ and a possible Z."""
        least = self.formula.least_share
        first, last = (self.count(volume) / least for volume in (low * (1 - slack), high * (1 + slack)))
        margin = math.exp(_MARGIN * self.error)
        if math.floor(last * margin) < max(1, math.ceil(first / margin)):
            name = "formula" if self.density is None else "density"
            found = f"found {first * least:.2f} to {last * least:.2f} formula units in {low:g} to {high:g} Å³"
            raise InputError(f"{name}: {found}, which volume states; expected a range with a whole number")
