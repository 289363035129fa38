"""Measured patterns equal a direct sum of profiles, and each effect does to them what its formula says."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.powder.sim.crystals import Lines, random_crystals
from vitreous.powder.sim.effects import CLEAN, Effects
from vitreous.powder.sim.measurement import lorentz_polarisation, march_dollase, measure, random_patterns

ANGLES = CLEAN.angles()
STEP = 0.02  # degrees
GAUSS = replace(CLEAN, mixing=(0.0, 0.0))  # whose lines end, so that each can be summed by itself
OFF = ("alpha2", "start", "zero", "displacement", "asymmetry", "background", "hump", "impurity")


def at(
    two_theta: Sequence[float],
    intensity: Sequence[float] = (),
    owner: Sequence[int] = (),
    cos2: Sequence[float] = (),
) -> Lines:
    """Lines at the given angles for copper radiation, with cos² to a preferred direction c*."""
    angle = torch.tensor(list(two_theta), dtype=torch.float64)
    s = 2 * torch.sin(torch.deg2rad(angle / 2)) / CLEAN.wavelength
    count = len(s)
    tilt = torch.zeros(count, 3)
    tilt[:, 2] = torch.tensor(list(cos2) or [0.0] * count)
    owners = torch.tensor(list(owner) or [0] * count)
    strength = torch.tensor(list(intensity) or [1.0] * count)
    return Lines(s.float(), strength, owners, tilt, torch.tensor([[0.0, 0.0, 1.0]]), int(owners.max()) + 1)


def on(base: Effects = GAUSS, **fixed: float) -> Effects:
    """The effects with these at one value each."""
    return replace(base, **{name: (value, value) for name, value in fixed.items()})  # type: ignore[arg-type]


def near(pattern: Tensor, angle: float, reach: float = 1.0) -> tuple[Tensor, Tensor]:
    """Angles and heights of the pattern around an angle."""
    here = (ANGLES - angle).abs() < reach
    return ANGLES[here], pattern[here].double()


def area(pattern: Tensor, angle: float, reach: float = 1.0) -> float:
    return float(near(pattern, angle, reach)[1].sum() * STEP)


def centre(pattern: Tensor, angle: float, reach: float = 1.0) -> float:
    x, y = near(pattern, angle, reach)
    return float((x * y).sum() / y.sum())


def factor(angle: float) -> float:
    return float(lorentz_polarisation(torch.tensor(angle, dtype=torch.float64)))


def direct(lines: Lines, e: Effects) -> Tensor:
    """Pseudo-Voigt profiles of Caglioti's width, one after the other, over the highest point."""
    bragg = 2 * torch.rad2deg(torch.arcsin(lines.s.double() * e.wavelength / 2))
    ratio = torch.tan(torch.deg2rad(bragg / 2)) / math.tan(math.radians(15))
    width = e.width[0] * (1 + e.slope[0] * (ratio**2 - 1) + e.dip[0] * (ratio - 1)).sqrt()
    away = (e.angles()[:, None] - bragg) / width
    gauss = 2 * math.sqrt(math.log(2) / math.pi) / width * torch.exp(-4 * math.log(2) * away**2)
    lorentz = 2 / (math.pi * width) / (1 + 4 * away**2)
    profiles = e.mixing[0] * lorentz + (1 - e.mixing[0]) * gauss
    pattern = (profiles * lines.intensity.double() * lorentz_polarisation(bragg)).sum(1)
    return pattern / pattern.max()


