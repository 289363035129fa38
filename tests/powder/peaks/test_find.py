"""The peak search: true positions within their errors, no false lines, errors of one line."""

import csv
import dataclasses
import itertools
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from vitreous.core.errors import InputError
from vitreous.data import data_folder
from vitreous.powder.cell import reciprocal_metric
from vitreous.powder.files import read_pattern
from vitreous.powder.peaks import Peaks, find_peaks
from vitreous.powder.sim.effects import Effects
from vitreous.powder.sim.measurement import lorentz_polarisation, random_patterns

CU1, CU2 = 1.540598, 1.544426
X = np.arange(5, 80, 0.02)
LINES = np.array([12.313, 20.007, 25.551, 31.249, 38.884, 52.101, 67.77])
AREAS = np.array([0.7, 1.0, 0.05, 0.4, 0.2, 0.3, 0.1])
STILL = dataclasses.replace(Effects(), zero=(0.0, 0.0), displacement=(0.0, 0.0), impurity=(0.0, 0.0))


def profile(at: float, width: float, mixing: float = 0.5, x: NDArray[Any] = X) -> NDArray[np.float64]:
    """A pseudo-Voigt line of unit height."""
    u = 2 * (x - at) / width
    result: NDArray[np.float64] = mixing / (1 + u * u) + (1 - mixing) * np.exp(-np.log(2) * u * u)
    return result


def second(at: float) -> float:
    return float(2 * np.degrees(np.arcsin(np.sin(np.radians(at / 2)) * CU2 / CU1)))


def clean(ratio: float = 0.0, width: float = 0.1, top: float = 2e4, background: float = 200.0) -> NDArray[np.float64]:
    lines = sum(
        area * (profile(at, width) + ratio * profile(second(at), width)) for at, area in zip(LINES, AREAS, strict=True)
    )
    result: NDArray[np.float64] = background + top * np.asarray(lines)
    return result


def counted(expected: NDArray[np.float64], seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).poisson(expected).astype(np.float64)


def assert_found(peaks: Peaks, lines: NDArray[np.float64] = LINES, within: float = 0.01) -> None:
    assert len(peaks.two_theta) == len(lines), peaks.two_theta
    np.testing.assert_allclose(peaks.two_theta, lines, atol=within)


def test_positions_areas_and_widths_are_those_of_the_lines() -> None:
    peaks = find_peaks(X, counted(clean()))
    assert_found(peaks, within=0.005)
    np.testing.assert_allclose(peaks.intensity, AREAS, rtol=0.1)
    np.testing.assert_allclose(peaks.width, 0.1, rtol=0.1)
    assert (peaks.significance > 5).all()
    assert (np.abs(peaks.two_theta - LINES) < 4 * peaks.error).all()


@pytest.mark.parametrize("ratio", [0.5, None])
@pytest.mark.parametrize("width", [0.06, 0.12])
def test_a_doublet_is_one_line_at_the_first_wavelength(ratio: float | None, width: float) -> None:
    assert_found(find_peaks(X, counted(clean(0.5, width)), None, CU1, CU2, ratio))


def test_the_second_wavelength_follows_from_the_anode() -> None:
    assert_found(find_peaks(X, counted(clean(0.5)), wavelength=CU1, ratio=0.5))


def test_a_fitted_ratio_may_be_zero() -> None:
    assert_found(find_peaks(X, counted(clean()), None, CU1, CU2, None))


def test_any_unit_gives_the_same_lines() -> None:
    counts = counted(clean())
    for scale in (0.0137, 1e6):
        assert_found(find_peaks(X, counts * scale))


def test_a_subtracted_background_does_not_change_the_lines() -> None:
    noise = np.random.default_rng(0).normal(0, 0.5, len(X))
    assert_found(find_peaks(X, clean(top=1000, background=0) + noise))


def test_standard_errors_may_be_given() -> None:
    counts = counted(clean())
    assert_found(find_peaks(X, counts, np.sqrt(np.maximum(counts, 1))))


def test_angles_may_have_unequal_steps() -> None:
    chosen = np.sort(np.random.default_rng(0).choice(len(X), 3000, replace=False))
    assert_found(find_peaks(X[chosen], counted(clean())[chosen]))


