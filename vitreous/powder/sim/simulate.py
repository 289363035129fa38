"""Simulate the measured pattern of one crystal: from a CIF, from a cell, or random."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vitreous.core.errors import InputError
from vitreous.powder.bragg import two_theta_from_s
from vitreous.powder.cell import check_cell
from vitreous.powder.figures.pattern import Ticks
from vitreous.powder.pattern import Pattern
from vitreous.powder.radiation import radiation_from_user
from vitreous.powder.sim import space_groups, structure
from vitreous.powder.sim.crystals import Lines, random_crystals
from vitreous.powder.sim.effects import CLEAN, EFFECT_LIMITS, Effects
from vitreous.powder.sim.measurement import lorentz_polarisation, measure
from vitreous.powder.sim.structure import Cell, StructureLines
from vitreous.powder.sim.structure_files import read_cif

_STEP = 0.02  # degrees between points by default
_MAX_POINTS = 200_000
_FALL_OFF = 4.0  # Å², a Debye-Waller factor that replaces form factors and vibration of unknown atoms
_MAX_RANDOM_S = 2.0  # 1/Å, limit of random crystals
_FAINTEST = 1e-6  # of the strongest line: weaker ones are absences that the symmetry does not explain


@dataclass(frozen=True)
class Crystal:
    """A crystal to measure: its unique lines, and all lines in the form that `measure` takes."""

    name: str
    cell: Cell
    unique_lines: StructureLines
    lines: Lines


def choose_effects(
    ranges: Mapping[str, Sequence[float]],
    two_theta: tuple[float, float] = (5.0, 90.0),
    points: int | None = None,
    anode: str | None = None,
    wavelength: float | None = None,
    clean: bool = False,
) -> Effects:
    """Effects of a laboratory diffractometer, or of none if `clean`, with some replaced.

    Args:
        ranges: one value, or the two ends of a range, for each effect to replace.
        two_theta: first and last angle, in degrees.
        points: of the pattern; by default in steps of 0.02°.
        anode: of the X-ray tube, for Kα1 and Kα2; copper by default.
        wavelength: of monochromatic radiation in ångström, instead of an anode.
    """
    for name, ends in ranges.items():
        if len(ends) not in (1, 2):
            raise InputError(f"{name}: found {len(ends)} numbers, expected one, or the two ends of a range")
    changes: dict[str, Any] = {name: (float(ends[0]), float(ends[-1])) for name, ends in ranges.items()}
    radiation = radiation_from_user(wavelength, anode if wavelength is not None or anode else "Cu")
    lines: dict[str, Any] = {"wavelength": radiation.wavelength, "wavelength2": radiation.wavelength2}
    if wavelength is not None:
        if max(changes.get("alpha2", (0.0,))) > 0:
            raise InputError("alpha2: a single wavelength has no Kα2; use --anode instead")
        lines |= {"wavelength2": wavelength, "alpha2": (0.0, 0.0)}
    base = replace(CLEAN if clean else Effects(), two_theta=two_theta, start=(0.0, 0.0), **lines)
    points = round((two_theta[1] - two_theta[0]) / _STEP) if points is None else points
    if points > _MAX_POINTS:
        raise InputError(f"points: found {points}, expected {_MAX_POINTS} at most")
    return replace(base, points=points, **changes)


def draw_effects(effects: Effects) -> Effects:
    """Effects with one random value of each range."""
    values: dict[str, Any] = {}
    for name in EFFECT_LIMITS:
        low, high = getattr(effects, name)
        if name == "counts" and high > 0:
            value = math.exp(_draw_between(math.log(max(1.0, low)), math.log(max(1.0, high))))
        else:
            value = _draw_between(low, high)
        values[name] = (value, value)
    return replace(effects, **values)


def _draw_between(low: float, high: float) -> float:
    return low if low == high else low + (high - low) * float(torch.rand(()))


def crystal_from_cif(path: Path, s_max: float) -> Crystal:
    """The first crystal of a CIF, with its lines up to 1/d = `s_max` (1/Å)."""
    crystal = read_cif(path)
    operations = structure.cell_symmetry(crystal.cell, crystal.operations)
    lines = structure.structure_lines(crystal, s_max)
    return Crystal(path.name, crystal.cell, lines, structure.split_equivalents(lines, crystal.cell, operations))


def crystal_from_cell(cell: Sequence[float], number: int, s_max: float, name: str = "cell") -> Crystal:
    """A crystal with a cell and a space group, and random intensities with the statistics of `random_crystals`."""
    check_cell(cell, name)
    a, b, c, alpha, beta, gamma = (float(x) for x in cell)
    parameters, operations = (a, b, c, alpha, beta, gamma), space_groups.operations(number)
    if len(structure.cell_symmetry(parameters, operations)[0]) < len(operations[0]):
        system = space_groups.system_of(number)
        raise InputError(f"{name}: does not have the symmetry of space group {number}, which is {system}")
    unique, s = structure.cell_reflections(name, parameters, operations, s_max)
    wilson = torch.where(unique.centric, torch.randn_like(s).square(), torch.empty_like(s).exponential_())
    lines = StructureLines(unique.hkl, s, wilson * torch.exp(-_FALL_OFF * s.square() / 2))
    return Crystal(name, parameters, lines, structure.split_equivalents(lines, parameters, operations))


def random_crystal(system: str, s_max: float) -> Crystal:
    """A random crystal with a realistic cell and space group."""
    crystals = random_crystals(system, 1, min(s_max, 0.2))
    cell = [round(x, 4) for x in crystals.cell[0].double().tolist()]
    number = int(crystals.group[0])
    return crystal_from_cell(cell, number, s_max, f"random {system}, space group {number}")


def simulate_pattern(crystal: Crystal, effects: Effects) -> Pattern:
    """The measured pattern of a crystal: counts with standard errors or, without noise, intensities up to 1."""
    lines = crystal.lines
    low, high = effects.two_theta
    angle = two_theta_from_s(crystal.unique_lines.s, effects.wavelength)
    if not bool(((angle > low) & (angle < high)).any()):
        raise InputError(f"{crystal.name}: has no line from {low:g} to {high:g}° at {effects.wavelength:g} Å")
    if effects.impurity[1] > 0:
        lines = _with_impurity(crystal, effects)
        effects = replace(effects, impurity=(0.0, 0.0))
    intensity = measure(lines, effects)[0].double().numpy()
    ratio = effects.alpha2[0] if effects.alpha2[0] == effects.alpha2[1] else 0.0
    sigma = np.sqrt(np.maximum(intensity, 1.0)) if effects.counts[1] > 0 else None
    second = effects.wavelength2 if ratio else None
    angles = effects.angles().numpy().round(6)
    return Pattern(angles, intensity, sigma, effects.wavelength, crystal.name, second, ratio)


def reflection_ticks(crystal: Crystal, effects: Effects) -> Ticks:
    """Ideal 2θ of the lines of a crystal in degrees, their indices and their intensities."""
    lines = crystal.unique_lines
    angle = two_theta_from_s(lines.s, effects.wavelength)
    strength = lines.intensity * lorentz_polarisation(angle)
    low, high = effects.two_theta
    inside = (angle >= low) & (angle <= high)
    inside &= strength > _FAINTEST * (strength[inside].max() if inside.any() else 0)
    hkl = [tuple(int(index) for index in row) for row in lines.hkl[inside].tolist()]
    return Ticks(angle[inside].numpy(), hkl, strength[inside].numpy())


def _with_impurity(crystal: Crystal, effects: Effects) -> Lines:
    """The lines of the crystal and, weaker, those of a random other one."""
    system = space_groups.SYSTEMS[int(torch.randint(len(space_groups.SYSTEMS), ()))]
    other = random_crystals(system, 1, min(effects.s_max, _MAX_RANDOM_S)).lines
    share = effects.impurity[1] * float(crystal.unique_lines.intensity.max() / other.intensity.max())
    return crystal.lines.joined(other.s, share * other.intensity, other.owner, other.tilt)
