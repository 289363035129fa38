"""A standard in the sample calibrates the angles, and its lines are left out."""

import numpy as np
import pytest
import torch

from vitreous.core.errors import InputError
from vitreous.powder import IndexOptions, Known, Pattern, index_pattern, index_peaks
from vitreous.powder.calibration import calibrate_lines, calibrate_pattern
from vitreous.powder.indexing import index_peak_list
from vitreous.powder.line_list import LineList
from vitreous.powder.sim.effects import Effects
from vitreous.powder.sim.measurement import measure
from vitreous.powder.sim.simulate import crystal_from_cell
from vitreous.powder.sim.structure import simulator_lines
from vitreous.powder.standards import STANDARDS, standard_lines, standard_structure

WAVELENGTH = 1.540593
CELL = (8.93, 8.93, 5.87, 90.0, 90.0, 90.0)
ZERO, DISPLACEMENT = 0.12, -0.06
SHARE = 0.6  # of the standard's strongest reflection, relative to the crystal's


def shifted(angle: np.ndarray) -> np.ndarray:
    return angle + ZERO + DISPLACEMENT * np.cos(np.radians(angle / 2))


def mixture(standard: str, share: float = SHARE) -> Pattern:
    """A tetragonal crystal with a standard, measured with a zero shift and a displaced sample."""
    effects = Effects(
        zero=(ZERO, ZERO), displacement=(DISPLACEMENT, DISPLACEMENT), width=(0.1, 0.1), counts=(1e5, 1e5),
        texture=(1.0, 1.0), impurity=(0.0, 0.0), hump=(0.0, 0.0), asymmetry=(0.0, 0.0),
    )  # fmt: skip
    torch.manual_seed(4)
    lines = crystal_from_cell(CELL, 123, effects.s_max).lines
    other = simulator_lines(standard_structure(standard), effects.s_max)
    height = share * float(lines.intensity.max() / other.intensity.max())
    lines = lines.joined(other.s, height * other.intensity, other.owner, other.tilt)
    counts = measure(lines, effects)[0].double().numpy()
    return Pattern(effects.angles().numpy(), counts, None, effects.wavelength, "mixture", effects.wavelength2, 0.5)


def line_list(share: float = SHARE, standard: str = "Si") -> LineList:
    """Lines of the same mixture without noise."""
    h = np.arange(4)
    squares = np.array([[i * i + j * j, k * k] for i in h for j in h for k in h if i >= j and i + j + k])
    s = np.sort(np.sqrt(squares @ np.array([CELL[0] ** -2, CELL[2] ** -2])))
    own = 2 * np.degrees(np.arcsin(WAVELENGTH / 2 * s[:16]))
    lines = standard_lines(standard, WAVELENGTH, (5, 90))
    angle, area = np.concatenate([own, lines.two_theta]), np.concatenate([np.ones(16), share * lines.intensity])
    order = np.argsort(angle)
    return LineList(shifted(angle[order]), np.full(len(order), 0.01), area[order])


@pytest.mark.parametrize("standard", STANDARDS)
def test_angles_are_right_after_the_calibration(standard: str) -> None:
    calibration = calibrate_pattern(mixture(standard), standard).calibration
    ideal = np.linspace(5, 90, 50)
    assert np.abs(calibration.corrected(shifted(ideal)) - ideal).max() < 0.006
    assert calibration.lines >= 5
    assert calibration.rms < 0.01


def test_the_lines_of_the_standard_are_left_out() -> None:
    pattern = mixture("Si")
    result = calibrate_pattern(pattern, "Si")
    lines = standard_lines("Si", WAVELENGTH, (10, 85)).two_theta
    assert np.abs(result.peaks.two_theta - lines[:, None]).min() > 0.03
    assert np.abs(result.sample.two_theta - lines[:, None]).min(1).max() > 0.05
    assert len(pattern.two_theta) >= len(result.whole.two_theta) > len(result.sample.two_theta)


def test_the_cell_of_the_sample_is_found_beside_a_standard() -> None:
    options = IndexOptions(known=Known(standard="Si"), systems=("tetragonal", "cubic"))
    result = index_pattern(mixture("Si"), options)
    assert result.best is not None
    assert result.best.conventional == pytest.approx(CELL, rel=5e-4)
    assert result.best.probability > 0.9
    assert result.fit is not None
    assert result.fit.unexplained < 0.03
    assert result.calibration is not None
    assert "calibrated with Si: zero 0.1" in result.calibration.text
    assert result.to_dict()["calibration"]["lines"] >= 5
    assert result.to_dict()["known"] == {"standard": "Si"}


@pytest.mark.parametrize("intensities", [True, False])
def test_a_list_of_lines_is_calibrated(intensities: bool) -> None:
    lines = line_list()
    if not intensities:
        lines = LineList(lines.two_theta, lines.error, None)
    sample, calibration = calibrate_lines(lines, "Si", WAVELENGTH)
    assert calibration.zero + calibration.displacement == pytest.approx(ZERO + DISPLACEMENT, abs=0.01)
    assert len(sample.two_theta) == 16
    solutions = index_peaks(
        lines.two_theta, lines.intensity, wavelength=WAVELENGTH, known=Known(standard="Si"), systems=("tetragonal",)
    )
    assert solutions[0].conventional == pytest.approx(CELL, rel=1e-3)
    assert abs(solutions[0].zero) < 0.02
    assert solutions[0].indexed == solutions[0].lines == 16


def test_a_line_list_tells_its_calibration() -> None:
    lines = line_list()
    options = IndexOptions(wavelength=WAVELENGTH, peaks=True, systems=("tetragonal",), known=Known(standard="Si"))
    result = index_peak_list("lines", lines.two_theta, lines.intensity, options)
    assert result.calibration is not None
    assert result.calibration.rms < 0.003


@pytest.mark.parametrize("standard", ["LaB6", "Al2O3"])
def test_a_standard_that_is_not_there_is_an_error(standard: str) -> None:
    expected = f"standard: found . of the .* strongest lines of {standard}, expected at least"
    with pytest.raises(InputError, match=expected):
        calibrate_pattern(mixture("Si"), standard)
    with pytest.raises(InputError, match=expected):
        calibrate_lines(line_list(), standard, WAVELENGTH)


def test_a_range_with_too_few_lines_of_the_standard_is_an_error() -> None:
    pattern = Known(two_theta=(10, 50)).select(mixture("Si"))
    with pytest.raises(InputError, match=r"standard: found 2 strong line\(s\) of Si in the range, expected at least 3"):
        calibrate_pattern(pattern, "Si")


def test_lines_of_the_standard_in_excluded_ranges_are_not_expected() -> None:
    pattern = Known(exclude=((27.5, 29.5), (47, 48))).select(mixture("Si"))
    assert calibrate_pattern(pattern, "Si").calibration.lines >= 3


def test_strong_lines_of_the_sample_at_those_of_the_standard_stay() -> None:
    lines = line_list(share=0.05)
    angle = shifted(standard_lines("Si", WAVELENGTH, (5, 90)).two_theta[:1])
    assert lines.intensity is not None
    angles, areas = np.append(lines.two_theta, angle + 0.02), np.append(lines.intensity, 1.0)
    order = np.argsort(angles)
    merged = LineList(angles[order], np.full(len(order), 0.01), areas[order])
    sample, _ = calibrate_lines(merged, "Si", WAVELENGTH)
    assert len(sample.two_theta) == 17
