"""Lenses have the known properties of isothermal ones: deflection, mass, rings, magnification, light and symmetry."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.gallery.lensing.simulate import (
    Galaxy,
    Lens,
    Telescope,
    blur,
    brightness,
    convergence,
    deflection,
    images,
    inverse_magnification,
    positions,
)  # fmt: skip

STEP = 1e-6
SHARP = Telescope(pixels=400, pixel=0.01, rays=1, psf=0.0)
component = st.floats(-0.3, 0.3)


def lens(einstein: float = 1.0, e1: float = 0.0, e2: float = 0.0, g1: float = 0.0, g2: float = 0.0) -> Lens:
    return Lens(*(torch.tensor([value], dtype=torch.float64) for value in (einstein, e1, e2, g1, g2)))


def galaxy(
    x: float = 0.0, y: float = 0.0, radius: float = 0.1, sersic: float = 0.5, e1: float = 0.0, e2: float = 0.0
) -> Galaxy:
    return Galaxy(*(torch.tensor([value], dtype=torch.float64) for value in (x, y, radius, sersic, e1, e2)))


def random_positions() -> tuple[Tensor, Tensor]:
    values = torch.randn(2, 1, 500, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return values[0], values[1]


def slopes(of: Lens) -> list[list[Tensor]]:
    """∂α_i / ∂θ_j by finite differences."""
    x, y = random_positions()
    moved = [(x + STEP, y, x - STEP, y), (x, y + STEP, x, y - STEP)]
    ends = [(deflection(a, b, of), deflection(c, d, of)) for a, b, c, d in moved]
    return [[(more[i] - less[i]) / (2 * STEP) for more, less in ends] for i in range(2)]


def test_a_round_lens_deflects_every_ray_by_its_einstein_radius_towards_its_centre() -> None:
    x, y = random_positions()
    ax, ay = deflection(x, y, lens(1.3))
    r = torch.hypot(x, y)
    torch.testing.assert_close(torch.stack([ax, ay]), 1.3 * torch.stack([x, y]) / r, atol=1e-6, rtol=0)


@given(e1=component, e2=component, g1=component, g2=component)
@settings(max_examples=30)
def test_the_divergence_of_the_deflection_is_twice_the_convergence_and_it_has_no_curl(
    e1: float, e2: float, g1: float, g2: float
) -> None:
    example = lens(1.1, e1, e2, g1, g2)
    slope, x, y = slopes(example), *random_positions()
    kappa = convergence(x, y, example)
    assert ((slope[0][0] + slope[1][1] - 2 * kappa) / (1 + kappa)).abs().max() < 1e-6
    assert ((slope[0][1] - slope[1][0]) / (1 + kappa)).abs().max() < 1e-5


@given(e1=component, e2=component, g1=component, g2=component)
@settings(max_examples=30)
def test_the_magnification_is_that_of_the_mapping(e1: float, e2: float, g1: float, g2: float) -> None:
    example = lens(1.1, e1, e2, g1, g2)
    slope = slopes(example)
    jacobian = (1 - slope[0][0]) * (1 - slope[1][1]) - slope[0][1] * slope[1][0]
    expected = inverse_magnification(*random_positions(), example)
    assert ((jacobian - expected) / (1 + expected.abs())).abs().max() < 1e-5


@pytest.mark.parametrize("ellipticity", [0.0, 0.2, 0.5])
def test_the_critical_curve_holds_the_area_of_the_einstein_circle(ellipticity: float) -> None:
    example = lens(1.2, 0.6 * ellipticity, -0.8 * ellipticity)
    x, y = (part.double() for part in positions(SHARP))
    inside = (inverse_magnification(x, y, example) < 0).double().sum() * SHARP.pixel**2
    assert inside == pytest.approx(math.pi * 1.2**2, rel=2e-3)


def test_a_galaxy_exactly_behind_a_round_lens_is_a_ring_at_the_einstein_radius() -> None:
    image = images(lens(1.0), galaxy(radius=0.02), SHARP)[0]
    x, y = (part[0] for part in positions(SHARP))
    bright = image > 0.5 * image.max()
    radii, angles = torch.hypot(x, y)[bright], torch.atan2(y, x)[bright]
    assert (radii - 1.0).abs().max() < 0.03
    assert torch.histc(angles, 36, -math.pi, math.pi).min() > 0


@pytest.mark.parametrize("offset", [0.2, 0.4, 0.8])
def test_the_magnification_of_a_small_galaxy_is_two_over_its_distance(offset: float) -> None:
    source = galaxy(x=offset, radius=0.03)
    without = images(lens(1e-9), source, SHARP).sum()
    assert images(lens(1.0), source, SHARP).sum() / without == pytest.approx(2 / offset, rel=0.02)


@pytest.mark.parametrize("index", [0.5, 1.0, 2.0, 4.0])
def test_half_of_the_light_lies_within_the_half_light_radius(index: float) -> None:
    edges = torch.logspace(-6, 3, 20001, dtype=torch.float64)
    middle = (edges[1:] * edges[:-1]).sqrt()
    light = brightness(middle[None], torch.zeros_like(middle)[None], galaxy(radius=1.0, sersic=index))[0]
    total = torch.cumsum(light * middle * edges.diff(), 0)
    assert total[middle <= 1].max() / total[-1] == pytest.approx(0.5, abs=2e-3)


def test_a_quarter_turn_of_lens_and_galaxy_turns_the_image() -> None:
    image = images(lens(1.0, 0.2, 0.1, 0.05, -0.03), galaxy(0.1, 0.05, 0.2, 1.0, 0.3, 0.1))
    turned = images(lens(1.0, -0.2, -0.1, -0.05, 0.03), galaxy(-0.05, 0.1, 0.2, 1.0, -0.3, -0.1))  # x, y to -y, x
    torch.testing.assert_close(turned, torch.rot90(image, -1, (1, 2)), atol=1e-5, rtol=1e-4)


def test_the_point_spread_is_a_gaussian_that_keeps_the_light() -> None:
    telescope = Telescope(psf=0.3)
    image = torch.zeros(1, 1, 64, 64, dtype=torch.float64)
    image[0, 0, 30, 34] = 1.0
    spread = blur(image, telescope)
    assert float(spread.sum()) == pytest.approx(1, abs=1e-6)
    width = 0.3 / (2 * math.sqrt(2 * math.log(2))) / telescope.pixel
    expected = ndimage.gaussian_filter(image[0, 0].numpy(), width, mode="constant")
    np.testing.assert_allclose(spread[0, 0], expected, atol=1e-4)
    assert torch.equal(blur(image, Telescope(psf=0.0)), image)


@pytest.mark.parametrize(
    ("invalid", "message"),
    [
        ({"einstein": 0.0}, "einstein: found 0, expected a radius above 0"),
        ({"einstein": math.nan}, "einstein: found nan"),
        ({"einstein": math.inf}, "einstein: found inf"),
        ({"e1": 0.8, "e2": -0.8}, "e1, e2: found 1.13137, expected an ellipticity below 1"),
        ({"g1": 1.5}, "g1, g2: found 1.5, expected a shear below 1"),
    ],
)
def test_lenses_with_invalid_parameters_are_refused(invalid: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        images(lens(**invalid), galaxy())


@pytest.mark.parametrize("invalid", [{"radius": 0.0}, {"sersic": 0.1}, {"e2": -1.0}, {"x": math.nan}])
def test_galaxies_with_invalid_parameters_are_refused(invalid: dict[str, float]) -> None:
    with pytest.raises(InputError, match="expected"):
        images(lens(), galaxy(**invalid))


@pytest.mark.parametrize("invalid", [{"psf": -0.1}, {"pixel": 0.0}, {"pixels": 0}, {"rays": 0}])
def test_telescopes_with_invalid_parameters_are_refused(invalid: dict[str, float]) -> None:
    with pytest.raises(InputError, match="expected"):
        Telescope(**invalid)  # type: ignore[arg-type]
