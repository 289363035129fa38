"""Light curves of a survey are irregular sets of observations around the first detection, with correct errors."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from vitreous.core.errors import InputError
from vitreous.gallery.light_curves.simulate import BANDS, CLASSES, flux
from vitreous.gallery.light_curves.source import (
    ROWS,
    SYSTEMS,
    Curves,
    Survey,
    curves_source,
    first_detection,
    microjansky,
    pack_curve,
    pack_observations,
    random_visits,
    scale_flux,
    simulate_curves,
    unscale_flux,
)

SURVEY = Survey()


@pytest.fixture(scope="module")
def curves() -> Curves:
    torch.manual_seed(0)
    return simulate_curves(SURVEY, 800)


def test_an_observation_has_one_band_and_a_missing_one_is_zeros(curves: Curves) -> None:
    x = curves.x
    assert x.shape == (800, len(ROWS), SURVEY.visits)
    bands = x[:, 2 : 2 + len(BANDS)].sum(1)
    assert set(bands.unique().tolist()) == {0.0, 1.0}
    assert (x.abs().sum(1)[bands == 0] == 0).all()
    assert (x[:, 1][bands == 1] > 0).all()


def test_time_starts_at_the_first_detection(curves: Curves) -> None:
    bright, error, days = unscale_flux(curves.x[:, 0]), unscale_flux(curves.x[:, 1]), curves.x[:, -1]
    there = (curves.x != 0).any(1)
    detected = there & (bright > 5.01 * error)
    first = days.masked_fill(~detected, math.inf).amin(1)
    assert (first[first.isfinite()].abs() < 1e-3).float().mean() > 0.98
    assert first.isfinite().float().mean() > 0.97
    assert (days[there] >= -30).all()
    assert (days[there] <= 130).all()


def test_errors_are_the_standard_deviation_of_the_noise(curves: Curves) -> None:
    there = (curves.x != 0).any(1)
    wavelength = torch.tensor(list(BANDS.values()))[curves.x[:, 2 : 2 + len(BANDS)].argmax(1)]
    truth = flux(curves.supernovae, curves.redshift, curves.x[:, -1] - curves.rise[:, None], wavelength)
    pulls = ((unscale_flux(curves.x[:, 0]) - truth) / unscale_flux(curves.x[:, 1]))[there]
    assert stats.kstest(pulls[::7].numpy(), "norm").pvalue > 1e-3
    assert float(pulls.std()) == pytest.approx(1, abs=0.02)


def test_observations_are_irregular_and_leave_gaps() -> None:
    torch.manual_seed(0)
    visits = random_visits(SURVEY, 500)
    steps = visits.days.diff(dim=1)
    assert stats.kstest(steps[:, ::9].flatten().numpy() / SURVEY.cadence, "expon").pvalue > 1e-3
    without = random_visits(replace(SURVEY, gap=0.0), 500)
    assert visits.valid.float().mean() < without.valid.float().mean() - 0.05
    assert (visits.days[visits.valid] < SURVEY.season).all()


def test_the_error_is_a_fifth_of_the_limiting_flux() -> None:
    visits = random_visits(replace(SURVEY, weather=0.0), 5)
    depth = torch.tensor(SURVEY.depth)[visits.band]
    torch.testing.assert_close(5 * visits.error, microjansky(depth))
    assert float(microjansky(torch.tensor(23.9))) == 1  # AB


def test_faint_kinds_are_nearby_and_all_are_within_the_redshift_range(curves: Curves) -> None:
    middle = [float(curves.redshift[curves.kind == k].median()) for k in range(len(CLASSES))]
    least, largest = SURVEY.redshift
    assert (curves.redshift >= least).all()
    assert (curves.redshift <= largest).all()
    assert middle[CLASSES.index("superluminous")] > middle[CLASSES.index("Ia")] > middle[CLASSES.index("II-P")]


def test_unscaling_inverts_scaling() -> None:
    values = torch.tensor([-3.0, 0.0, 0.01, 1.0, 500.0], dtype=torch.float64)
    torch.testing.assert_close(unscale_flux(scale_flux(values)), values)


def test_equal_seeds_give_equal_curves() -> None:
    batches = []
    for _ in range(2):
        torch.manual_seed(5)
        batches.append(simulate_curves(SURVEY, 12).x)
    assert torch.equal(*batches)


def test_observations_of_a_user_are_packed_as_simulated_ones(curves: Curves) -> None:
    x = curves.x[3]
    own = x[:, (x != 0).any(0)].double()
    bands = [list(BANDS)[number] for number in own[2 : 2 + len(BANDS)].argmax(0)]
    sample = pack_curve(
        (own[-1] + 59_000).tolist(), unscale_flux(own[0]).tolist(), unscale_flux(own[1]).tolist(), bands
    )
    assert sample.shape == (len(ROWS), SURVEY.visits)
    assert np.allclose(sample[:, : own.shape[1]], own.numpy(), atol=1e-4)
    assert (sample[:, own.shape[1] :] == 0).all()


def test_two_observations_are_enough() -> None:
    sample = pack_curve([59_004.0, 59_000.0], [3.0, 4.0], [0.2, 0.2], ["r", "g"])
    assert (sample != 0).any(0).sum() == 2
    assert sample[-1, :2].tolist() == [4.0, 0.0]


def test_the_order_of_observations_does_not_matter_to_the_first_detection() -> None:
    days, bright = torch.tensor([[5.0, 1.0, 9.0]]), torch.tensor([[8.0, 9.0, 1.0]])
    there, error = torch.tensor([[True, True, True]]), torch.ones(1, 3)
    assert first_detection(days, bright, error, there).tolist() == [[1.0]]
    assert first_detection(days, bright, error, there & (days != 1)).tolist() == [[5.0]]
    assert first_detection(days, bright / 4, error, there).tolist() == [[1.0]]  # never detected: where it is brightest
    assert (pack_observations(days + 200, bright, error, torch.zeros(1, 3).long(), there) == 0).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [], [], []), "curve: found 0 observations, expected at least 2"),
        (([1.0], [1.0], [1.0], ["r"]), "curve: found 1 observations, expected at least 2"),
        (([1.0, 900.0], [9.0, 9.0], [1.0, 1.0], ["r", "r"]), "found 1 observations from .*, expected 2 to 80"),
        ((["a", "b"], [9.0, 9.0], [1.0, 1.0], ["r", "r"]), "not numbers"),
        (([1.0, 2.0], [1.0], [1.0], ["r"]), "curve: found 2 of days, 1 of flux"),
        (([1.0, 2.0], [1.0, 1.0], [0.0, 1.0], ["r", "r"]), "an error not above 0"),
        (([math.nan, 2.0], [1.0, 1.0], [1.0, 1.0], ["r", "r"]), "not finite"),
        (([1.0, 2.0], [1.0, 1.0], [1.0, 1.0], ["r", "x"]), "band: unknown choice 'x'; expected one of: g, r, i, z"),
        (([1.0] * 81, [9.0] * 81, [1.0] * 81, ["r"] * 81), "found 81 observations .*, expected 2 to 80"),
    ],
)
def test_invalid_observations_are_refused_in_one_line(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as fault:
        pack_curve(*arguments)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_source_has_fixed_parts_and_new_training_curves(system: str) -> None:
    first, second = (curves_source(system, train=8, validation=8, test=8) for _ in range(2))
    assert np.array_equal(first.x, second.x)
    assert first.fresh is not None
    x, y = first.fresh(8, torch.device("cpu"))
    assert x.shape == (8, *first.input)
    assert y.shape == ((8,) if system == "class" else (8, 1))
    assert not torch.equal(x, first.fresh(8, torch.device("cpu"))[0])


@pytest.mark.parametrize(
    "invalid",
    [
        {"redshift": (0.0, 1.0)}, {"redshift": (-0.1, 1.0)}, {"redshift": (0.5, 0.2)}, {"redshift": (0.5,)},
        {"visits": 0}, {"cadence": 0.0}, {"season": -1.0}, {"depth": (24.0,)}, {"dust": -0.1},
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused(invalid: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(invalid))):
        replace(SURVEY, **invalid)


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(InputError, match="system: unknown choice 'mass'; expected one of: class, redshift"):
        curves_source("mass")
