"""Extinction symbols: their space groups and absences are those of the International Tables, as gemmi has them."""

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from vitreous.powder.extinction_symbols import ExtinctionSymbol, extinction_symbols
from vitreous.powder.lattice_prior import BRAVAIS_LATTICES

BOX = np.array(list(itertools.product(range(-6, 7), repeat=3)))

every_lattice = pytest.mark.parametrize("lattice", BRAVAIS_LATTICES)


def symbols_of(lattice: str) -> tuple[ExtinctionSymbol, ...]:
    return extinction_symbols(*lattice.split())


def symbol_named(name: str, system: str) -> ExtinctionSymbol:
    return next(each for each in extinction_symbols(system, name[0]) if each.symbol == name)


def allowed(lattice: str, gemmi: Any) -> NDArray[np.bool_]:
    """The reflections of the box that the centring of a lattice does not make absent."""
    centring = {"P": "P 1", "C": "C 1", "I": "I 1", "F": "F 1", "R": "R 3"}[lattice[-1]]
    return ~np.asarray(gemmi.SpaceGroup(centring).operations().systematic_absences(BOX.astype(np.int32)))


@every_lattice
def test_every_lattice_has_symbols(lattice: str) -> None:
    assert symbols_of(lattice)


@every_lattice
def test_the_first_symbol_of_a_lattice_has_no_absences_beyond_its_centring(lattice: str, gemmi: Any) -> None:
    assert np.array_equal(~symbols_of(lattice)[0].absent(BOX), allowed(lattice, gemmi))


@every_lattice
def test_the_shares_of_the_groups_of_a_symbol_sum_to_one(lattice: str) -> None:
    for symbol in symbols_of(lattice):
        assert sum(group.share for group in symbol.groups) == pytest.approx(1)


@every_lattice
def test_the_likeliest_group_of_a_symbol_is_the_first(lattice: str) -> None:
    for symbol in symbols_of(lattice):
        shares = [group.share for group in symbol.groups]
        assert shares == sorted(shares, reverse=True)


@every_lattice
def test_every_symbol_has_a_chance(lattice: str) -> None:
    assert all(symbol.frequency > 0 for symbol in symbols_of(lattice))


@every_lattice
def test_the_absences_of_every_group_are_those_of_gemmi(lattice: str, gemmi: Any) -> None:
    for symbol in symbols_of(lattice):
        absent = symbol.absent(BOX)
        for group in symbol.groups:
            expected = gemmi.SpaceGroup(group.name).operations().systematic_absences(BOX.astype(np.int32))
            assert np.array_equal(absent, expected), (symbol.symbol, group.name)


@every_lattice
def test_the_name_of_every_group_is_one_of_its_number(lattice: str, gemmi: Any) -> None:
    for symbol in symbols_of(lattice):
        for group in symbol.groups:
            assert gemmi.SpaceGroup(group.name).number == group.number


@every_lattice
def test_the_symbols_of_a_lattice_have_distinct_absences(lattice: str) -> None:
    symbols = symbols_of(lattice)
    assert len({symbol.absent(BOX).tobytes() for symbol in symbols}) == len(symbols)


@every_lattice
def test_the_symbols_of_a_lattice_have_distinct_names(lattice: str) -> None:
    names = [symbol.symbol for symbol in symbols_of(lattice)]
    assert len(set(names)) == len(names)


@every_lattice
def test_a_setting_of_a_group_belongs_to_one_symbol(lattice: str) -> None:
    names = [group.name for symbol in symbols_of(lattice) for group in symbol.groups]
    assert len(set(names)) == len(names)


def test_every_space_group_has_a_symbol() -> None:
    numbers = {group.number for lattice in BRAVAIS_LATTICES for each in symbols_of(lattice) for group in each.groups}
    assert numbers == set(range(1, 231))


def test_a_screw_axis_makes_odd_orders_absent() -> None:
    h, k, el = BOX.T
    expected = (h == 0) & (el == 0) & (k % 2 == 1)
    assert np.array_equal(symbol_named("P 1 21 1", "monoclinic").absent(BOX), expected)


def test_a_glide_plane_makes_reflections_of_its_zone_absent() -> None:
    h, k, el = BOX.T
    expected = (k == 0) & (el % 2 == 1)
    assert np.array_equal(symbol_named("P 1 c 1", "monoclinic").absent(BOX), expected)
    assert np.array_equal(symbol_named("P 1 a 1", "monoclinic").absent(BOX), (k == 0) & (h % 2 == 1))


def test_p21_c_is_the_only_group_of_its_symbol() -> None:
    (group,) = symbol_named("P 1 21/c 1", "monoclinic").groups
    assert group.number == 14


def test_hexagonal_and_trigonal_lattices_share_their_symbols() -> None:
    assert extinction_symbols("trigonal", "P") == extinction_symbols("hexagonal", "P")