@pytest.mark.parametrize("mixing", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(("slope", "dip"), [(0.0, 0.0), (0.3, 0.0), (0.0, -0.3), (0.3, -0.3)])
@pytest.mark.parametrize("width", [0.08, 0.15, 0.3])
def test_a_pattern_equals_the_sum_of_its_profiles(width: float, slope: float, dip: float, mixing: float) -> None:
    lines = at(torch.empty(40).uniform_(6, 85).tolist(), torch.empty(40).exponential_().tolist())
    effects = on(width=width, slope=slope, dip=dip, mixing=mixing)
    assert (measure(lines, effects)[0] - direct(lines, effects)).abs().max() < 0.01


def test_the_narrowest_default_profile_is_near_the_sum_of_its_profiles() -> None:
    lines, effects = at(torch.empty(40).uniform_(6, 85).tolist()), on(width=0.05, mixing=0.9)
    assert (measure(lines, effects)[0] - direct(lines, effects)).abs().max() < 0.04  # its top is between the points


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_width_at_30_degrees_is_that_of_the_settings(slope: float) -> None:
    x, y = near(measure(at([30.0]), on(width=0.12, slope=slope, dip=-slope))[0], 30)
    deviation = float((((x - 30) ** 2 * y).sum() / y.sum()).sqrt())
    assert deviation * math.sqrt(8 * math.log(2)) == pytest.approx(0.12, rel=0.02)


def test_areas_are_intensity_times_lorentz_polarisation() -> None:
    places, strengths = [12.3, 31.7, 55.55, 83.1], [1.0, 2.0, 5.0, 0.7]
    pattern = measure(at(places, strengths), on(slope=0.3))[0]
    expected = np.array([strength * factor(angle) for angle, strength in zip(places, strengths, strict=True)])
    result = np.array([area(pattern, angle) for angle in places])
    np.testing.assert_allclose(result / result[0], expected / expected[0], rtol=1e-3)


def test_lorentz_polarisation_equals_pymatgens() -> None:
    core, xrd = pytest.importorskip("pymatgen.core"), pytest.importorskip("pymatgen.analysis.diffraction.xrd")
    polonium = core.Structure(core.Lattice.cubic(3.359), ["Po"], [[0, 0, 0]])  # one atom: every F is its form factor
    result = xrd.XRDCalculator(CLEAN.wavelength).get_pattern(polonium, scaled=False, two_theta_range=(5, 170))
    q = 1 / (2 * np.array(result.d_hkls)) ** 2
    a, b = np.array(xrd.ATOMIC_SCATTERING_PARAMS["Po"]).T
    form = 84 - 41.78214 * q * (a * np.exp(-b * q[:, None])).sum(1)
    times = np.array([sum(one["multiplicity"] for one in family) for family in result.hkls])
    np.testing.assert_allclose(
        lorentz_polarisation(torch.tensor(np.array(result.x))), result.y / (times * form**2), rtol=1e-6
    )


def test_the_strongest_line_is_one() -> None:
    patterns, _ = random_patterns("tetragonal", 3, CLEAN)
    assert patterns.shape == (3, CLEAN.points)
    torch.testing.assert_close(patterns.amax(1), torch.ones(3))
    assert patterns.min() >= 0


@pytest.mark.parametrize("zero", [-0.1, 0.037, 0.1])
def test_the_zero_shift_is_equal_for_all_lines(zero: float) -> None:
    pattern = measure(at([20.0, 80.0]), on(zero=zero))[0]
    assert centre(pattern, 20) == pytest.approx(20 + zero, abs=5e-4)
    assert centre(pattern, 80) == pytest.approx(80 + zero, abs=5e-4)


@pytest.mark.parametrize("angle", [10.0, 45.0, 85.0])
def test_displacement_falls_as_the_cosine_of_theta(angle: float) -> None:
    shift = centre(measure(at([angle]), on(displacement=0.1))[0], angle) - angle
    assert shift == pytest.approx(0.1 * math.cos(math.radians(angle / 2)), abs=5e-4)


def test_alpha2_adds_a_line_at_its_own_angle() -> None:
    pattern = measure(at([80.0]), on(alpha2=0.5, width=0.05))[0]
    second = 2 * math.degrees(math.asin(math.sin(math.radians(40)) * CLEAN.wavelength2 / CLEAN.wavelength))
    assert second - 80 > 0.2  # apart enough to be summed by itself
    assert centre(pattern, second, 0.12) == pytest.approx(second, abs=2e-3)
    ratio = area(pattern, second, 0.12) / area(pattern, 80, 0.12)
    assert ratio == pytest.approx(0.5 * factor(second) / factor(80), rel=0.01)


@pytest.mark.parametrize("r", [0.4, 0.7, 1.5, 3.0])
def test_texture_weights_lines_by_the_march_dollase_factor(r: float) -> None:
    lines = at([30.0, 60.0, 80.0], cos2=[1.0, 0.0, 0.25])
    plain, textured = measure(lines, GAUSS)[0], measure(lines, on(texture=r))[0]
    gain = [area(textured, angle) / area(plain, angle) for angle in (30, 60, 80)]
    assert gain[1] / gain[0] == pytest.approx(r**1.5 / r**-3, rel=1e-3)  # along the axis r⁻³, across it r^1.5
    assert gain[2] / gain[0] == pytest.approx((r**2 * 0.25 + 0.75 / r) ** -1.5 / r**-3, rel=1e-3)


@pytest.mark.parametrize("r", [0.3, 0.7, 1.0, 1.6, 3.0])
def test_the_march_dollase_factor_has_mean_one_over_the_sphere(r: float) -> None:
    cosine = (torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000  # uniform over the sphere
    assert float(march_dollase(cosine**2, torch.tensor(r).double()).mean()) == pytest.approx(1, abs=1e-6)


def test_texture_of_a_cubic_crystal_is_the_mean_over_its_axes() -> None:
    lines = replace(at([30.0, 60.0]), tilt=torch.tensor([[1.0, 0, 0], [1 / 3, 1 / 3, 1 / 3]]))  # 100 and 111
    cubic = replace(lines, directions=torch.full((1, 3), 1 / 3))
    plain, textured = measure(cubic, GAUSS)[0], measure(cubic, on(texture=0.5))[0]
    gain = [area(textured, angle) / area(plain, angle) for angle in (30, 60)]
    along, across, diagonal = (float(march_dollase(torch.tensor(c), torch.tensor(0.5))) for c in (1.0, 0.0, 1 / 3))
    assert gain[0] / gain[1] == pytest.approx((along + 2 * across) / 3 / diagonal, rel=1e-3)


def lag(angle: float, half: float) -> float:
    """The mean shift by axial divergence: a third of the reach, in degrees."""
    return math.degrees(0.5 * half**2 / math.tan(math.radians(angle))) / 3


@pytest.mark.parametrize("half", [0.01, 0.02, 0.04])
def test_asymmetry_moves_the_centre_of_mass_to_lower_angles(half: float) -> None:
    pattern = measure(at([4.0]), on(asymmetry=half))[0]
    assert 4 - centre(pattern, 4) == pytest.approx(lag(4, half), rel=0.02)
    between = measure(at([10.0, 35.0]), on(asymmetry=half))[0]  # angles where profiles are interpolated
    for angle in (10, 35):
        assert angle - centre(between, angle) == pytest.approx(lag(angle, half), rel=0.2, abs=2e-4)


def test_asymmetry_makes_a_tail_to_low_angles_and_none_to_high_ones() -> None:
    plain, skew = measure(at([4.0]), GAUSS)[0], measure(at([4.0]), on(asymmetry=0.04))[0]
    assert area(skew, 3.5, 0.3) > 0.1 * area(skew, 4)
    assert area(skew, 4.5, 0.3) == pytest.approx(area(plain, 4.5, 0.3), abs=1e-4)


def test_asymmetry_preserves_the_area() -> None:
    lines = at([6.0, 85.0], [1 / factor(6), 1 / factor(85)])  # at 85° it does next to nothing
    ratios = [area(p, 6) / area(p, 85) for p in (measure(lines, GAUSS)[0], measure(lines, on(asymmetry=0.04))[0])]
    assert ratios[1] == pytest.approx(ratios[0], rel=1e-3)


def test_background_lies_between_zero_and_its_height() -> None:
    lines = at([30.0, 40.0, 50.0], owner=[0, 1, 2])
    added = measure(lines, on(background=0.3)) - measure(lines, GAUSS)
    assert added.min() > -1e-6
    torch.testing.assert_close(added.amax(1), torch.full((3,), 0.3))
    assert added.diff(dim=1).abs().max() < 0.01  # smooth
    assert not torch.allclose(added[0], added[1], atol=0.01)  # each pattern has its own


def test_a_hump_is_one_broad_rise_of_its_height() -> None:
    lines = at([30.0, 40.0, 50.0], owner=[0, 1, 2])
    added = measure(lines, on(hump=0.2)) - measure(lines, GAUSS)
    assert added.min() > -1e-6
    torch.testing.assert_close(added.amax(1), torch.full((3,), 0.2), atol=1e-5, rtol=0)
    turns = (added.diff(dim=1).sign().diff(dim=1).abs() == 2) & (added[:, 1:-1] > 0.01)
    assert turns.sum(1).tolist() == [1, 1, 1]
    high = (added > 0.1).sum(1) * STEP
    assert ((high > 5) & (high < 20)).all()  # degrees


def test_counts_are_integers_with_poisson_variance() -> None:
    many = at([20.0] * 3000 + [24.0] * 3000, [1.0] * 3000 + [0.3] * 3000, [*range(3000), *range(3000)])
    few = replace(on(counts=1000.0, width=0.5), points=450)
    counts = measure(many, few)
    assert torch.equal(counts, counts.round())
    mean, variance = counts.mean(0), counts.var(0)
    seen = mean > 20
    assert seen.sum() >= 3
    torch.testing.assert_close(variance[seen] / mean[seen], torch.ones(int(seen.sum())), atol=0.15, rtol=0)
    assert mean.max().item() == pytest.approx(1000, rel=0.01)
    clean = measure(at([20.0, 24.0], [1.0, 0.3]), replace(few, counts=(0.0, 0.0)))[0]
    torch.testing.assert_close(mean, 1000 * clean, atol=3.0, rtol=0.01)


def test_counts_are_drawn_by_their_logarithm() -> None:
    many = at([20.0] * 2000, owner=list(range(2000)))
    top = measure(many, replace(GAUSS, points=100, counts=(1e2, 1e6))).amax(1)
    assert top.log10().mean().item() == pytest.approx(4, abs=0.1)
    assert top.log10().std().item() == pytest.approx(4 / math.sqrt(12), rel=0.1)


def test_an_impurity_adds_the_lines_of_another_crystal() -> None:
    lines = at([20.0, 40.0, 30.0], [1.0, 0.5, 4.0], [0, 0, 1])
    first, second = measure(lines, on(impurity=0.2))
    assert area(first, 30) / area(first, 20) == pytest.approx(0.2 * factor(30) / factor(20), rel=1e-3)
    assert area(first, 40) / area(first, 20) == pytest.approx(0.5 * factor(40) / factor(20), rel=1e-3)
    assert area(second, 20) / area(second, 30) == pytest.approx(0.2 * factor(20) / factor(30), rel=1e-3)
    assert area(second, 40) / area(second, 30) == pytest.approx(0.1 * factor(40) / factor(30), rel=1e-3)


def test_nothing_is_measured_below_the_start() -> None:
    lines = at([6.0, 30.0], [0.01, 1.0])
    whole, cut = measure(lines, CLEAN)[0], measure(lines, on(CLEAN, start=8.0))[0]
    below = ANGLES < 8
    assert whole[below].max() > 0
    assert (cut[below] == 0).all()
    assert torch.equal(cut[~below], whole[~below])


def test_the_strongest_measured_line_is_one_even_if_a_stronger_one_was_not_measured() -> None:
    assert measure(at([4.0, 30.0]), on(CLEAN, start=8.0)).max().item() == pytest.approx(1)


@pytest.mark.parametrize("name", [*OFF, "texture"])
def test_a_vanishing_effect_does_not_change_the_pattern(name: str) -> None:
    lines = random_crystals("monoclinic", 3, CLEAN.s_max).lines
    least = 1.0 if name == "texture" else 0.0
    vanishing = replace(CLEAN, **{name: (least, least + 1e-6)})  # type: ignore[arg-type]
    torch.testing.assert_close(measure(lines, vanishing), measure(lines, CLEAN), atol=2e-4, rtol=0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("alpha2", 0.5), ("start", 20.0), ("zero", 0.03), ("displacement", 0.03), ("width", 0.1), ("slope", 0.3),
        ("dip", -0.3), ("mixing", 0.9), ("asymmetry", 0.02), ("texture", 0.7), ("background", 0.05), ("hump", 0.03),
        ("impurity", 0.05), ("counts", 1e4),
    ],
)  # fmt: skip
def test_every_effect_changes_the_pattern(name: str, value: float) -> None:
    lines = random_crystals("monoclinic", 3, CLEAN.s_max).lines
    assert ((measure(lines, on(CLEAN, **{name: value})) - measure(lines, CLEAN)).abs().amax(1) > 1e-3).all()


def test_a_clean_pattern_is_deterministic() -> None:
    lines = random_crystals("monoclinic", 3, CLEAN.s_max).lines
    assert torch.equal(measure(lines, CLEAN), measure(lines, CLEAN))


def test_a_batch_equals_its_crystals_one_at_a_time() -> None:
    effects = on(
        alpha2=0.4, start=6.0, zero=0.02, displacement=-0.02, slope=0.2, dip=-0.1, mixing=0.6, asymmetry=0.02,
        texture=0.8,
    )  # fmt: skip
    lines = random_crystals("tetragonal", 5, effects.s_max).lines  # which has one preferred direction
    together = measure(lines, effects)
    for which in range(5):
        own = lines.owner == which
        alone = Lines(
            lines.s[own], lines.intensity[own], torch.zeros_like(lines.owner[own]), lines.tilt[own], lines.directions, 1
        )
        torch.testing.assert_close(measure(alone, effects)[0], together[which], atol=1e-5, rtol=0)


def test_a_seed_determines_the_patterns() -> None:
    results = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        results.append(random_patterns("cubic", 2, Effects())[0])
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])


