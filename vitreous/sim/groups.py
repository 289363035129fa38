"""The 230 space groups: their operations, and which reflections a powder pattern of each can show.

Reads the tables that `tools/make_tables.py` wrote; needs no crystallographic package.
A reflection is a row `h`, an operation `x -> R x + t`; its equivalents are `h R` and, by Friedel's law, `-h R`.
"""

from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.errors import InputError, check_choice

SYSTEMS = ("triclinic", "monoclinic", "orthorhombic", "tetragonal", "trigonal", "hexagonal", "cubic")
_CENTRINGS = {  # vectors in 1/24 beside (0, 0, 0)
    (): "P", ((0, 12, 12),): "A", ((12, 12, 0),): "C", ((12, 12, 12),): "I",
    ((0, 12, 12), (12, 0, 12), (12, 12, 0)): "F", ((16, 8, 8), (8, 16, 16)): "R",
}  # fmt: skip
_WHOLE = 1e-3  # how near an integer h·t must be; translations are 1/24ths, or decimals of a file
_CHUNK = 1 << 22  # images of reflections held at once


class Reflections(NamedTuple):
    """One reflection of each set of equivalents.

    `multiplicity` counts the set with its Friedel mates; `centric` tells the sets whose phase is restricted.
    """

    hkl: Tensor  # (M, 3) int16
    multiplicity: Tensor  # (M,) int16
    centric: Tensor  # (M,) bool


@lru_cache(maxsize=1)
def tables() -> dict[str, NDArray[Any]]:
    """The arrays of `tables.npz`, as `tools/make_tables.py` describes them."""
    with files("vitreous.sim").joinpath("tables.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def _check_number(number: int) -> None:
    if not 1 <= number <= 230:
        raise InputError(f"space group: found number {number}, expected 1 to 230")


def system_of(number: int) -> str:
    """The crystal system of a space group; R groups are trigonal."""
    _check_number(number)
    return SYSTEMS[tables()["systems"][number - 1]]


def numbers(system: str) -> tuple[int, ...]:
    """The space groups of a crystal system."""
    check_choice("system", system, SYSTEMS)
    return tuple((np.flatnonzero(tables()["systems"] == SYSTEMS.index(system)) + 1).tolist())


def centrosymmetric(number: int) -> bool:
    """Whether the group has an inversion."""
    _check_number(number)
    return bool(tables()["centrosymmetric"][number - 1])


def centring(number: int) -> str:
    """The letter of a group's lattice: P, A, C, I, F, or R in its obverse setting."""
    return _CENTRINGS[tuple(map(tuple, _centring_vectors(number)[1:].tolist()))]


def _centring_vectors(number: int) -> NDArray[np.int64]:
    """`(n, 3)` in 1/24, the first (0, 0, 0)."""
    _check_number(number)
    table = tables()
    found: NDArray[np.int64] = table["centrings"][slice(*table["centring_starts"][number - 1 : number + 1])].astype(
        np.int64
    )
    return found


def operations(number: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rotations `(n, 3, 3)` and translations `(n, 3)`, fractions of the cell in [0, 1), copies by centring included."""
    centrings, table = _centring_vectors(number), tables()
    rows = slice(*table["starts"][number - 1 : number + 1])
    rotations = np.tile(table["rotations"][rows].astype(np.int64), (len(centrings), 1, 1))
    translations = centrings[:, None] + table["translations"][rows]  # (centrings, n, 3) in 1/24
    return rotations, translations.reshape(-1, 3) % 24 / 24


@lru_cache(maxsize=1024)
def reflections(number: int, most: tuple[int, int, int]) -> Reflections:
    """The reflections of a group with |h|, |k|, |l| up to `most`: every set with a member there that is not absent."""
    return distinct(*operations(number), most)


def distinct(
    rotations: NDArray[np.int64],
    translations: NDArray[np.float64],
    most: tuple[int, int, int],
    device: torch.device | str = "cpu",
) -> Reflections:
    """`reflections` for the operations `(n, 3, 3)` and `(n, 3)` of any setting, centring included."""
    hkl = _half_box(most, device)
    centring = torch.as_tensor(translations[(rotations == np.eye(3)).all((1, 2))], dtype=torch.float64, device=device)
    hkl = hkl[_whole(hkl @ centring.T).all(1)]
    point, first = np.unique(rotations, axis=0, return_index=True)  # one operation of each rotation will do now
    shifts = torch.as_tensor(translations[first], dtype=torch.float64, device=device)
    sign = [next(r for r in rotation.ravel() if r) for rotation in point]
    laue = np.unique(point * np.array(sign)[:, None, None], axis=0)  # rotations up to their sign
    chosen, alike = [], []
    for part in hkl.split(max(1, _CHUNK // len(laue))):
        keep, same = _first_of_each(part, torch.as_tensor(laue, dtype=torch.float64, device=device), most)
        chosen.append(part[keep])
        alike.append(same[keep])
    hkl, same = torch.cat(chosen), torch.cat(alike)
    images = torch.einsum("mi,nij->nmj", hkl, torch.as_tensor(point, dtype=torch.float64, device=device))
    shown = ~((images == hkl).all(2).T & ~_whole(hkl @ shifts.T)).any(1)
    centric = (images == -hkl).all(2).any(0)
    multiplicity = 2 * len(laue) // same
    return Reflections(hkl[shown].short(), multiplicity[shown].short(), centric[shown])


def absent(hkl: Tensor, number: int) -> Tensor:
    """Whether the symmetry of a group extinguishes reflections `(n, 3)` float64: h R = h and h·t is not whole."""
    rotations, translations = (torch.as_tensor(part, dtype=torch.float64) for part in operations(number))
    found = torch.zeros(len(hkl), dtype=torch.bool)
    for rotation, translation in zip(rotations, translations, strict=True):
        found |= (hkl @ rotation == hkl).all(1) & ~_whole(hkl @ translation)
    return found


def _half_box(most: tuple[int, int, int], device: torch.device | str) -> Tensor:
    """`(M, 3)` float64: the box without the origin, of ±h only the one whose first index other than 0 is positive."""
    axes = [torch.arange(-m, m + 1, dtype=torch.float64, device=device) for m in most]
    box = torch.cartesian_prod(axes[0][most[0] :], *axes[1:])
    return box[most[1] * len(axes[2]) + most[2] + 1 :]  # of h = 0, what comes before (0, 0, 0) are mates


def _first_of_each(hkl: Tensor, laue: Tensor, most: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """Which rows are the highest of their set inside the box, and how many rotations map each to ± itself."""
    base = 4 * max(most) + 3  # above twice the largest index of an image, so that a number stands for one reflection
    place = torch.tensor([base**2, base, 1], dtype=torch.float64, device=hkl.device)
    images = hkl @ laue.permute(1, 0, 2).reshape(3, -1)  # (M, 3) -> (M, n * 3)
    images = images.unflatten(1, (-1, 3))
    rank = (images @ place).abs()  # (M, n): -h has the rank of h
    own = (hkl @ place).abs()[:, None]
    inside = (images.abs() <= torch.tensor(most, dtype=torch.float64, device=hkl.device)).all(2)
    return ((rank <= own) | ~inside).all(1), (rank == own).sum(1)


def _whole(x: Tensor) -> Tensor:
    return (x - x.round()).abs() < _WHOLE
