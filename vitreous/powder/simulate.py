"""The measured pattern of one crystal: a real one of a CIF, one of a given cell, or a random one."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.errors import InputError
from vitreous.powder.cell import check_cell
from vitreous.powder.files import Pattern, given_radiation
from vitreous.sim import groups, structure
from vitreous.sim.crystals import Lines, random_crystals
from vitreous.sim.powder import CLEAN, Effects, lorentz_polarisation, measure
from vitreous.sim.structure import Cell, Reflected

STEP = 0.02  # degrees between points, where their number is not given
_MOST_POINTS = 200_000
_FALL = 4.0  # Å², a Debye-Waller factor that stands for form factors and vibration where there are no atoms
_FINEST = 2.0  # 1/Å, up to where random crystals have lines
_FAINTEST = 1e-6  # of the strongest line: what is weaker is an absence that the symmetry does not explain


@dataclass(frozen=True)
class Crystal:
    """A crystal to measure: its lines by their indices, and as the simulator wants them."""

    name: str
    cell: Cell
    reflected: Reflected
    lines: Lines


def effects_of(
    given: Mapping[str, Sequence[float]],
    two_theta: tuple[float, float] = (5.0, 90.0),
    points: int | None = None,
    anode: str | None = None,
    wavelength: float | None = None,
    clean: bool = False,
) -> Effects:
    """Effects of a measurement: a laboratory diffractometer's, or none, but for the `given` ones.

    Args:
        given: one value, or the two ends of a range to draw from.
        two_theta: first and last angle, in degrees.
        points: of the pattern; None for steps of 0.02°.
        anode: of the X-ray tube, for Kα1 and Kα2; copper if there is no wavelength either.
        wavelength: in ångström, of one line only.
        clean: leave out every effect that is not given.
    """
    for name, ends in given.items():
        if len(ends) not in (1, 2):
            raise InputError(f"{name}: found {len(ends)} numbers, expected one, or the two ends of a range")
    ranges: dict[str, Any] = {name: (float(ends[0]), float(ends[-1])) for name, ends in given.items()}
    base = CLEAN if clean else Effects()
    beam = given_radiation(wavelength, anode if wavelength is not None or anode else "Cu")
    if wavelength is not None:
        if max(ranges.get("alpha2", (0.0,))) > 0:
            raise InputError("alpha2: a single wavelength has no Kα2; give --anode in its place")
        base = replace(base, wavelength=wavelength, wavelength2=wavelength, alpha2=(0.0, 0.0))
    else:
        assert beam.wavelength is not None
        assert beam.wavelength2 is not None
        base = replace(base, wavelength=beam.wavelength, wavelength2=beam.wavelength2)
    base = replace(base, two_theta=two_theta, start=(0.0, 0.0))
    points = round((two_theta[1] - two_theta[0]) / STEP) if points is None else points
    if points > _MOST_POINTS:
        raise InputError(f"points: found {points}, expected {_MOST_POINTS} at most")
    return replace(base, points=points, **ranges)


def drawn(effects: Effects) -> Effects:
    """One value of each range, so that what a pattern was measured with is known."""
    values: dict[str, Any] = {}
    for name in (field.name for field in fields(effects)):
        ends = getattr(effects, name)
        if not isinstance(ends, tuple) or name == "two_theta":
            continue
        low, high = ends
        if name == "counts" and high > 0:
            value = math.exp(_between(math.log(max(1.0, low)), math.log(max(1.0, high))))
        else:
            value = _between(low, high)
        values[name] = (value, value)
    return replace(effects, **values)


def _between(low: float, high: float) -> float:
    return low if low == high else low + (high - low) * float(torch.rand(()))


def from_cif(path: Path, s_max: float) -> Crystal:
    """The first crystal of a CIF, with its lines up to 1/d = `s_max` (1/Å)."""
    read = structure.read_cif(path)
    operations = structure.symmetry(read.cell, read.operations)
    found = structure.lines(read, s_max)
    return Crystal(path.name, read.cell, found, structure.oriented(found, read.cell, operations))


def from_cell(cell: Sequence[float], number: int, s_max: float, name: str = "cell") -> Crystal:
    """A crystal of this cell and space group, the intensities random by Wilson's statistics.

    |F|² of a general reflection is exponential about its mean, of a centric one the square of a normal number. The
    mean of a special reflection grows as its multiplicity falls, so all lines are equally strong on average.
    """
    check_cell(cell, name)
    a, b, c, alpha, beta, gamma = (float(x) for x in cell)
    known, operations = (a, b, c, alpha, beta, gamma), groups.operations(number)
    if len(structure.symmetry(known, operations)[0]) < len(operations[0]):
        raise InputError(f"{name}: has not the symmetry of space group {number}, which is {groups.system_of(number)}")
    found, s = structure.reflections(name, known, operations, s_max)
    wilson = torch.where(found.centric, torch.randn_like(s).square(), torch.empty_like(s).exponential_())
    reflected = Reflected(found.hkl, s, wilson * torch.exp(-_FALL * s.square() / 2))
    return Crystal(name, known, reflected, structure.oriented(reflected, known, operations))


def from_system(system: str, s_max: float) -> Crystal:
    """A random crystal: its cell and space group are like those of real ones."""
    found = random_crystals(system, 1, min(s_max, 0.2))
    cell = [round(x, 4) for x in found.cell[0].double().tolist()]
    number = int(found.group[0])
    return from_cell(cell, number, s_max, f"random {system}, space group {number}")


def simulate(crystal: Crystal, effects: Effects) -> Pattern:
    """Measure a crystal: counts with their standard errors, or, with no noise, intensities up to 1."""
    lines = crystal.lines
    seen = _angles(crystal.reflected, effects)
    if not bool(((seen > effects.two_theta[0]) & (seen < effects.two_theta[1])).any()):
        low, high = effects.two_theta
        raise InputError(f"{crystal.name}: has no line from {low:g} to {high:g}° at {effects.wavelength:g} Å")
    if effects.impurity[1] > 0:
        lines = _contaminated(crystal, effects)
        effects = replace(effects, impurity=(0.0, 0.0))
    intensity = measure(lines, effects)[0].double().numpy()
    doublet = effects.alpha2[0] if effects.alpha2[0] == effects.alpha2[1] else 0.0
    return Pattern(
        effects.angles().numpy().round(6),
        intensity,
        np.sqrt(np.maximum(intensity, 1.0)) if effects.counts[1] > 0 else None,
        effects.wavelength,
        crystal.name,
        effects.wavelength2 if doublet else None,
        doublet,
    )


def ticks(crystal: Crystal, effects: Effects) -> tuple[NDArray[np.float64], list[tuple[int, ...]], NDArray[np.float64]]:
    """Where the lines of a crystal belong, 2θ in degrees, with their indices and how strong they are."""
    angle, found = _angles(crystal.reflected, effects), crystal.reflected
    strength = found.intensity * lorentz_polarisation(angle)
    low, high = effects.two_theta
    inside = (angle >= low) & (angle <= high)
    inside &= strength > _FAINTEST * (strength[inside].max() if inside.any() else 0)
    hkl = [tuple(int(index) for index in row) for row in found.hkl[inside].tolist()]
    return angle[inside].numpy(), hkl, strength[inside].numpy()


def _angles(found: Reflected, effects: Effects) -> Tensor:
    return torch.rad2deg(2 * torch.arcsin((found.s * effects.wavelength / 2).clamp(max=1)))


def _contaminated(crystal: Crystal, effects: Effects) -> Lines:
    """The crystal with the lines of a random other one, weaker: an impurity phase."""
    system = groups.SYSTEMS[int(torch.randint(len(groups.SYSTEMS), ()))]
    own, other = crystal.lines, random_crystals(system, 1, min(effects.s_max, _FINEST)).lines
    share = effects.impurity[1] * float(crystal.reflected.intensity.max() / other.intensity.max())
    return Lines(
        torch.cat([own.s, other.s]),
        torch.cat([own.intensity, share * other.intensity]),
        torch.cat([own.owner, other.owner]),
        torch.cat([own.tilt, other.tilt]),
        own.directions,
        1,
    )
