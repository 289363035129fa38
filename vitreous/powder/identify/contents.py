"""The atoms in a unit cell: their numbers, mass, chemical formula, and elements as bits of an array."""

import math
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.powder.formula import Formula, parse_formula
from vitreous.powder.sim.structure import Structure, atomic_numbers

ELEMENT_WORDS = 4  # of 32 bits
_WHOLE = 0.02  # of an atom: how far a number of atoms in the cell may be from a whole one


def count_atoms(atoms: Structure) -> dict[str, float]:
    """Atoms of each element in the cell, of a structure that lists all atoms of its cell; deuterium is hydrogen."""
    counts: dict[str, float] = {}
    for element, occupancy in zip(atoms.elements, atoms.occupancy.tolist(), strict=True):
        counts[element] = counts.get(element, 0.0) + occupancy
    return counts


def formula_text(counts: Mapping[str, float]) -> str:
    """The formula of the atoms in a cell: carbon and hydrogen first, then by the alphabet.

    >>> formula_text({"Ti": 2.0, "O": 4.0}), formula_text({"Fe": 3.8, "O": 4.0})
    ('O2Ti', 'Fe3.8O4')
    """
    are_whole = all(abs(count - round(count)) < _WHOLE and round(count) > 0 for count in counts.values())
    unit = math.gcd(*(round(count) for count in counts.values())) if are_whole else 1
    numbers = {symbol: round(count / unit, 0 if are_whole else 3) for symbol, count in counts.items()}
    first = [symbol for symbol in ("C", "H") if symbol in numbers and "C" in numbers]
    order = [*first, *sorted(numbers.keys() - first)]
    return "".join(symbol + (f"{numbers[symbol]:g}" if numbers[symbol] != 1 else "") for symbol in order)


def read_formula(text: str) -> Formula | None:
    """The formula that a text states; None if it states none."""
    try:
        return parse_formula(text)
    except InputError:
        return None


def cell_mass(counts: Mapping[str, float], formula: Formula | None) -> float:
    """Mass of the atoms in the cell, g/mol.

    Structures often lack their hydrogen. What the formula has of it, relative to the other atoms, is added.
    """
    mass = sum(count * _weight(symbol) for symbol, count in counts.items())
    hydrogen, heavy = _split(counts)
    if formula is None:
        return mass
    stated_hydrogen, stated_heavy = _split(_without_deuterium(formula))
    if not stated_heavy or not heavy:
        return mass
    return mass + max(0.0, stated_hydrogen * heavy / stated_heavy - hydrogen)


def all_elements(counts: Mapping[str, float], formula: Formula | None) -> frozenset[str]:
    """The elements of the atoms and of the formula, which also has those that a structure lacks."""
    stated = _without_deuterium(formula) if formula is not None else {}
    return frozenset(symbol for symbol in (*counts, *stated) if symbol in atomic_numbers())


def element_bits(sets: Iterable[Collection[str]]) -> NDArray[np.uint32]:
    """Sets of elements as bits `(n, 4)`: bit z - 1 is the element of the atomic number z."""
    rows = []
    for elements in sets:
        bits = sum(1 << (atomic_numbers()[symbol] - 1) for symbol in elements)
        rows.append([bits >> 32 * word & 0xFFFFFFFF for word in range(ELEMENT_WORDS)])
    return np.array(rows, dtype=np.uint32).reshape(-1, ELEMENT_WORDS)


def elements_of_bits(bits: NDArray[np.uint32]) -> frozenset[str]:
    """The elements of one row of `element_bits`."""
    symbols = list(atomic_numbers())
    number = sum(int(word) << 32 * place for place, word in enumerate(bits))
    return frozenset(symbol for place, symbol in enumerate(symbols) if number >> place & 1)


def _split(counts: Mapping[str, float]) -> tuple[float, float]:
    """Masses of the hydrogen and of the other atoms."""
    hydrogen = counts.get("H", 0.0) * _weight("H")
    return hydrogen, sum(count * _weight(symbol) for symbol, count in counts.items()) - hydrogen


def _without_deuterium(formula: Formula) -> dict[str, float]:
    counts = dict(formula.counts)
    if heavy := counts.pop("D", 0.0):
        counts["H"] = counts.get("H", 0.0) + heavy
    return counts


@lru_cache(maxsize=256)
def _weight(symbol: str) -> float:
    return float(load_extra("gemmi", "powder").Element(symbol).weight)