def test_angles_may_have_a_wide_gap() -> None:
    x = np.concatenate([[1.0], 60 + 0.05 * np.arange(120)])
    y = 100 + 1000 * np.exp(-(((x - 63) / 0.1) ** 2))
    assert find_peaks(x, y).two_theta == pytest.approx([63], abs=0.02)


def test_unmeasured_zeros_give_no_lines() -> None:
    counts = counted(clean())
    counts[X < 9] = 0
    counts[(X > 42) & (X < 46)] = 0
    counts[X > 75] = 0
    assert_found(find_peaks(X, counts))


def test_a_hump_and_a_rise_to_low_angles_give_no_lines() -> None:
    smooth = 3000 * np.exp(-0.5 * ((X - 23) / 4) ** 2) + 8000 * np.exp(-X / 4)
    assert_found(find_peaks(X, counted(clean() + smooth)))


def test_a_shoulder_is_a_line() -> None:
    counts = counted(200 + 2e4 * (profile(30, 0.1) + 0.4 * profile(30.11, 0.1) + profile(20, 0.1) + profile(45, 0.1)))
    assert_found(find_peaks(X, counts), np.array([20, 30, 30.11, 45]))


@pytest.mark.parametrize(
    ("divergence", "lines"), [(0.02, [8.0, 11.5, 16, 23, 35]), (0.045, [13.0, 18.5, 24.6, 33, 47])]
)
def test_an_axial_tail_is_not_a_line_and_hardly_shifts_its_own(divergence: float, lines: list[float]) -> None:
    heights = np.linspace(0.0125, 0.9875, 40)  # in the slit
    expected = np.full(len(X), 100.0)
    for at in lines:
        reach = np.degrees(0.5 * divergence**2) / np.tan(np.radians(at))
        expected += 2e4 * np.mean([profile(at - reach * h * h, 0.07) for h in heights], axis=0)
    assert_found(find_peaks(X, counted(expected)), np.array(lines), within=0.012)


@pytest.mark.parametrize("top", [10.0, 1e3, 1e6])
def test_an_amorphous_pattern_has_no_lines(top: float) -> None:
    shape = 0.2 + 0.8 * np.exp(-0.5 * ((X - 22) / 4) ** 2) + 0.5 * np.exp(-X / 5)
    for seed in range(3):
        assert len(find_peaks(X, counted(top * shape, seed)).two_theta) == 0


def test_noise_has_no_lines() -> None:
    random = np.random.default_rng(0)
    normal = random.normal(0, 1, len(X))
    for y in (normal, 5 + normal, counted(np.full(len(X), 0.1)), counted(np.full(len(X), 50.0))):
        assert len(find_peaks(X, y).two_theta) == 0


def test_most_keeps_the_lowest_angles() -> None:
    assert_found(find_peaks(X, counted(clean()), most=3), LINES[:3])


NOT_A_NUMBER = np.where(np.arange(len(X)) == 7, np.nan, 1.0 + X)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"two_theta": X[:40], "intensity": X[:40]}, "40 point"),
        ({"two_theta": X, "intensity": NOT_A_NUMBER}, "intensity: found nan"),
        ({"two_theta": X[::-1], "intensity": X}, "ascending"),
        ({"two_theta": X, "intensity": np.full(len(X), 3.0)}, "3 throughout"),
        ({"two_theta": X, "intensity": X[:-1]}, "shape"),
        ({"two_theta": 3 * X, "intensity": X}, "180"),
        ({"two_theta": X, "intensity": X, "sigma": -X}, "sigma"),
        ({"two_theta": X, "intensity": X, "ratio": 0.5}, "wavelength: found none"),
        ({"two_theta": X, "intensity": X, "ratio": 0.5, "wavelength": 1.2}, "wavelength2: found none"),
        ({"two_theta": X, "intensity": X, "ratio": 0.5, "wavelength": CU2, "wavelength2": CU1}, "wavelength2"),
        ({"two_theta": X, "intensity": X, "ratio": 2.0}, "ratio: found 2"),
        ({"two_theta": X, "intensity": X, "most": 0}, "most: found 0"),
    ],
)
def test_invalid_input_gives_an_error_of_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as fault:
        find_peaks(**arguments)
    assert "\n" not in str(fault.value)


