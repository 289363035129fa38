"""Distances are those of the textbook; supernovae shine as black bodies, and redshift acts on them as it must."""

import math

import pytest
import torch
from scipy import constants, integrate

from vitreous.errors import InputError
from vitreous.sim.cosmology import check_redshift, distance_modulus, luminosity_distance
from vitreous.sim.supernovae import (
    BANDS,
    CLASSES,
    KINDS,
    Supernovae,
    black_body,
    flux,
    light,
    random_supernovae,
    temperature,
)


def double(values: list[float] | float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def plain(count: int = 4) -> Supernovae:
    """Without dust, and without metals that take light away."""
    torch.manual_seed(0)
    s = Supernovae(*(part.double() for part in random_supernovae(count)))
    return s._replace(dust=torch.zeros_like(s.dust), cut=torch.full_like(s.cut, 1e-6))


def test_the_luminosity_distance_is_the_integral() -> None:
    def by_hand(z: float) -> float:
        found = integrate.quad(lambda x: 1 / math.sqrt(0.3 * (1 + x) ** 3 + 0.7), 0, z, epsabs=1e-12)[0]
        return (1 + z) * constants.c / 1000 / 70 * found

    redshifts = [0.01, 0.05, 0.5, 1.0, 3.0]
    wanted = double([by_hand(z) for z in redshifts])
    torch.testing.assert_close(luminosity_distance(double(redshifts)), wanted, rtol=1e-9, atol=0)
    assert float(luminosity_distance(double(0.5))) == pytest.approx(2832.9, abs=0.1)


def test_near_by_distance_is_proportional_to_redshift() -> None:
    """Hubble's law, with the next order: d = c z / H₀ (1 + (1 − q₀) z / 2), q₀ = −0.55."""
    z = 0.01
    assert float(luminosity_distance(double(z))) == pytest.approx(299792.458 / 70 * z * (1 + 1.55 * z / 2), rel=1e-4)
    assert float(distance_modulus(double(0.5))) == pytest.approx(5 * math.log10(2832.94e6 / 10), abs=1e-4)


def test_the_black_body_is_plancks_and_sums_to_one() -> None:
    kelvin, wavelength = 6000.0, 5e-7
    nu = constants.c / wavelength
    planck = 2 * constants.h * nu**3 / constants.c**2 / math.expm1(constants.h * nu / (constants.k * kelvin))
    wanted = math.pi * planck / (constants.sigma * kelvin**4)
    assert float(black_body(double(wavelength), double(kelvin))) == pytest.approx(wanted, rel=1e-6)
    x = torch.linspace(1e12, 5e15, 200_000, dtype=torch.float64)
    total = torch.trapezoid(black_body(constants.c / x, double(kelvin)), x)
    assert float(total) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("redshift", [0.05, 0.5, 1.0])
def test_all_light_together_falls_with_the_square_of_the_luminosity_distance(redshift: float) -> None:
    """Whatever the redshift: the K-correction moves light from band to band and loses none."""
    s, count = plain(), 20_000
    nu = torch.logspace(12.5, 16, count, dtype=torch.float64).expand(4, count)
    seen = flux(s, double([redshift] * 4), double([[10.0]]) * (1 + redshift), 1e9 * constants.c / nu)
    total = torch.trapezoid(1e-32 * seen, nu)  # W/m²
    watts = 3.0128e28 * 10 ** (-0.4 * s.magnitude) * light(s, double([[10.0]]))[:, 0]  # IAU 2015: of magnitude 0
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
    wanted = stretch * (luminosity_distance(double(near)) / luminosity_distance(double(far))) ** 2
    torch.testing.assert_close(ratio[:, 0], wanted.expand(4))


def test_redshifts_may_be_tried_together() -> None:
    s, days = plain(), torch.linspace(0, 50, 7, dtype=torch.float64).expand(4, 7)
    wavelength = torch.full_like(days, 620.0)
    tried = double([[0.1] * 4, [0.4] * 4, [0.9] * 4])
    found = flux(s, tried, days, wavelength)
    assert found.shape == (3, 4, 7)
    for row, redshift in zip(found, tried, strict=True):
        torch.testing.assert_close(row, flux(s, redshift, days, wavelength))


def test_light_rises_lasts_and_falls() -> None:
    s = plain()
    days = torch.linspace(-100, 400, 1001, dtype=torch.float64)
    curves = light(s, days.expand(4, -1))
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


def test_dust_and_metals_take_the_blue_first() -> None:
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


def test_there_are_as_many_of_each_kind_with_their_own_middles() -> None:
    torch.manual_seed(0)
    s = random_supernovae(8000)
    assert torch.bincount(s.kind).tolist() == [2000] * len(CLASSES)
    for number, kind in enumerate(KINDS):
        own = s.kind == number
        assert float(s.magnitude[own].mean()) == pytest.approx(kind.magnitude, abs=0.1)
        assert float(s.rise[own].median()) == pytest.approx(kind.rise, rel=0.05)


@pytest.mark.parametrize("redshift", [0.0, -0.1, math.nan])
def test_a_redshift_of_zero_or_below_is_refused(redshift: float) -> None:
    with pytest.raises(InputError, match=r"redshift: found .*, expected a redshift above 0"):
        check_redshift("redshift", redshift)
