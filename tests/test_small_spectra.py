"""Simulated spectra obey the Beer-Lambert law, and an ideal spectrometer does not change them."""

from dataclasses import replace

import pytest
import torch

from benchmarks.small_spectra import Mixtures, absorbance, absorptivities, measure, simulate_spectra

MIXTURES = Mixtures(points=80)
IDEAL_SPECTROMETER = {"scatter": 0.0, "baseline": 0.0, "noise": 0.0}


@pytest.fixture
def pure() -> torch.Tensor:
    torch.manual_seed(0)
    return absorptivities(MIXTURES, 5).double()


def test_the_absorbance_of_a_mixture_is_the_sum_of_its_parts(pure: torch.Tensor) -> None:
    first, second = torch.rand(2, 5, 4).double()
    whole = absorbance(first + second, pure)
    assert torch.allclose(whole, absorbance(first, pure) + absorbance(second, pure))


def test_the_absorbance_is_proportional_to_path_and_concentration(pure: torch.Tensor) -> None:
    shares = torch.rand(5, 4).double()
    once = absorbance(shares, pure)
    assert torch.allclose(absorbance(3 * shares, pure), 3 * once)
    assert torch.allclose(absorbance(shares, pure, path=3.0), 3 * once)


def test_light_through_two_layers_is_weakened_by_both(pure: torch.Tensor) -> None:
    layers = [absorbance(torch.rand(5, 4).double(), pure) for _ in range(2)]
    both = 10 ** -(layers[0] + layers[1])
    assert torch.allclose(both, 10 ** -layers[0] * 10 ** -layers[1])


def test_concentrations_are_found_again_by_least_squares(pure: torch.Tensor) -> None:
    shares = torch.rand(5, 4).double()
    spectrum = measure(absorbance(shares, pure), replace(MIXTURES, **IDEAL_SPECTROMETER))
    solution = torch.linalg.lstsq(pure.mT, spectrum.unsqueeze(-1)).solution.squeeze(-1)
    assert torch.allclose(solution, shares, atol=1e-6)


def test_an_ideal_spectrometer_measures_the_absorbance(pure: torch.Tensor) -> None:
    spectra = absorbance(torch.rand(5, 4).double(), pure)
    assert torch.equal(measure(spectra, replace(MIXTURES, **IDEAL_SPECTROMETER)), spectra)


@pytest.mark.parametrize("effect", ["scatter", "baseline", "noise"])
def test_each_effect_alone_changes_the_spectrum(pure: torch.Tensor, effect: str) -> None:
    spectra = absorbance(torch.rand(5, 4).double(), pure)
    one = replace(MIXTURES, **(IDEAL_SPECTROMETER | {effect: 0.1}))
    assert not torch.allclose(measure(spectra, one), spectra, atol=1e-4)


def test_scatter_and_offset_leave_the_standard_normal_variate(pure: torch.Tensor) -> None:
    spectra = absorbance(torch.rand(5, 4).double(), pure)
    spectrum = measure(spectra, replace(MIXTURES, **(IDEAL_SPECTROMETER | {"scatter": 0.3})))
    deviation, mean = (torch.stack([torch.std_mean(x, dim=1)[i] for x in (spectra, spectrum)]) for i in (0, 1))
    both = [(x - m[:, None]) / s[:, None] for x, m, s in zip((spectra, spectrum), mean, deviation, strict=True)]
    assert torch.allclose(*both)


def test_concentrations_are_shares() -> None:
    x, shares = simulate_spectra(MIXTURES, 50)
    assert x.shape == (50, 80)
    assert torch.allclose(shares.sum(1), torch.ones(50))
    assert (shares > 0).all()
