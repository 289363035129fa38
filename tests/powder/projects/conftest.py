"""Solutions of the example patterns, refined from their published cells."""

from dataclasses import replace
from typing import NamedTuple

import pytest

from vitreous.powder import Pattern, Solution
from vitreous.powder.cell import volumes
from vitreous.powder.example import example
from vitreous.powder.refinement.refine import refinement
from vitreous.powder.symmetry import rank_symbols


class Refined(NamedTuple):
    """A solution with its fit, and the pattern."""

    solution: Solution
    pattern: Pattern


def refine_example(name: str, cell: tuple[float, ...], system: str) -> Refined:
    pattern = example(name)
    assert pattern.wavelength is not None
    result = refinement(
        pattern.two_theta, pattern.intensity, cell, wavelength=pattern.wavelength, wavelength2=pattern.wavelength2,
        ratio=pattern.ratio, sigma=pattern.sigma, system=system, most=120,
    )  # fmt: skip
    solution = Solution(
        cell=cell, conventional=cell, system=system, centring="P", volume=float(volumes([cell])[0]), m20=30.0, f20=50.0,
        indexed=20, lines=20, zero=result.fit.zero, evidence=100.0, probability=0.99, wavelength=pattern.wavelength,
        fit=result.fit, symbols=tuple(rank_symbols(result, system, "P")),
    )  # fmt: skip
    return Refined(solution, pattern)


def without_range(refined: Refined, low: float, high: float) -> Refined:
    """The same with a fit that does not use a range of 2θ (degrees)."""
    fit = refined.solution.fit
    assert fit is not None
    keep = (fit.two_theta < low) | (fit.two_theta > high)
    curves = {name: getattr(fit, name)[keep] for name in ("two_theta", "observed", "background", "sigma")}
    return refined._replace(solution=replace(refined.solution, fit=replace(fit, **curves)))


@pytest.fixture(scope="session")
def thiosulfate() -> Refined:
    """Monoclinic, one wavelength, intensities of an unknown unit."""
    return refine_example("thiosulfate", (5.9501, 21.6, 7.5349, 90.0, 103.785, 90.0), "monoclinic")


@pytest.fixture(scope="session")
def triclinic() -> Refined:
    """Triclinic, Kα1 and Kα2, counts."""
    return refine_example("triclinic", (5.5818, 7.1262, 8.9047, 97.513, 102.227, 108.961), "triclinic")