@pytest.mark.parametrize("name", ["zero", "width", "mixing", "background"])
def test_each_pattern_draws_its_own_value_within_the_range(name: str) -> None:
    low, high = getattr(Effects(), name)
    same = at([40.0] * 40, owner=list(range(40)))
    patterns = measure(same, replace(GAUSS, **{name: (low, high)}))  # type: ignore[arg-type]
    assert patterns.std(0).max() > 1e-3
    if name == "zero":
        places = torch.tensor([centre(pattern, 40) - 40 for pattern in patterns])
        assert (places.abs() < 0.0405).all()
        assert places.std().item() == pytest.approx(0.08 / math.sqrt(12), rel=0.3)


@pytest.mark.parametrize("two_theta", [(0.0, 180.0), (10.0, 170.0), (30.0, 60.0)])
def test_any_range_of_angles_gives_finite_patterns(two_theta: tuple[float, float]) -> None:
    patterns, _ = random_patterns("cubic", 4, replace(Effects(), two_theta=two_theta, points=1000))
    assert patterns.isfinite().all()
    assert (patterns.amax(1) > 100).all()


def test_the_grid_begins_at_the_first_angle_and_ends_before_the_last() -> None:
    angles = Effects(two_theta=(10.0, 110.0), points=1000).angles()
    assert (len(angles), angles[0].item(), angles[1].item()) == (1000, 10.0, 10.1)
    assert angles[-1].item() == pytest.approx(109.9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"two_theta": (90.0, 5.0)}, "two_theta: found 90 to 5, expected an ascending range within 0 to 180°"),
        ({"two_theta": (-5.0, 90.0)}, "two_theta: found -5 to 90"),
        ({"two_theta": (5.0, 190.0)}, "two_theta: found 5 to 190"),
        ({"two_theta": 90.0}, "two_theta: found 90"),
        ({"points": 10}, "points: found 10, expected at least 50"),
        ({"points": 100.5}, "points: found 100.5, expected a whole number"),
        ({"width": (0.0, 0.1)}, "width: found 0 to 0.1, expected a range within 0.01 to 2"),
        ({"width": (0.2, 0.1)}, "width: found 0.2 to 0.1, expected a range"),
        ({"width": 0.1}, "width: found 0.1"),
        ({"width": (0.1, 0.2, 0.3)}, "width: found 0.1"),
        ({"mixing": (0.0, 1.1)}, "mixing: found 0 to 1.1, expected a range within 0 to 1"),
        ({"texture": (0.0, 1.0)}, "texture: found 0 to 1, expected a range within 0.2 to 5"),
        ({"dip": (-0.1, 0.1)}, "dip: found -0.1 to 0.1, expected a range within -0.4 to 0"),
        ({"counts": (-1.0, 10.0)}, "counts: found -1 to 10"),
        ({"counts": (0.5, 0.5)}, "counts: found 0.5"),
        ({"zero": (math.nan, 0.1)}, "zero: found nan, expected a number"),
        ({"wavelength": 0.01}, "wavelength: found 0.01, expected 0.1 to 10 Å"),
        ({"wavelength2": 50.0}, "wavelength2: found 50, expected 0.1 to 10 Å"),
    ],
)
def test_invalid_settings_give_an_error_of_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        Effects(**settings)
    assert "\n" not in str(error.value)


def test_settings_round_trip_through_a_dictionary() -> None:
    effects = replace(Effects(), width=(0.1, 0.2), points=1000)
    assert Effects.from_dict(effects.to_dict()) == effects
