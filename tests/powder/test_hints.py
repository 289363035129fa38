"""Hints: doublets of another anode are seen, those of the right one are not, and doubts are named."""

from dataclasses import replace

import pytest
import torch

from vitreous.powder.hints import doubts, pattern_hints
from vitreous.powder.pattern import Pattern
from vitreous.powder.radiation import ANODES
from vitreous.powder.sim.effects import Effects
from vitreous.powder.sim.measurement import random_patterns
from vitreous.powder.solution import Solution

SURE = Solution(
    (4.0,) * 3 + (90.0,) * 3, (4.0,) * 3 + (90.0,) * 3, "cubic", "P", 64.0, 50.0, 50.0, 20, 20, 0.0, 60.0, 0.99
)


def copper(said: str, doublet: bool) -> list[Pattern]:
    """Four patterns with copper's doublet, to which a user gives some radiation."""
    first, second = ANODES["Cu"]
    effects = replace(
        Effects(), wavelength=first, wavelength2=second, alpha2=(0.5, 0.5), impurity=(0.0, 0.0), width=(0.06, 0.08),
        two_theta=(5.0, 120.0), points=5750, counts=(1e5, 1e5),
    )  # fmt: skip
    torch.manual_seed(4)
    counts, _ = random_patterns("orthorhombic", 4, effects)
    wavelengths = ANODES[said]
    return [
        Pattern(
            effects.angles().numpy(),
            y.double().numpy(),
            None,
            wavelengths[0],
            "x",
            wavelengths[1] * doublet or None,
            0.5,
        )
        for y in counts
    ]


@pytest.mark.parametrize("said", ["Mo", "Ag"])
def test_doublets_of_another_anode_are_seen(said: str) -> None:
    found = [pattern_hints(pattern, [SURE]) for pattern in copper(said, doublet=True)]
    named = [line for each in found for line in each]
    assert len(named) >= 2
    assert all("Kα1 and Kα2 of Cu" in line and line.endswith("try --anode Cu") for line in named)


def test_a_doublet_called_a_single_line_is_seen() -> None:
    named = [line for pattern in copper("Cu", doublet=False) for line in pattern_hints(pattern, [SURE])]
    assert any("alone: try --anode Cu" in line for line in named)


def test_the_right_radiation_raises_no_hint() -> None:
    assert not any(pattern_hints(pattern, [SURE]) for pattern in copper("Cu", doublet=True))


def test_doubts_name_their_reason() -> None:
    assert doubts([SURE]) == []
    assert "amorphous" in doubts([])[0]
    assert "only 9 lines" in doubts([replace(SURE, probability=0.1, lines=9)])[0]
    assert "no cell is likely" in doubts([replace(SURE, probability=0.1)])[0]
