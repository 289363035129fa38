"""The 230 space groups: symmetry operations and unique reflections, from tables and without other packages.

An operation is `x -> R x + t`. The equivalents of a reflection `h`, a row, are `h R` and, by Friedel's law, `-h R`.
"""

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.core.errors import InputError, check_choice

SYSTEMS = ("triclinic", "monoclinic", "orthorhombic", "tetragonal", "trigonal", "hexagonal", "cubic")
_CENTRINGS = {  # centring vectors in 1/24, without (0, 0, 0)
    (): "P", ((0, 12, 12),): "A", ((12, 12, 0),): "C", ((12, 12, 12),): "I",
    ((0, 12, 12), (12, 0, 12), (12, 12, 0)): "F", ((16, 8, 8), (8, 16, 16)): "R",
}  # fmt: skip
_WHOLE = 1e-3  # tolerance of an integer h·t: translations are multiples of 1/24 or decimals of a file
_CHUNK = 1 << 22  # images of reflections in memory at once


class Reflections(NamedTuple):
    """One reflection of each set of equivalents.

    `multiplicity` is the size of the set with its Friedel mates; `centric` marks sets with restricted phases.
    """

    hkl: Tensor  # (M, 3) int16
    multiplicity: Tensor  # (M,) int16
    centric: Tensor  # (M,) bool


@lru_cache(maxsize=2)
def load_table(name: str) -> dict[str, NDArray[Any]]:
    """The arrays of a data file: `tables`, space groups and form factors, or `prior`, statistics of real cells.

    Written by `tools/make_tables.py` and `tools/make_prior.py`.
    """
    path = files("vitreous.powder.sim").joinpath(f"{name}.npz")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def _check_number(number: int) -> None:
    if not 1 <= number <= 230:
        raise InputError(f"space group: found number {number}, expected 1 to 230")


def system_of(number: int) -> str:
    """The crystal system of a space group; R groups are trigonal."""
    _check_number(number)
    return SYSTEMS[load_table("tables")["systems"][number - 1]]


def groups_of_system(system: str) -> tuple[int, ...]:
    """Numbers of the space groups of a crystal system."""
    check_choice("system", system, SYSTEMS)
    return tuple((np.flatnonzero(load_table("tables")["systems"] == SYSTEMS.index(system)) + 1).tolist())


def centrosymmetric(number: int) -> bool:
    """Whether a group has an inversion centre."""
    _check_number(number)
    return bool(load_table("tables")["centrosymmetric"][number - 1])


def centring(number: int) -> str:
    """The lattice letter of a group: P, A, C, I, F, or R (obverse setting)."""
    return _CENTRINGS[tuple(map(tuple, _centring_vectors(number)[1:].tolist()))]


def _centring_vectors(number: int) -> NDArray[np.int64]:
    """`(n, 3)` in 1/24, the first (0, 0, 0)."""
    _check_number(number)
    table = load_table("tables")
    rows = slice(*table["centring_starts"][number - 1 : number + 1])
    return np.asarray(table["centrings"][rows].astype(np.int64))


def centring_vectors(number: int) -> NDArray[np.float64]:
    """Translations `(n, 3)` of the lattice in fractions of the cell, the first (0, 0, 0)."""
    return _centring_vectors(number) / 24


def operations(number: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rotations `(n, 3, 3)` and translations `(n, 3)`, fractions of the cell in [0, 1), including centring."""
    centrings, table = _centring_vectors(number), load_table("tables")
    rows = slice(*table["starts"][number - 1 : number + 1])
    rotations = np.tile(table["rotations"][rows].astype(np.int64), (len(centrings), 1, 1))
    translations = centrings[:, None] + table["translations"][rows]  # (centrings, n, 3) in 1/24
    return rotations, translations.reshape(-1, 3) % 24 / 24


def unique_reflections(
    rotations: NDArray[np.int64], translations: NDArray[np.float64], most: Sequence[int], chunk: int = _CHUNK
) -> Reflections:
    """Unique reflections: every set that is not absent and has a member with |h|, |k|, |l| up to `most`.

    The operations `(n, 3, 3)` and `(n, 3)` include centring; `chunk` limits the memory.
    """
    axes = [torch.arange(-m, m + 1, dtype=torch.float64) for m in most]
    hkl = torch.cartesian_prod(axes[0][most[0] :], *axes[1:])  # (M, 3)
    hkl = hkl[most[1] * len(axes[2]) + most[2] + 1 :]  # those up to (0, 0, 0) are Friedel mates
    centring = torch.as_tensor(translations[(rotations == np.eye(3)).all((1, 2))], dtype=torch.float64)
    hkl = hkl[_whole(hkl @ centring.T).all(1)]
    point, first = np.unique(rotations, axis=0, return_index=True)  # one operation of each rotation is enough now
    shifts = torch.as_tensor(translations[first], dtype=torch.float64)
    sign = [next(r for r in rotation.ravel() if r) for rotation in point]
    laue = np.unique(point * np.array(sign)[:, None, None], axis=0)  # rotations up to sign
    chosen, alike = [], []
    for part in hkl.split(max(1, chunk // len(laue))):
        keep, same = _first_of_each(part, torch.as_tensor(laue, dtype=torch.float64), most)
        chosen.append(part[keep])
        alike.append(same[keep])
    hkl, same = torch.cat(chosen), torch.cat(alike)
    images = torch.einsum("mi,nij->nmj", hkl, torch.as_tensor(point, dtype=torch.float64))
    shown = ~((images == hkl).all(2).T & ~_whole(hkl @ shifts.T)).any(1)
    centric = (images == -hkl).all(2).any(0)
    multiplicity = 2 * len(laue) // same
    return Reflections(hkl[shown].short(), multiplicity[shown].short(), centric[shown])


def are_absent(hkl: Tensor, number: int) -> Tensor:
    """Whether reflections `(n, 3)` float64 are systematically absent: h R = h and h·t is not an integer."""
    rotations, translations = (torch.as_tensor(part, dtype=torch.float64) for part in operations(number))
    absent = torch.zeros(len(hkl), dtype=torch.bool)
    for rotation, translation in zip(rotations, translations, strict=True):
        absent |= (hkl @ rotation == hkl).all(1) & ~_whole(hkl @ translation)
    return absent


def _first_of_each(hkl: Tensor, laue: Tensor, most: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Whether rows are the highest of their set inside the box, and how many rotations map each to ± itself."""
    base = 4 * max(most) + 3  # above twice the largest index of an image: each reflection has its own number
    place = torch.tensor([base**2, base, 1], dtype=torch.float64)
    images = (hkl @ laue.permute(1, 0, 2).reshape(3, -1)).unflatten(1, (-1, 3))  # (M, 3) -> (M, n, 3)
    rank = (images @ place).abs()  # (M, n): -h has the rank of h
    own = (hkl @ place).abs()[:, None]
    inside = (images.abs() <= torch.tensor(most, dtype=torch.float64)).all(2)
    return ((rank <= own) | ~inside).all(1), (rank == own).sum(1)


def _whole(x: Tensor) -> Tensor:
    return (x - x.round()).abs() < _WHOLE
