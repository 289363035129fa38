"""How often crystals have a lattice: the prior density of its Bravais lattice and of the volume of its primitive cell.

Seven tenths follow 16,811 inorganic crystals (`tools/make_prior.py`), three tenths the well-known statistics of organic
ones, with larger cells: triclinic, primitive monoclinic and primitive orthorhombic lattices above all.
"""

import math
from functools import lru_cache

import numpy as np

from vitreous.powder.sim.space_groups import load_table

BRAVAIS_LATTICES = (
    "triclinic P", "monoclinic P", "monoclinic C", "orthorhombic P", "orthorhombic C", "orthorhombic F",
    "orthorhombic I", "tetragonal P", "tetragonal I", "hexagonal P", "hexagonal R", "cubic P", "cubic F", "cubic I",
)  # fmt: skip
LOG_VOLUMES = np.linspace(math.log(5.0), math.log(20_000.0), 48)
"""Logarithms of volumes of primitive cells in Å³, of the columns of the table."""

_ORGANIC_SHARE = 0.3
_ORGANIC_LATTICES = {"triclinic P": 0.24, "monoclinic P": 0.44, "monoclinic C": 0.09, "orthorhombic P": 0.16}
_ORGANIC_REST = 0.007  # of each other lattice
_ORGANIC_VOLUME, _ORGANIC_SPREAD = math.log(1100.0), 0.8  # Å³, and standard deviation of the logarithm
_TYPICAL = 0.02  # density that counts as 1, so that the prior of an ordinary lattice changes no evidence
_RAREST = 1e-4


def bravais_name(system: str, centring: str) -> str:
    """The name of a Bravais lattice in `BRAVAIS_LATTICES`; trigonal P is hexagonal, settings A and B are C."""
    lattice = "hexagonal" if system == "trigonal" else system
    return f"{lattice} {'C' if centring in 'AB' else centring}"


def log_prior(system: str, centring: str, volume: float) -> float:
    """The logarithm of the prior density of a lattice, relative to an ordinary one; `volume` is of the primitive cell.

    >>> log_prior("hexagonal", "P", 200.0) > log_prior("orthorhombic", "F", 100.0) + 2
    True
    """
    place = BRAVAIS_LATTICES.index(bravais_name(system, centring))
    density = float(np.interp(math.log(volume), LOG_VOLUMES, _densities()[place]))
    return math.log(max(density, _RAREST) / _TYPICAL)


@lru_cache(maxsize=1)
def _densities() -> np.ndarray:
    """The density `(lattices, volumes)` of Bravais lattices and logarithms of volumes."""
    inorganic = load_table("prior")["bravais_volumes"]
    shares = np.array([_ORGANIC_LATTICES.get(name, _ORGANIC_REST) for name in BRAVAIS_LATTICES])
    bell = np.exp(-0.5 * ((LOG_VOLUMES - _ORGANIC_VOLUME) / _ORGANIC_SPREAD) ** 2)
    organic = shares[:, None] * bell / (_ORGANIC_SPREAD * math.sqrt(2 * math.pi))
    mixed: np.ndarray = (1 - _ORGANIC_SHARE) * inorganic + _ORGANIC_SHARE * organic
    return mixed