@dataclasses.dataclass
class Tally:
    """Of the first twenty lines found in each simulated pattern; a line is alone with no other within two FWHM."""

    reported: int = 0
    near: int = 0  # a true line or a cluster within half the width
    alone: list[float] = dataclasses.field(default_factory=list)  # deviations in standard errors
    off: list[float] = dataclasses.field(default_factory=list)  # and in degrees
    strong: int = 0
    detected: int = 0


@lru_cache(maxsize=2)
def simulated(system: str) -> Tally:
    torch.manual_seed(3)
    patterns, crystals = random_patterns(system, 12, STILL)
    angles, tally = STILL.angles().numpy(), Tally()
    for number, counts in enumerate(patterns.double().numpy()):
        peaks = find_peaks(angles, counts, None, STILL.wavelength, STILL.wavelength2, None)
        own = crystals.lines.owner == number
        true = 2 * torch.rad2deg(torch.arcsin(crystals.lines.s[own].double() * STILL.wavelength / 2))
        area = (crystals.lines.intensity[own].double() * lorentz_polarisation(true)).numpy()
        first = angles[counts > 0][0]
        at = true.numpy()
        keep = (at > first) & (area > 1e-4 * area[at > first].max())
        at, area = at[keep], area[keep]
        for position, error, width in list(zip(peaks.two_theta, peaks.error, peaks.width, strict=True))[:20]:
            off = at - position
            tally.reported += 1
            tally.near += bool((np.abs(off) < width / 2).any())
            if (np.abs(off) < 2 * width).sum() == 1:
                smallest = float(off[np.abs(off).argmin()])
                tally.alone.append(smallest / error)
                tally.off.append(abs(smallest))
        last, typical = peaks.two_theta[-1], float(np.median(peaks.width))
        apart = np.abs(at[:, None] - at[None, :]) + 180 * np.eye(len(at))
        strong = (area > 0.02 * area.max()) & (at < last) & (at > first + 0.3) & (apart.min(axis=1) > 2 * typical)
        tally.strong += int(strong.sum())
        tally.detected += sum(bool((np.abs(peaks.two_theta - line) < typical / 2).any()) for line in at[strong])
    return tally


@pytest.mark.parametrize("system", ["monoclinic", "cubic"])
def test_lines_of_simulated_patterns_are_true_within_their_errors(system: str) -> None:
    tally = simulated(system)
    assert tally.near >= 0.97 * tally.reported
    assert np.median(tally.off) < 0.004
    assert 0.6 < 1.4826 * np.median(np.abs(tally.alone)) < 1.6
    assert np.mean(np.abs(tally.alone) < np.array(3.0)) > 0.9


@pytest.mark.parametrize("system", ["monoclinic", "cubic"])
def test_isolated_lines_of_simulated_patterns_are_found(system: str) -> None:
    tally = simulated(system)
    assert tally.detected >= 0.95 * tally.strong


@pytest.mark.parametrize("name", ["LaB6", "SiO2", "ZnO", "CaCO3", "NaHCO3", "NaCl", "Na2S2O3 5H2O"])
def test_lines_of_measured_patterns_belong_to_the_cell(name: str) -> None:
    folder = data_folder() / "powder"
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent; set VITREOUS_DATA")
    with (folder / "cells.csv").open() as file:
        row = next(row for row in csv.DictReader(file) if row["Name"] == name)
    wavelength = float(row["Wavelength"])
    pattern = read_pattern(folder / f"{row['Material']}.xy.gz", wavelength=wavelength)
    peaks = find_peaks(pattern.two_theta, pattern.intensity, most=20)
    cell = torch.tensor([[float(row[key]) for key in ("a", "b", "c", "alpha", "beta", "gamma")]], dtype=torch.float64)
    hkl = np.array([h for h in itertools.product(range(-6, 7), range(-10, 11), range(-16, 17)) if any(h)])
    s = np.sqrt(np.einsum("ni,ij,nj->n", hkl, reciprocal_metric(cell)[0].numpy(), hkl))
    expected = 2 * np.degrees(np.arcsin(s[s < 2 / wavelength] * wavelength / 2))
    # The instrument's zero differs from pattern to pattern by up to 0.05°.
    close = [
        np.abs(expected[None, :] - zero - peaks.two_theta[:, None]).min(axis=1)
        for zero in np.arange(-0.06, 0.03, 0.002)
    ]
    assert len(peaks.two_theta) == 20
    assert max((distance < 0.01).sum() for distance in close) >= 17
