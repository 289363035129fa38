"""The matched filter is normal in noise and gives ρ for a signal, and its bank covers all signals."""

import math
from dataclasses import replace

import pytest
import torch
from scipy import integrate, stats

from vitreous.core.errors import InputError
from vitreous.gallery.chirps.matched_filter import (
    TemplateBank,
    averaged_log_likelihood,
    compare_detectors,
    efficiency,
    known_signal_efficiency,
)
from vitreous.gallery.chirps.simulate import Chirps, Events, random_events, signals, simulate_segments

SHORT = Chirps(seconds=0.25, chirp_mass=(15.0, 30.0), lasting=0.17, coalescence=(0.18, 0.24))


@pytest.fixture(scope="module")
def bank() -> TemplateBank:
    return TemplateBank(SHORT, 24)


def of_strength(snr: float, count: int, chirps: Chirps = SHORT) -> Events:
    return random_events(chirps, count)._replace(snr=torch.full((count,), snr))


def test_the_default_bank_misses_less_than_two_percent_of_any_signal() -> None:
    torch.manual_seed(0)
    waves = signals(Chirps(), of_strength(1.0, 300, Chirps()))
    match = TemplateBank(Chirps()).loudest(waves)
    assert match.max() < 1.0001
    assert match.min() > 0.985


def test_in_noise_each_phase_is_unit_normal_and_the_loudness_rayleigh(bank: TemplateBank) -> None:
    torch.manual_seed(0)
    z = bank.filter(torch.randn(3000, SHORT.points))[:, 7, 40]
    for part in (z.real, z.imag):
        assert stats.kstest(part.numpy(), "norm").pvalue > 0.01
    assert stats.kstest(z.abs().numpy(), "rayleigh").pvalue > 0.01
    assert abs(float((z.real * z.imag).mean())) < 4 / math.sqrt(3000)


def test_the_filter_gives_the_signal_to_noise_ratio_of_a_signal(bank: TemplateBank) -> None:
    torch.manual_seed(0)
    time, mass, rho, count = 50, 11, 9.0, 1000
    values = bank.masses[mass], bank.times[time], 0.0, rho
    wave = signals(SHORT, Events(*(torch.full((count,), float(value)) for value in values)))
    z = bank.filter(wave + torch.randn_like(wave))[:, mass, time]
    assert float(z.real.mean()) == pytest.approx(rho, abs=4 / math.sqrt(count))
    assert float(z.real.std()) == pytest.approx(1, abs=0.1)
    assert float(bank.filter(wave[:1]).abs()[0, mass].argmax()) == time


def test_the_phase_of_the_signal_is_the_phase_of_the_output(bank: TemplateBank) -> None:
    for start in (0.3, 2.0, -2.5):
        values = bank.masses[5], bank.times[20], start, 10.0
        z = bank.filter(signals(SHORT, Events(*(torch.full((1,), float(value)) for value in values))))[0, 5, 20]
        assert float(z.angle()) == pytest.approx(start, abs=0.05)


def test_the_average_over_phase_and_strength_is_the_integral() -> None:
    for loudness in (0.5, 5.0, 12.0):

        def likelihood(angle: float, rho: float, loudness: float = loudness) -> float:
            return math.exp(rho * loudness * math.cos(angle) - rho**2 / 2)

        total = integrate.dblquad(likelihood, 4, 16, -math.pi, math.pi, epsrel=1e-6)[0] / (2 * math.pi * 12)
        average = averaged_log_likelihood(SHORT, torch.tensor([loudness], dtype=torch.float64))
        assert float(average) == pytest.approx(math.log(total), abs=2e-3)


def test_the_averaged_likelihood_ratio_is_a_calibrated_probability(bank: TemplateBank) -> None:
    """Among segments drawn with equal odds, the fraction of chirps equals the predicted probability."""
    torch.manual_seed(1)
    weak = Chirps(seconds=0.25, chirp_mass=(15.0, 30.0), lasting=0.17, coalescence=(0.18, 0.24), snr=(2.0, 6.0))
    x, label = simulate_segments(weak, 3000)
    probability = TemplateBank(weak, 24).log_likelihood_ratio(x[:, 0]).sigmoid()
    for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 1.0)):
        chosen = (probability >= low) & (probability < high)
        error = 3.5 * 0.5 / math.sqrt(int(chosen.sum()))
        assert abs(float(probability[chosen].mean() - label[chosen].float().mean())) < error


def test_a_known_template_beats_a_bank_and_strong_signals_are_all_detected(bank: TemplateBank) -> None:
    torch.manual_seed(2)
    noise = torch.randn(1500, SHORT.points)
    for statistic in (bank.loudest, bank.log_likelihood_ratio):
        quiet = statistic(noise)
        shares = []
        for snr in (4.0, 6.0, 12.0):
            waves = signals(SHORT, of_strength(snr, 300))
            share = efficiency(quiet, statistic(waves + torch.randn_like(waves)), 0.01)
            assert share <= float(known_signal_efficiency(torch.tensor(snr), 0.01)) + 0.02
            shares.append(share)
        assert shares[0] < shares[1] < shares[2] == 1


def test_without_a_signal_the_efficiency_is_the_rate_of_false_alarms() -> None:
    torch.manual_seed(3)
    noise, other = torch.randn(2, 20_000)
    assert efficiency(noise, noise, 0.01) == 0.01
    assert efficiency(noise, other, 0.01) == pytest.approx(0.01, abs=0.004)
    assert float(known_signal_efficiency(torch.tensor(0.0), 0.01)) == pytest.approx(0.01, rel=1e-4)


def test_too_few_segments_or_templates_are_refused() -> None:
    with pytest.raises(InputError, match=r"false_alarms: found .* of 500"):
        efficiency(torch.zeros(500), torch.zeros(5), 0.001)
    with pytest.raises(InputError, match="count"):
        TemplateBank(SHORT, 1)


def test_detectors_are_compared_on_the_same_segments() -> None:
    bank = TemplateBank(SHORT, 8)
    torch.manual_seed(0)
    detectors = {"one": bank.loudest, "same": lambda segments: 2 * bank.loudest(segments) + 1}
    populations = [replace(SHORT, snr=(3.0, 3.0)), replace(SHORT, snr=(12.0, 12.0)), SHORT]
    efficiencies = compare_detectors(detectors, populations, 400, 50, (0.01, 0.1))
    assert efficiencies["one"] == efficiencies["same"]
    assert efficiencies["one"][0.01][0] <= efficiencies["one"][0.1][0]
    assert efficiencies["one"][0.01][1] == 1
    assert signals(SHORT, random_events(SHORT, 2)).shape == (2, SHORT.points)


def test_segments_of_two_lengths_are_not_compare_detectors() -> None:
    with pytest.raises(InputError, match="of one length"):
        compare_detectors({"one": TemplateBank(Chirps(), 2).loudest}, [Chirps(), Chirps(rate=4096)], 100, 1, (0.05,))
