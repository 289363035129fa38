"""Chemical formulas: counts of the elements, mass, and the volume that the atoms usually take in crystals."""

import math
import re
from dataclasses import dataclass
from functools import lru_cache

from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra

_LONGEST = 200  # characters
_MOST_ATOMS = 1e5  # in a formula unit
_ORDINARY = str.maketrans("₀₁₂₃₄₅₆₇₈₉•*∙⋅[]{}", "0123456789····()()")
_WATER = re.compile(r"([A-Za-z)]\d*)\.(?=\d*\.?\d*H2O$)")  # the dot of a hydrate: CuSO4.5H2O
_DOT = re.compile(r"(?<!\d)\.(?!\d)")  # any other dot that is no decimal point
_BROKEN = re.compile(r"[\d.]\s+[\d.]")  # a space within a number
_TOKEN = re.compile(r"[A-Z][a-z]?|[()·]|\d+\.?\d*|\.\d+")
_WHOLE = 1e-6

# Average volumes of atoms in organic and metal-organic crystals at 298 K, Å³: Hofmann, Acta Cryst. B58 (2002) 489.
_VOLUMES = {
    "H": 5.08, "D": 5.08, "Li": 22.6, "Be": 36.0, "B": 13.24, "C": 13.87, "N": 11.8, "O": 11.39, "F": 11.17, "Na": 26.0,
    "Mg": 36.0, "Al": 39.6, "Si": 37.3, "P": 29.5, "S": 25.2, "Cl": 25.8, "K": 36.0, "Ca": 45.0, "Sc": 42.0,
    "Ti": 27.3, "V": 24.0, "Cr": 28.1, "Mn": 31.9, "Fe": 30.4, "Co": 29.4, "Ni": 26.0, "Cu": 26.9, "Zn": 39.0,
    "Ga": 37.8, "Ge": 41.6, "As": 36.4, "Se": 30.3, "Br": 32.7, "Rb": 42.0, "Sr": 47.0, "Y": 44.0, "Zr": 27.0,
    "Nb": 37.0, "Mo": 38.0, "Ru": 37.3, "Rh": 31.2, "Pd": 35.0, "Ag": 35.0, "Cd": 51.0, "In": 55.0, "Sn": 52.8,
    "Sb": 48.0, "Te": 46.7, "I": 46.2, "Cs": 46.0, "Ba": 66.0, "La": 58.0, "Ce": 54.0, "Pr": 57.0, "Nd": 50.0,
    "Sm": 50.0, "Eu": 53.0, "Gd": 56.0, "Tb": 45.0, "Dy": 50.0, "Ho": 42.0, "Er": 54.0, "Tm": 49.0, "Yb": 59.0,
    "Lu": 35.0, "Hf": 40.0, "Ta": 43.0, "W": 38.8, "Re": 42.7, "Os": 41.9, "Ir": 34.3, "Pt": 38.0, "Au": 43.0,
    "Hg": 38.0, "Tl": 54.0, "Pb": 52.0, "Bi": 60.0,
}  # fmt: skip
_ORGANIC = frozenset(("H", "D", "B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Br", "I"))
_OTHER_VOLUME = 40.0  # Å³, of elements that are not listed


@dataclass(frozen=True)
class Formula:
    """A chemical formula, as `parse_formula` reads it: symbols of elements with their numbers of atoms."""

    text: str
    counts: tuple[tuple[str, float], ...]

    @property
    def mass(self) -> float:
        """Molar mass in g/mol."""
        element = load_extra("gemmi", "powder").Element
        return float(sum(count * element(symbol).weight for symbol, count in self.counts))

    @property
    def volume(self) -> float:
        """The sum of Hofmann's volumes of the atoms, which are those of organic crystals, in Å³."""
        return sum(count * _VOLUMES.get(symbol, _OTHER_VOLUME) for symbol, count in self.counts)

    @property
    def hydrogen(self) -> float:
        """The share of hydrogen among the atoms."""
        counts = dict(self.counts)
        return (counts.get("H", 0.0) + counts.get("D", 0.0)) / sum(counts.values())

    @property
    def is_organic(self) -> bool:
        """Whether there are carbon and hydrogen, and no elements that molecules rarely hold."""
        elements = {symbol for symbol, _ in self.counts}
        return "C" in elements and self.hydrogen > 0 and elements <= _ORGANIC

    @property
    def least_share(self) -> float:
        """The smallest part of the formula unit that a primitive cell can hold: all atoms in it must be whole.

        Half a unit for a formula with broken numbers, which is that of a solid solution.
        """
        numbers = [count for _, count in self.counts]
        if any(abs(number - round(number)) > _WHOLE for number in numbers):
            return 0.5
        return 1 / math.gcd(*(round(number) for number in numbers))


@lru_cache(maxsize=64)
def parse_formula(text: str) -> Formula:
    """The formula that a text such as `Na2S2O3·5H2O`, `Ca(OH)2` or `Mg0.9Fe0.1O` states.

    A hydrate may also be written with `*` or a full stop: `CuSO4.5H2O` has five waters, not O4.5.
    """
    plain = "".join(text.split()).translate(_ORDINARY)
    plain = _DOT.sub("·", _WATER.sub(r"\1·", plain))
    is_short = len(plain) <= _LONGEST and not _BROKEN.search(text)
    tokens = _TOKEN.findall(plain) if is_short else []
    if not tokens or "".join(tokens) != plain:
        raise _invalid(text)
    counts: dict[str, float] = {}
    part: list[str] = []
    for token in [*tokens, "·"]:
        if token != "·":
            part.append(token)
            continue
        for symbol, count in _part_counts(text, part).items():
            counts[symbol] = counts.get(symbol, 0.0) + count
        part = []
    if not 0 < sum(counts.values()) <= _MOST_ATOMS:
        raise _invalid(text)
    return Formula(text, tuple(sorted(counts.items())))


def _part_counts(text: str, tokens: list[str]) -> dict[str, float]:
    """Atoms of one part of a formula, with its factor in front: those of each open bracket are on a stack."""
    factor = 1.0
    if tokens and tokens[0][0] in ".0123456789":
        factor, tokens = float(tokens[0]), tokens[1:]
    if not tokens:
        raise _invalid(text)
    stack: list[dict[str, float]] = [{}]
    last: dict[str, float] = {}  # what a number after it multiplies
    for token in tokens:
        if token[0] in ".0123456789":
            if not last:
                raise _invalid(text)
            _add(stack[-1], last, float(token) - 1)
            last = {}
        elif token == "(":
            stack.append({})
            last = {}
        elif token == ")":
            last = stack.pop()
            if not stack or not last:
                raise _invalid(text)
            _add(stack[-1], last, 1.0)
        else:
            last = {_symbol(text, token): 1.0}
            _add(stack[-1], last, 1.0)
    if len(stack) > 1:
        raise _invalid(text)
    return {symbol: factor * count for symbol, count in stack[0].items() if count > 0}


def _add(counts: dict[str, float], more: dict[str, float], times: float) -> None:
    for symbol, count in more.items():
        counts[symbol] = counts.get(symbol, 0.0) + times * count


def _symbol(text: str, symbol: str) -> str:
    if not 0 < load_extra("gemmi", "powder").Element(symbol).atomic_number <= 103:
        raise InputError(f"formula: found {symbol!r} in {text[:_LONGEST]!r}, expected symbols of elements")
    return symbol


def _invalid(text: str) -> InputError:
    return InputError(f"formula: found {text[:_LONGEST]!r}, expected one such as Na2S2O3·5H2O or Ca(OH)2")
