"""Chemical formulas are read as chemists write them; cells with a whole number of formula units are more probable."""

import math

import pytest

from vitreous.core.errors import InputError
from vitreous.powder.formula import parse_formula
from vitreous.powder.formula_units import FormulaUnits

pytest.importorskip("gemmi")


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("NaCl", {"Na": 1, "Cl": 1}),
        ("Na2S2O3·5H2O", {"Na": 2, "S": 2, "O": 8, "H": 10}),
        ("Na2S2O3*5H2O", {"Na": 2, "S": 2, "O": 8, "H": 10}),
        ("Na₂S₂O₃·5H₂O", {"Na": 2, "S": 2, "O": 8, "H": 10}),
        ("CuSO4.5H2O", {"Cu": 1, "S": 1, "O": 9, "H": 10}),
        ("CaSO4·0.5H2O", {"Ca": 1, "S": 1, "O": 4.5, "H": 1}),
        ("CaSO4.0.5H2O", {"Ca": 1, "S": 1, "O": 4.5, "H": 1}),
        ("Ca(OH)2", {"Ca": 1, "O": 2, "H": 2}),
        ("K4[Fe(CN)6]", {"K": 4, "Fe": 1, "C": 6, "N": 6}),
        ("Mg0.9Fe0.1O", {"Mg": 0.9, "Fe": 0.1, "O": 1}),
        ("(Fe2.001 Si.999) O4", {"Fe": 2.001, "Si": 0.999, "O": 4}),
        ("2CaO·SiO2", {"Ca": 2, "Si": 1, "O": 4}),
        ("CoCO3", {"Co": 1, "C": 1, "O": 3}),
    ],
)
def test_a_formula_states_the_numbers_of_atoms(text: str, counts: dict[str, float]) -> None:
    assert dict(parse_formula(text).counts) == pytest.approx(counts)


@pytest.mark.parametrize(
    "text",
    ["", "  ", "na2", "2", "·", "Na2S2O3·", "(Na", "Na)", "()", "Na(2)", "Na22.3.4", "Na-Cl", "NaCl+", "O" * 300,
     "Na1e9", "Na999999999", "H0", "5", "((((", "Ca()2", "Na2 3O"],
)  # fmt: skip
def test_what_is_no_formula_is_an_error_of_one_line(text: str) -> None:
    with pytest.raises(InputError) as error:
        parse_formula(text)
    assert str(error.value).startswith("formula: found ")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 350


def test_an_unknown_element_is_named() -> None:
    with pytest.raises(InputError, match="formula: found 'Xx' in 'XxO2', expected symbols of elements"):
        parse_formula("XxO2")


def test_masses_are_those_of_the_elements() -> None:
    assert parse_formula("Na2S2O3·5H2O").mass == pytest.approx(248.18, abs=0.02)
    assert parse_formula("C6H12O6").mass == pytest.approx(180.16, abs=0.01)


def test_a_cell_holds_whole_atoms() -> None:
    assert parse_formula("SiO2").least_share == 1
    assert parse_formula("Si2O4").least_share == 0.5
    assert parse_formula("C6H12O6").least_share == pytest.approx(1 / 6)
    assert parse_formula("Mg0.9Fe0.1O").least_share == 0.5


@pytest.mark.parametrize(
    ("formula", "density", "volume", "units"),
    [
        ("NaCl", 2.163, 5.6402**3, 4),
        ("SiO2", 2.648, 113.0, 3),
        ("Na2S2O3·5H2O", 1.745, 940.5, 4),
        ("C12H22O11", 1.586, 715.0, 2),
    ],
)
def test_density_and_formula_give_the_number_of_formula_units(
    formula: str, density: float, volume: float, units: int
) -> None:
    assert FormulaUnits(parse_formula(formula), density).count(volume) == pytest.approx(units, rel=0.01)


@pytest.mark.parametrize(
    ("formula", "volume", "units"), [("C12H22O11", 715.0, 2), ("C8H9NO2", 776.0, 4), ("C6H6", 485.0, 4)]
)  # sucrose, paracetamol, benzene
def test_the_volume_of_an_organic_crystal_follows_from_its_formula(formula: str, volume: float, units: int) -> None:
    assert FormulaUnits(parse_formula(formula)).count(volume) == pytest.approx(units, rel=0.15)


def test_volumes_of_a_whole_number_of_units_are_more_probable_but_none_is_impossible() -> None:
    units = FormulaUnits(parse_formula("NaCl"), 2.163)
    one = units.volume
    assert [units.log_prior(z * one) for z in (1, 2, 3, 8)] == pytest.approx([0] * 4)
    assert units.log_prior(0.5 * one) < units.log_prior(0.9 * one) < -1
    assert units.log_prior(1.4 * one) < -1
    for factor in (0.01, 0.3, 1.5, 7.3, 1000.5):
        assert math.log(0.05) - 1e-9 <= units.log_prior(factor * one) <= 0


def test_a_large_cell_always_has_a_whole_number_within_the_error_of_the_density() -> None:
    units = FormulaUnits(parse_formula("NaCl"), 2.163)
    assert min(units.log_prior(z * units.volume) for z in (30.0, 30.25, 30.5)) > -0.2


@pytest.mark.parametrize("density", [0.0, -1.0, 31.0, float("nan"), float("inf")])
def test_an_impossible_density_is_an_error(density: float) -> None:
    with pytest.raises(InputError, match=r"density: found .*, expected g/cm³, above 0 and below 30"):
        FormulaUnits(parse_formula("NaCl"), density)
