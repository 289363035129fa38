"""Simulate the measured pattern of a mixture of crystals with known mass fractions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from vitreous.core.errors import InputError
from vitreous.powder.identify.contents import cell_mass, count_atoms, formula_text
from vitreous.powder.identify.dispersion import copper_lines, scattering_ratio
from vitreous.powder.identify.entry import B_ISO
from vitreous.powder.pattern import Pattern
from vitreous.powder.sim.crystals import Lines
from vitreous.powder.sim.effects import Effects
from vitreous.powder.sim.measurement import measure
from vitreous.powder.sim.simulate import choose_effects, draw_effects
from vitreous.powder.sim.structure import Structure, cell_symmetry, expand, metric, split_equivalents
from vitreous.powder.sim.structure_files import read_cif


def simulate_mixture(
    fractions: Mapping[Path, float] | Mapping[str, float], effects: Effects | None = None, seed: int = 0,
    name: str = "mixture",
) -> Pattern:  # fmt: skip
    """The pattern of a mixture of the crystals of CIFs, without microabsorption.

    Args:
        fractions: mass of each crystal, by its CIF; in any unit.
        effects: of the measurement; those of a laboratory diffractometer with copper radiation by default.
        seed: of all random numbers.
        name: of the pattern.
    """
    masses = list(fractions.values())
    if not masses or min(masses) < 0 or not sum(masses) > 0:
        raise InputError(f"fractions: found {masses}, expected masses of crystals")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        effects = draw_effects(choose_effects({}) if effects is None else effects)
        structures = [read_cif(path, b_iso=B_ISO) for path in fractions]
        intensity = measure(mixed_lines(structures, masses, effects), effects)[0].double().numpy()
    counted = effects.counts[1] > 0
    sigma = np.sqrt(np.maximum(intensity, 1.0)) if counted else None
    ratio = effects.alpha2[0]
    second = effects.wavelength2 if ratio else None
    angles = effects.angles().numpy().round(6)
    return Pattern(angles, intensity, sigma, effects.wavelength, name, second, ratio)


def mixed_lines(structures: Sequence[Structure], masses: Sequence[float], effects: Effects) -> Lines:
    """The lines of all crystals as those of one, for `measure`: each intensity times mass over Z·M·V."""
    parts = []
    for structure, mass in zip(structures, masses, strict=True):
        counts = count_atoms(expand(structure))
        volume = float(np.sqrt(np.linalg.det(metric(structure.cell))))
        weight = mass / (cell_mass(counts, None) * volume)
        weight *= scattering_ratio(formula_text(counts), effects.wavelength)
        unique = copper_lines(structure, effects.s_max)
        lines = split_equivalents(unique, structure.cell, cell_symmetry(structure.cell, structure.operations))
        parts.append(replace(lines, intensity=lines.intensity * weight))
    mixed, *others = parts
    for each in others:
        mixed = mixed.joined(each.s, each.intensity, each.owner, each.tilt)
    return mixed
