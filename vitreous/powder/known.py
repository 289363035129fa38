"""What a user knows before the search: volume, zero shift, and the angles that count."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.bravais import bravais_options
from vitreous.powder.cell import volumes
from vitreous.powder.pattern import MIN_POINTS, Floats, Pattern
from vitreous.powder.solution import Solution
from vitreous.powder.tuning import SearchTuning

_HALF_WIDTH = 0.15  # degrees to either side of a single excluded angle
_FIXED_ZERO = 0.003  # degrees: standard deviation of a zero shift that is known
_VOLUME_SLACK = 0.02  # relative
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
    """

    volume: Range | None = None
    two_theta: Range | None = None
    exclude: tuple[Range, ...] = ()
    zero: float | None = None

    def __post_init__(self) -> None:
        ranges = (("volume", self.volume), ("two_theta", self.two_theta), *(("exclude", each) for each in self.exclude))
        for name, limits in ranges:
            if limits is not None and not 0 <= limits[0] < limits[1] < np.inf:
                raise InputError(f"{name}: found {limits[0]:g} to {limits[1]:g}, expected an ascending range above 0")
        if self.zero is not None and not abs(self.zero) < 5:
            raise InputError(f"zero: found {self.zero:g}, expected less than 5°")

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
        used = self.uses(pattern.two_theta)
        if used.sum() < MIN_POINTS:
            raise InputError(f"{pattern.name}: found {used.sum()} points in the chosen ranges, expected {MIN_POINTS}")
        sigma = None if pattern.sigma is None else pattern.sigma[used]
        angles = self.corrected(pattern.two_theta[used])
        return replace(pattern, two_theta=angles, intensity=pattern.intensity[used], sigma=sigma)

    def narrow(self, tuning: SearchTuning) -> SearchTuning:
        """The constants of a search among what is known."""
        if self.zero is not None:
            efforts = tuple(replace(effort, zero_shifts=(0.0,)) for effort in tuning.efforts)
            fixed = ((_FIXED_ZERO, 1.0),)
            errors, quick = (replace(model, zero=fixed) for model in (tuning.errors, tuning.quick_errors))
            tuning = replace(tuning, efforts=efforts, errors=errors, quick_errors=quick, usual_zero=_FIXED_ZERO)
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
