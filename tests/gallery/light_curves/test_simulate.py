"""Supernovae are cooling black bodies, and redshift acts on them correctly."""

import math

import pytest
import torch
from scipy import constants

from vitreous.gallery.light_curves.simulate import (
    BANDS,
    CLASSES,
    KINDS,
    Supernovae,
    black_body,
    bolometric_light,
    flux,
    luminosity_distance,
    random_supernovae,
    temperature,
)


def double(values: list[float] | float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def plain(count: int = 4) -> Supernovae:
    """Supernovae without dust and without absorption by metals."""
    torch.manual_seed(0)
    s = Supernovae(*(part.double() for part in random_supernovae(count)))
    return s._replace(dust=torch.zeros_like(s.dust), cut=torch.full_like(s.cut, 1e-6))


def test_the_black_body_is_plancks_and_sums_to_one() -> None:
    kelvin, wavelength = 6000.0, 5e-7
    nu = constants.c / wavelength
    planck = 2 * constants.h * nu**3 / constants.c**2 / math.expm1(constants.h * nu / (constants.k * kelvin))
    expected = math.pi * planck / (constants.sigma * kelvin**4)
    assert float(black_body(double(wavelength), double(kelvin))) == pytest.approx(expected, rel=1e-6)
    x = torch.linspace(1e12, 5e15, 200_000, dtype=torch.float64)
    total = torch.trapezoid(black_body(constants.c / x, double(kelvin)), x)
    assert float(total) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("redshift", [0.05, 0.5, 1.0])
def test_the_total_flux_falls_with_the_square_of_the_luminosity_distance(redshift: float) -> None:
    """At any redshift: the K-correction moves light between bands and loses none."""
    s, count = plain(), 20_000
    nu = torch.logspace(12.5, 16, count, dtype=torch.float64).expand(4, count)
    observed = flux(s, double([redshift] * 4), double([[10.0]]) * (1 + redshift), 1e9 * constants.c / nu)
    total = torch.trapezoid(1e-32 * observed, nu)  # W/m²
    watts = (
        3.0128e28 * 10 ** (-0.4 * s.magnitude) * bolometric_light(s, double([[10.0]]))[:, 0]
    )  # IAU 2015: of magnitude 0
    metres = 1e6 * constants.parsec * luminosity_distance(double(redshift))
    torch.testing.assert_close(total, watts / (4 * math.pi * metres**2), rtol=1e-3, atol=0)


def test_time_is_dilated_and_colours_are_shifted() -> None:
    s, days = plain(), torch.linspace(-20, 100, 50, dtype=torch.float64).expand(4, 50)
    near, far = 0.1, 0.7
    stretch = (1 + far) / (1 + near)
    one = flux(s, double([near] * 4), days, torch.full_like(days, 500.0))
    other = flux(s, double([far] * 4), days * stretch, torch.full_like(days, 500.0 * stretch))
    ratio = other / one
    torch.testing.assert_close(ratio, ratio[:, :1].expand_as(ratio))
    expected = stretch * (luminosity_distance(double(near)) / luminosity_distance(double(far))) ** 2
    torch.testing.assert_close(ratio[:, 0], expected.expand(4))


def test_several_redshifts_at_a_time_give_the_same_fluxes() -> None:
    s, days = plain(), torch.linspace(0, 50, 7, dtype=torch.float64).expand(4, 7)
    wavelength = torch.full_like(days, 620.0)
    redshifts = double([[0.1] * 4, [0.4] * 4, [0.9] * 4])
    together = flux(s, redshifts, days, wavelength)
    assert together.shape == (3, 4, 7)
    for row, redshift in zip(together, redshifts, strict=True):
        torch.testing.assert_close(row, flux(s, redshift, days, wavelength))


def test_light_curves_rise_and_fall() -> None:
    s = plain()
    days = torch.linspace(-100, 400, 1001, dtype=torch.float64)
    curves = bolometric_light(s, days.expand(4, -1))
    assert (curves >= 0).all()
    assert (curves[:, 0] < 0.01).all()
    assert (curves[:, -1] < 0.02).all()
    top = days[curves.argmax(1)]
    assert (top > 0).all()
    assert curves[2].gt(0.5).sum() > 1.5 * curves[0].gt(0.5).sum()  # a plateau of three months


def test_a_supernova_cools_and_so_reddens() -> None:
    s = plain()
    days = torch.linspace(0, 200, 20, dtype=torch.float64).expand(4, 20)
    kelvin = temperature(s, days)
    assert (kelvin.diff(dim=1) < 0).all()
    assert (kelvin >= s.cool[:, None]).all()
    blue, red = (flux(s, double([0.1] * 4), days, torch.full_like(days, BANDS[band])) for band in "gz")
    assert ((blue / red).diff(dim=1) < 0).all()


def test_dust_and_metals_absorb_blue_light_most() -> None:
    s, days = plain(), double([[5.0]]).expand(4, 1)
    shares = []
    for band in "gz":
        at = torch.full_like(days, BANDS[band])
        clear, dusty, blanketed = (
            flux(each, double([0.5] * 4), days, at)
            for each in (s, s._replace(dust=s.dust + 0.5), s._replace(cut=s.cut * 0 + 400.0))
        )
        shares.append((dusty / clear, blanketed / clear))
    (dust_g, metal_g), (dust_z, metal_z) = shares
    assert (dust_g < dust_z).all()
    assert (dust_z < 1).all()
    assert (metal_g < 1).all()
    assert (metal_z == 1).all()


def test_kinds_are_equally_frequent_with_their_typical_values() -> None:
    torch.manual_seed(0)
    s = random_supernovae(8000)
    assert torch.bincount(s.kind).tolist() == [2000] * len(CLASSES)
    for number, kind in enumerate(KINDS):
        own = s.kind == number
        assert float(s.magnitude[own].mean()) == pytest.approx(kind.magnitude, abs=0.1)
        assert float(s.rise[own].median()) == pytest.approx(kind.rise, rel=0.05)
