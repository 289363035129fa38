"""TOPAS: keywords and values of the input file, as the Technical Reference and rietx's reader have them."""

import ast
import math
import operator
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.handover import read_topas, refine_elsewhere
from tests.powder.projects.conftest import Refined, without_range
from vitreous.powder.extinction_symbols import extinction_symbols
from vitreous.powder.projects import refinement_start, write_project
from vitreous.powder.projects.thompson_cox_hastings import peak_width
from vitreous.powder.symmetry import RankedSymbol


def write(refined: Refined, folder: Path) -> Path:
    return write_project(refined.solution, folder / "sample.inp", refined.pattern)[0]


def test_it_is_a_pawley_fit_of_the_data_beside_it(thiosulfate: Refined, tmp_path: Path) -> None:
    text = write(thiosulfate, tmp_path).read_text()
    words = [word for line in text.splitlines() if not line.startswith("'") for word in line.split()]
    assert words.count("hkl_Is") == 1
    assert "str" not in words
    assert 'xdd "sample.xye" xye_format' in text
    assert 'space_group "P 1 21/c 1"' in text
    assert (tmp_path / "sample.xye").exists()


def test_the_equations_give_the_widths_of_the_fit(thiosulfate: Refined, tmp_path: Path) -> None:
    text, start = write(thiosulfate, tmp_path).read_text(), refinement_start(*thiosulfate)
    values = {name: float(value) for name, value in re.findall(r"prm !?(\w+) (\S+)", text)}
    two_theta = 15.0
    width, share = peak_width(start.shape, np.array([two_theta]))
    for name, expected in (("pv_fwhm", width[0]), ("pv_lor", share[0])):
        equation = re.search(rf"{name} = (.*);", text)
        assert equation is not None
        found = calculate(equation[1], values | {"Th": math.radians(two_theta / 2)})
        assert found == pytest.approx(expected, rel=1e-5)
    equation = re.search("th2_offset = (.*);", text)
    assert equation is not None
    shift = calculate(equation[1], values | {"Th": 0.0})
    assert shift == pytest.approx(start.shifts.zero + start.shifts.displacement, abs=1e-6)


OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def calculate(equation: str, values: dict[str, float]) -> float:
    """The value of an equation in TOPAS's notation."""
    functions = {"Tan": math.tan, "Cos": math.cos, "Sin": math.sin, "Sqrt": math.sqrt, "Max": max}

    def value(node: ast.expr) -> float:
        match node:
            case ast.BinOp(left, ast.Pow(), right):
                return value(left) ** value(right)
            case ast.BinOp(left, operation, right):
                return OPERATORS[type(operation)](value(left), value(right))
            case ast.Call(ast.Name(name), arguments):
                return functions[name](*map(value, arguments))
            case ast.Name(name):
                return values[name]
        assert isinstance(node, ast.Constant)
        return float(node.value)

    return value(ast.parse(equation.replace("^", "**"), mode="eval").body)


@pytest.mark.parametrize(
    ("system", "centring", "name", "written"),
    [
        ("cubic", "F", "F d -3 m", "Fd-3mS"), ("hexagonal", "R", "R -3 c", "R -3 c:H"),
        ("orthorhombic", "P", "P b a n", "P b a n"), ("tetragonal", "P", "P 4/n c c", "P4/nccS"),
    ],
)  # fmt: skip
def test_space_groups_have_their_names_in_topas(
    system: str, centring: str, name: str, written: str, triclinic: Refined, tmp_path: Path
) -> None:
    lattice = "trigonal" if centring == "R" else system
    group = next(g for symbol in extinction_symbols(lattice, centring) for g in symbol.groups if g.name == name)
    symbols = (RankedSymbol("", (group,), 1.0, 0),)
    solution = replace(triclinic.solution, system=system, centring=centring, symbols=symbols)
    path = write_project(solution, tmp_path / "a.inp")[0]
    assert f'space_group "{written}"' in path.read_text()


def test_a_range_within_the_fit_is_excluded(thiosulfate: Refined, tmp_path: Path) -> None:
    text = write(without_range(thiosulfate, 10, 11), tmp_path).read_text()
    ((low, high),) = re.findall(r"^  exclude (\S+) (\S+)$", text, flags=re.MULTILINE)
    assert (float(low), float(high)) == pytest.approx((10, 11), abs=0.01)


def test_equal_axes_are_one_parameter(triclinic: Refined, tmp_path: Path) -> None:
    solution = triclinic.solution
    assert solution.fit is not None
    fit = replace(solution.fit, cell=(5.0, 5.0, 7.0, 90.0, 90.0, 120.0))
    other = replace(solution, system="hexagonal", symbols=(), fit=fit)
    text = write(Refined(other, triclinic.pattern), tmp_path).read_text()
    cell = re.findall(r"^ {4}(a|b|c|al|be|ga) (.*)$", text, flags=re.MULTILINE)
    assert dict(cell) == {"a": "@ 5.0", "b": "= Get(a);", "c": "@ 7.0", "al": "90.0", "be": "90.0", "ga": "120.0"}


def test_rietx_reads_the_values_of_the_fit(triclinic: Refined, tmp_path: Path) -> None:
    start, model = refinement_start(*triclinic), read_topas(write(triclinic, tmp_path))
    cell, (first, second) = model.structure.phases[0].cell, model.instrument.source.lines
    np.testing.assert_allclose([getattr(cell, name).value for name in ("a", "b", "c")], start.cell[:3], rtol=1e-6)
    assert (first.wavelength.value, second.wavelength.value) == pytest.approx((start.wavelength, start.wavelength2))
    assert second.weight.value == pytest.approx(start.ratio, rel=1e-5)
    assert model.instrument.geometry.axial_sl.value == pytest.approx(start.shape.axial, rel=1e-5)
    assert model.limits == pytest.approx(start.limits)


def test_rietx_refines_from_the_file_to_our_rwp(thiosulfate: Refined, tmp_path: Path) -> None:
    assert thiosulfate.solution.fit is not None
    assert refine_elsewhere(read_topas(write(thiosulfate, tmp_path))) < 1.1 * thiosulfate.solution.fit.rwp
