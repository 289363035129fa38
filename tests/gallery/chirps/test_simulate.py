"""Chirps follow the Newtonian law, whitened noise is white and signals have the requested strength."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import constants, integrate, stats

from vitreous.core.errors import InputError
from vitreous.gallery.chirps.simulate import (
    MEGAPARSEC,
    SUN,
    Chirps,
    Events,
    chirps_source,
    colour,
    frequency,
    last_frequency,
    phase,
    power_spectrum,
    random_events,
    signals,
    simulate_segments,
    strain,
    whiten,
)

CHIRPS = Chirps()


def events(mass: float, count: int = 1, snr: float = 8.0, start: float = 0.0) -> Events:
    values = (mass, 0.9, start, snr)
    return Events(*(torch.full((count,), value, dtype=torch.float64) for value in values))


def test_solar_mass_and_megaparsec_in_seconds() -> None:
    assert pytest.approx(1.32712440018e20 / constants.c**3, rel=1e-6) == SUN  # heliocentric gravitational constant
    assert pytest.approx(1e6 * constants.parsec / constants.c, rel=1e-9) == MEGAPARSEC


def test_the_frequency_rises_by_gravitational_radiation() -> None:
    """df/dt = 96/5 π^(8/3) m^(5/3) f^(11/3) (Peters and Mathews)."""
    time_left = torch.linspace(0.05, 2, 50, dtype=torch.float64, requires_grad=True)
    mass = torch.tensor(8.7, dtype=torch.float64)
    f = frequency(time_left, mass)
    (slope,) = torch.autograd.grad(f.sum(), time_left)
    expected = 96 / 5 * math.pi ** (8 / 3) * (SUN * mass) ** (5 / 3) * f.detach() ** (11 / 3)
    torch.testing.assert_close(-slope, expected)


def test_the_phase_is_the_integral_of_the_frequency() -> None:
    for mass in (5.0, 20.0):
        m = torch.tensor(mass, dtype=torch.float64)
        cycles = integrate.quad(lambda t, m=m: float(frequency(torch.tensor(t, dtype=torch.float64), m)), 0.1, 0.7)[0]
        ends = phase(torch.tensor([0.1, 0.7], dtype=torch.float64), m)
        assert float(ends[0] - ends[1]) / (2 * math.pi) == pytest.approx(cycles, rel=1e-8)


def test_the_last_stable_orbit_of_two_suns_is_at_2200_hertz() -> None:
    total = torch.tensor(2.0, dtype=torch.float64)
    assert float(last_frequency(total * 0.25**0.6)) == pytest.approx(4396 / 2, rel=1e-3)


def test_the_wave_has_the_sign_of_the_analytic_phase() -> None:
    e = events(10.0)
    wave = strain(CHIRPS, e)[0]
    clock = torch.arange(CHIRPS.points, dtype=torch.float64) / CHIRPS.rate
    inside = (clock > 0.42) & (clock < 0.8)
    expected = torch.cos(phase(0.9 - clock[inside], e.chirp_mass))
    assert torch.equal(wave[inside].sign(), expected.sign())


def test_the_amplitude_grows_with_the_frequency_and_falls_with_the_distance() -> None:
    near, far = (strain(CHIRPS, events(10.0), d) for d in (100.0, 400.0))
    torch.testing.assert_close(near, 4 * far)
    both = torch.cat([strain(CHIRPS, events(10.0, start=start)) for start in (0.0, math.pi / 2)]).square().sum(0).sqrt()
    clock = torch.arange(CHIRPS.points, dtype=torch.float64) / CHIRPS.rate
    inside = (clock > 0.42) & (clock < 0.85)
    law = frequency(0.9 - clock[inside], torch.tensor(10.0, dtype=torch.float64)) ** (2 / 3)
    ratio = both[inside] / law
    torch.testing.assert_close(ratio, ratio[0].expand_as(ratio))


def test_a_signal_begins_and_ends_inside_its_segment() -> None:
    torch.manual_seed(0)
    e = random_events(CHIRPS, 200)
    waves = strain(CHIRPS, e)
    clock = torch.arange(CHIRPS.points) / CHIRPS.rate
    before = clock < e.coalescence[:, None] - CHIRPS.lasting - 1e-6
    after = clock > e.coalescence[:, None]
    assert waves.isfinite().all()
    assert (waves[before] == 0).all()
    assert (waves[after] == 0).all()


def test_the_noise_spectrum_has_its_seismic_thermal_and_shot_noise_parts() -> None:
    f = torch.tensor([20.0, 25.0, 30.0, 60.0, 150.0, 1000.0, 2000.0], dtype=torch.float64)
    s = power_spectrum(f)
    assert s[0] == s[1]
    assert s[1] > 1e3 * s[2]
    assert s[3] > s[4] < s[5]
    assert float(s[4]) == pytest.approx(9e-4 * (0.16 + 0.52 + 0.32), rel=1e-9)
    assert float(s[6] / s[5]) == pytest.approx(4, rel=0.05)


def test_whitening_inverts_colouring() -> None:
    white = torch.randn(4, CHIRPS.points, dtype=torch.float64)
    torch.testing.assert_close(whiten(CHIRPS, colour(CHIRPS, white)), white)


def test_whitened_noise_is_white_and_of_variance_one() -> None:
    torch.manual_seed(0)
    noise = whiten(CHIRPS, colour(CHIRPS, torch.randn(400, CHIRPS.points)))
    assert float(noise.var()) == pytest.approx(1, abs=0.01)
    spectra = torch.fft.rfft(noise).abs().square().mean(0)[1:-1] / CHIRPS.points
    assert stats.kstest(2 * 400 * spectra.numpy(), stats.chi2(800).cdf).pvalue > 0.01
    assert stats.kstest(noise[:20].flatten().numpy(), "norm").pvalue > 0.01


def test_coloured_noise_has_the_power_spectrum() -> None:
    torch.manual_seed(0)
    noise = colour(CHIRPS, torch.randn(400, CHIRPS.points, dtype=torch.float64))
    power = 2 * torch.fft.rfft(noise).abs().square().mean(0) / (CHIRPS.points * CHIRPS.rate)  # one-sided periodogram
    f = torch.fft.rfftfreq(CHIRPS.points, 1 / CHIRPS.rate, dtype=torch.float64)
    ratio = (power / power_spectrum(f))[1:-1]
    assert float(ratio.mean()) == pytest.approx(1, abs=0.01)
    assert float(ratio.std()) == pytest.approx(1 / math.sqrt(400), rel=0.15)


@pytest.mark.parametrize("snr", [4.0, 12.0])
def test_signals_have_the_requested_optimal_signal_to_noise_ratio(snr: float) -> None:
    """ρ² = 4 ∫ |h(f)|² / S(f) df."""
    e = events(8.0, snr=snr)
    wave = signals(CHIRPS, e)
    h = torch.fft.rfft(colour(CHIRPS, wave)) / CHIRPS.rate
    f = torch.fft.rfftfreq(CHIRPS.points, 1 / CHIRPS.rate, dtype=torch.float64)
    rho = (4 * (h.abs().square() / power_spectrum(f)).sum() / CHIRPS.seconds).sqrt()
    assert float(rho) == pytest.approx(snr, rel=1e-9)
    assert float(wave.norm()) == pytest.approx(snr, rel=1e-9)


def test_every_second_segment_contains_a_chirp() -> None:
    torch.manual_seed(0)
    x, label = simulate_segments(CHIRPS, 1000)
    assert x.shape == (1000, 1, CHIRPS.points)
    assert int(label.sum()) == 500
    power = x.square().sum((1, 2)) - CHIRPS.points  # ρ² more with a chirp, on average
    assert float(power[label == 0].mean()) == pytest.approx(0, abs=10)
    assert float(power[label == 1].mean()) == pytest.approx((16**3 - 4**3) / 36, abs=14)


def test_events_stay_within_their_bounds() -> None:
    e = random_events(CHIRPS, 5000)
    for values, (least, largest) in ((e.chirp_mass, (5, 20)), (e.coalescence, (0.65, 0.95)), (e.snr, (4, 16))):
        assert (values >= least - 1e-5).all()
        assert (values <= largest + 1e-5).all()
    assert stats.kstest((e.chirp_mass / 5).log().numpy() / math.log(4), "uniform").pvalue > 1e-3


def test_a_source_has_fixed_parts_and_new_training_segments() -> None:
    first, second = (chirps_source(train=8, validation=6, test=10) for _ in range(2))
    assert np.array_equal(first.x, second.x)
    assert [len(first.parts[part]) for part in ("train", "validation", "test")] == [8, 6, 10]
    assert first.axes[0].spacing * CHIRPS.points == 1
    assert first.fresh is not None
    batches = [first.fresh(4, torch.device("cpu"))[0] for _ in range(2)]
    assert batches[0].shape == (4, *first.input)
    assert not torch.equal(*batches)


@pytest.mark.parametrize(
    "invalid",
    [
        {"chirp_mass": (0.0, 5.0)}, {"chirp_mass": (5.0,)}, {"snr": (9.0, 8.0)}, {"coalescence": (0.3, 0.9)},
        {"coalescence": (0.7, 1.2)}, {"rate": 256}, {"lasting": 0.05}, {"seconds": math.nan},
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused(invalid: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"^[a-z_]+: found"):
        replace(CHIRPS, **invalid)
