"""Wavelengths of the anodes."""

import pytest

from vitreous.powder.radiation import ANODES, doublet_of


def test_anode_wavelengths_follow_moseleys_law() -> None:
    numbers = {"Cr": 24, "Fe": 26, "Co": 27, "Cu": 29, "Ga": 31, "Mo": 42, "Ag": 47, "W": 74}
    for anode, number in numbers.items():
        first, second = ANODES[anode]
        assert first == pytest.approx(
            1215.02 / (number - 1) ** 2, rel=0.09
        )  # 4/3R / (Z - 1)², which leaves out relativity
        fine = (second - first) / first * 1e4 / (number - 1) ** 2  # splitting over energy goes as Z²
        assert fine == pytest.approx(0.0372, abs=0.009)


def test_an_anode_is_recognised_by_its_first_wavelength() -> None:
    assert doublet_of(1.5406) == ANODES["Cu"]
    assert doublet_of(1.2) is None
