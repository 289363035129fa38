"""Operations, absences, multiplicities and centricity of the 230 space groups equal gemmi's."""

import itertools
from functools import cache

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.users import python
from vitreous.core.errors import InputError
from vitreous.powder.sim import space_groups
from vitreous.powder.sim.space_groups import SYSTEMS, Reflections, load_table

NUMBERS = range(1, 231)
MOST = (3, 4, 5)  # no symmetry of its own, so that sets reach out of the box


@pytest.fixture(scope="module")
def gemmi():  # type: ignore[no-untyped-def]
    return pytest.importorskip("gemmi")


def box(most: tuple[int, int, int]) -> NDArray[np.int32]:
    hkl = np.array(list(itertools.product(*[range(-m, m + 1) for m in most])), dtype=np.int32)
    return hkl[hkl.any(1)]


def orbit(hkl: NDArray[np.int64], number: int) -> set[tuple[int, ...]]:
    images = (hkl @ space_groups.operations(number)[0]).reshape(-1, 3)
    return set(map(tuple, np.concatenate([images, -images]).tolist()))


@cache
def reflections(number: int, most: tuple[int, int, int]) -> Reflections:
    return space_groups.unique_reflections(*space_groups.operations(number), most)


def rows(result: Reflections) -> NDArray[np.int32]:
    return result.hkl.numpy().astype(np.int32)


@pytest.mark.parametrize("number", NUMBERS)
def test_reflections_equal_those_of_gemmi(number: int, gemmi) -> None:  # type: ignore[no-untyped-def]
    group = gemmi.SpaceGroup(number).operations()
    result = reflections(number, MOST)
    hkl = rows(result)
    assert not group.systematic_absences(hkl).any()
    centric = group.centric_flag_array(hkl)
    assert np.array_equal(result.centric.numpy(), centric)
    images = len(group.sym_ops) // group.epsilon_factor_without_centering_array(hkl)  # a centric set holds its mates
    assert np.array_equal(result.multiplicity.numpy(), np.where(centric, images, 2 * images))


@pytest.mark.parametrize("number", NUMBERS)
def test_each_set_of_equivalents_that_is_not_absent_appears_once(number: int, gemmi) -> None:  # type: ignore[no-untyped-def]
    result = reflections(number, MOST)
    assert (result.hkl.abs() <= torch.tensor(MOST)).all()
    sets = [orbit(hkl, number) for hkl in rows(result)]
    assert [len(each) for each in sets] == result.multiplicity.tolist()
    closure = set().union(*sets)
    assert len(closure) == result.multiplicity.sum()  # no two sets share a reflection
    absent = gemmi.SpaceGroup(number).operations().systematic_absences(box(MOST))
    present = set(map(tuple, box(MOST)[~absent].tolist()))
    assert present <= closure
    assert closure == set().union(*(orbit(np.array(hkl), number) for hkl in present))


@pytest.mark.parametrize("number", NUMBERS)
def test_operations_equal_those_of_gemmi(number: int, gemmi) -> None:  # type: ignore[no-untyped-def]
    group = gemmi.get_spacegroup_reference_setting(number)
    rotations, translations = space_groups.operations(number)
    result = {
        (*r.ravel().tolist(), *np.rint(24 * t).astype(int).tolist())
        for r, t in zip(rotations, translations, strict=True)
    }
    expected = {
        (*(np.array(op.rot) // 24).ravel().tolist(), *(np.array(op.tran) % 24).tolist()) for op in group.operations()
    }
    assert len(result) == len(rotations)
    assert result == expected
    assert space_groups.system_of(number) == group.crystal_system_str()
    assert space_groups.centrosymmetric(number) == group.is_centrosymmetric()


def test_each_of_the_230_groups_belongs_to_one_of_seven_systems() -> None:
    assert [len(space_groups.groups_of_system(system)) for system in SYSTEMS] == [2, 13, 59, 68, 25, 27, 36]
    assert sorted(n for system in SYSTEMS for n in space_groups.groups_of_system(system)) == list(NUMBERS)


def test_silicon_has_its_well_known_lines() -> None:
    result = reflections(227, (4, 4, 4))
    lines = {tuple(sorted(map(abs, hkl))): m for hkl, m in zip(*(x.tolist() for x in result[:2]), strict=True)}
    squares = {sum(i * i for i in hkl): m for hkl, m in lines.items()}
    assert [(n, squares[n]) for n in (3, 8, 11, 16)] == [(3, 8), (8, 12), (11, 24), (16, 6)]
    assert 4 not in squares  # 200
    assert 20 not in squares  # 420: by the d glide


def test_form_factors_are_the_electron_count_in_the_forward_direction() -> None:
    factors = load_table("tables")["form_factors"]
    electrons = factors[:, :4].sum(1) + factors[:, 8]
    assert np.abs(electrons - np.arange(1, 99)).max() < 0.1


def test_space_groups_do_not_need_gemmi() -> None:
    without_gemmi = "import sys; sys.modules['gemmi'] = None; from vitreous.powder.sim import space_groups"
    python(f"{without_gemmi}; space_groups.unique_reflections(*space_groups.operations(225), (2, 2, 2))")


@pytest.mark.parametrize("number", [0, 231, -1])
def test_an_invalid_group_number_is_refused(number: int) -> None:
    with pytest.raises(InputError, match=f"found number {number}, expected 1 to 230"):
        reflections(number, (1, 1, 1))


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(InputError, match="unknown choice 'rhombic'"):
        space_groups.groups_of_system("rhombic")
