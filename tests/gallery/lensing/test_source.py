"""Random lenses stay within their survey, and sources have fixed parts and new training samples."""

import numpy as np
import pytest
import torch

from vitreous.core.errors import InputError
from vitreous.gallery.lensing.simulate import TARGETS, Survey, Telescope, lens_source, random_lenses, simulate_images


@pytest.mark.parametrize(
    "invalid",
    [{"einstein": (0.0, 1.0)}, {"einstein": (2.0, 1.0)}, {"ellipticity": 1.0}, {"shear": -0.1}, {"signal": (5,)}],
)
def test_surveys_with_invalid_parameters_are_refused(invalid: dict[str, float]) -> None:
    with pytest.raises(InputError, match="expected"):
        Survey(**invalid)  # type: ignore[arg-type]


def test_random_lenses_are_valid_and_within_the_limits_of_the_survey() -> None:
    survey = Survey(ellipticity=0.9, flattening=0.9)
    lenses, galaxies = random_lenses(survey, 2000)
    lenses.check()
    galaxies.check()
    assert survey.einstein[0] <= lenses.einstein.min()
    assert lenses.einstein.max() <= survey.einstein[1]
    assert torch.hypot(lenses.g1, lenses.g2).max() <= survey.shear
    assert torch.hypot(galaxies.x, galaxies.y).max() <= survey.offset


def test_noise_has_deviation_one_and_the_brightest_pixel_its_signal() -> None:
    torch.manual_seed(1)
    x, _ = simulate_images(Survey(signal=(50.0, 50.0)), Telescope(), 200)
    corner = x[:, 0, :6, :6]
    assert float(corner.std()) == pytest.approx(1, abs=0.03)
    assert float(corner.mean()) == pytest.approx(0, abs=0.05)
    assert float(x.amax((1, 2, 3)).mean()) == pytest.approx(50.5, abs=1)


def test_a_source_has_fixed_parts_and_fresh_samples_by_the_seed() -> None:
    source = lens_source(train=10, validation=20, test=30)
    assert [len(rows) for rows in source.parts.values()] == [10, 20, 30]
    assert source.input == (1, 64, 64)
    assert source.targets == TARGETS
    assert np.array_equal(source.x, lens_source.__wrapped__(train=10, validation=20, test=30).x)
    assert source.fresh is not None
    batches = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        batches.append(source.fresh(4, torch.device("cpu"))[0])
    assert torch.equal(batches[0], batches[1])
    assert not torch.equal(batches[0], batches[2])
