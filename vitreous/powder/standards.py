"""Standards for the angles of a pattern: powders with certified cells that are mixed with a sample.

Cells at 22.5 °C by the certificates of the National Institute of Standards and Technology (NIST): SRM 640f (silicon),
660c (lanthanum hexaboride), 676a (corundum) and 674b (ceria).
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from vitreous.core.errors import InputError
from vitreous.powder.bragg import s_from_two_theta, two_theta_from_s
from vitreous.powder.pattern import Floats
from vitreous.powder.sim.measurement import lorentz_polarisation
from vitreous.powder.sim.space_groups import operations
from vitreous.powder.sim.structure import Cell, Structure, structure_lines
from vitreous.powder.sim.structure_files import read_cif

_CIF = (".cif", ".cif.gz")
_SAME_ANGLE = 0.01  # degrees: nearer reflections are one line
_FAINTEST = 1e-3  # of the strongest line in the range
_B = 0.5  # Å², displacement parameter of atoms for which none is known


class StandardLines(NamedTuple):
    """Lines of a standard by ascending angle, arrays `(n,)`."""

    two_theta: Floats  # degrees, of an ideal diffractometer
    intensity: Floats  # areas relative to the strongest line


class _Atom(NamedTuple):
    element: str
    position: tuple[float, float, float]
    b_iso: float  # Å²


def _cubic(a: float) -> Cell:
    return a, a, a, 90.0, 90.0, 90.0


_CERTIFIED: dict[str, tuple[Cell, int, tuple[_Atom, ...]]] = {  # cell, number of the space group, atoms
    "Si": (_cubic(5.431144), 227, (_Atom("Si", (0.125, 0.125, 0.125), 0.47),)),
    "LaB6": (_cubic(4.156826), 221, (_Atom("La", (0, 0, 0), 0.4), _Atom("B", (0.1993, 0.5, 0.5), 0.3))),
    "Al2O3": (
        (4.759091, 4.759091, 12.991779, 90.0, 90.0, 120.0), 167,
        (_Atom("Al", (0, 0, 0.3522), 0.3), _Atom("O", (0.3064, 0, 0.25), 0.35)),
    ),
    "CeO2": (_cubic(5.411651), 225, (_Atom("Ce", (0, 0, 0), 0.26), _Atom("O", (0.25, 0.25, 0.25), 0.45))),
}  # fmt: skip

STANDARDS = tuple(_CERTIFIED)
"""Names of the standards with a certified cell."""


def check_standard(standard: str) -> None:
    """Raise `InputError` unless a standard is one of `STANDARDS` or the name of a CIF."""
    if standard not in _CERTIFIED and not standard.lower().endswith(_CIF):
        raise InputError(f"standard: found {standard!r}, expected {', '.join(STANDARDS)} or a CIF")


def standard_lines(standard: str, wavelength: float, limits: tuple[float, float]) -> StandardLines:
    """The visible lines of a standard (see `STANDARDS`) or of the structure in a CIF, in a range of 2θ in degrees.

    Intensities are those of the structure; the wavelength is in ångström.
    """
    structure = standard_structure(standard)
    end = min(179.0, float(limits[1]))
    lines = structure_lines(structure, s_from_two_theta(end, wavelength))
    angle = two_theta_from_s(lines.s, wavelength)
    inside = (angle >= max(limits[0], 0.5)) & (angle <= end)
    area = (lines.intensity * lorentz_polarisation(angle))[inside].numpy()
    return _merged(angle[inside].numpy(), area)


def standard_structure(standard: str) -> Structure:
    """The structure of one of `STANDARDS`, or that of a CIF."""
    check_standard(standard)
    if standard not in _CERTIFIED:
        return read_cif(Path(standard), _B)
    cell, number, atoms = _CERTIFIED[standard]
    elements, positions, b_iso = zip(*atoms, strict=True)
    columns = np.array(positions, dtype=np.float64), np.ones(len(atoms)), np.array(b_iso)
    return Structure(standard, cell, operations(number), elements, *columns, number)


def _merged(angle: Floats, area: Floats) -> StandardLines:
    """Reflections that coincide as one line, without those that nobody sees."""
    seen = area > _FAINTEST * area.max(initial=0.0)
    angle, area = angle[seen], area[seen]
    line = np.cumsum(np.diff(angle, prepend=-np.inf) > _SAME_ANGLE) - 1
    total = np.bincount(line, area)
    mean = np.bincount(line, area * angle) / np.where(total > 0, total, 1.0)
    return StandardLines(mean, total / total.max(initial=1e-300))
