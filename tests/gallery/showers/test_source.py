"""Both layouts contain the same values, and sources are reproducible."""

import math

import numpy as np
import pytest
import torch

from vitreous.gallery.showers.simulate import (
    SAMPLES,
    Array,
    draw_primaries,
    merit_factor,
    observe,
    shower_source,
    station_features,
    to_grid,
    to_set,
)

ARRAY = Array()


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def test_the_set_and_the_map_contain_the_same_values() -> None:
    recording = observe(draw_primaries(5, ARRAY), ARRAY)
    packed, grid = to_set(recording, ARRAY), to_grid(recording, ARRAY)
    assert packed.shape == (5, SAMPLES + 4, 61)
    assert grid.shape == (5, SAMPLES + 2, 9, 9)
    q, r = (ARRAY.axial() + ARRAY.rings).T
    torch.testing.assert_close(grid[:, :SAMPLES, q, r], packed[:, :SAMPLES])
    torch.testing.assert_close(grid[:, SAMPLES:, q, r], packed[:, SAMPLES + 2 :])
    torch.testing.assert_close(packed.abs().sum(1) > 0, recording.read)
    assert float(station_features(recording, ARRAY)[0].max()) < 10


def test_the_merit_factor_is_that_of_two_distributions() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat([0.0, math.log(56)], 50_000)
    estimate = rng.normal(np.repeat([0.0, 2.0], 50_000), np.repeat([1.0, 0.5], 50_000))
    assert merit_factor(estimate, truth) == pytest.approx(2 / math.sqrt(1.25), rel=0.02)


def test_a_source_is_the_same_every_time() -> None:
    one_source, other = (shower_source("set", train=4, validation=4, test=4) for _ in range(2))
    np.testing.assert_array_equal(one_source.x, other.x)
    assert one_source.fresh is not None
    assert one_source.fresh(3, torch.device("cpu"))[0].shape == (3, SAMPLES + 4, 61)
