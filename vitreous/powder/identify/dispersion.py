"""Anomalous dispersion: near an absorption edge, atoms scatter less than their electrons would.

The intensities of a database are those of copper radiation, of which most laboratory patterns are. What a phase
scatters at another wavelength follows from its formula, on average over its lines.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from vitreous.core.extras import load_extra
from vitreous.powder.identify.contents import read_formula
from vitreous.powder.radiation import CU_KALPHA1
from vitreous.powder.sim.structure import Structure, StructureLines, atomic_numbers, form_factors, structure_lines

_ENERGY = 12398.42  # eV · Å
_LARGEST_WAVELENGTH = 5.0  # Å: no table of dispersion reaches beyond
_SAME = 0.01  # relative difference of wavelengths that does not matter


def copper_lines(structure: Structure, s_max: float) -> StructureLines:
    """The lines of a structure with the dispersion of Cu Kα, on average over Friedel pairs."""

    def real(elements: Sequence[str], s: Tensor) -> Tensor:
        change = [_dispersion(atomic_numbers()[element], CU_KALPHA1)[0] for element in elements]
        return form_factors(elements, s) + torch.tensor(change, dtype=s.dtype)

    def imaginary(elements: Sequence[str], s: Tensor) -> Tensor:
        change = [_dispersion(atomic_numbers()[element], CU_KALPHA1)[1] for element in elements]
        return torch.tensor(change, dtype=s.dtype).expand(len(s), -1)

    lines = structure_lines(structure, s_max, real)
    return lines._replace(intensity=lines.intensity + structure_lines(structure, s_max, imaginary).intensity)


@lru_cache(maxsize=4096)
def scattering_ratio(formula: str, wavelength: float) -> float:
    """What the atoms of a formula scatter at a wavelength (Å), relative to copper radiation; 1 without a formula.

    The ratio of Σ n ((Z + f')² + f''²) at the two wavelengths.
    """
    found = read_formula(formula)
    if found is None or wavelength > _LARGEST_WAVELENGTH or abs(wavelength / CU_KALPHA1 - 1) < _SAME:
        return 1.0
    sums = [0.0, 0.0]
    for symbol, count in found.counts:
        number = atomic_numbers().get("H" if symbol == "D" else symbol)
        if number is not None:
            for place, each in enumerate((wavelength, CU_KALPHA1)):
                change, imaginary = _dispersion(number, each)
                sums[place] += count * ((number + change) ** 2 + imaginary**2)
    return sums[0] / sums[1] if sums[1] else 1.0


@lru_cache(maxsize=1024)
def _dispersion(number: int, wavelength: float) -> tuple[float, float]:
    """f' and f'' of an element in electrons."""
    gemmi = load_extra("gemmi", "powder")
    real, imaginary = gemmi.cromer_liberman(z=number, energy=_ENERGY / wavelength)
    return float(real), float(imaginary)
