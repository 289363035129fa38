import math

import numpy as np
import pytest
import torch

from vitreous.errors import InputError
from vitreous.sim.shower_source import as_grid, as_set, known, merit, shower_source
from vitreous.sim.showers import (
    NUCLEI,
    SAMPLES,
    Array,
    Primaries,
    draw_primaries,
    footprint,
    front,
    mean_depth,
    observe,
    signals,
    uncertainty,
)

ARRAY = Array()


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def one(nucleons: float = 1.0, energy: float = 10.0, zenith: float = 0.0, azimuth: float = 0.0) -> Primaries:
    """An average shower in the middle of the array."""
    a, e, theta, phi = (torch.tensor([value]) for value in (nucleons, energy, zenith, azimuth))
    return Primaries(a, e, theta, phi, torch.zeros(1, 2), mean_depth(a, e), a**0.08 * (e / 10) ** 0.92)


def test_every_inner_station_has_six_neighbours() -> None:
    places = ARRAY.places().double()
    apart = torch.cdist(places, places)
    neighbours = ((apart - ARRAY.spacing).abs() < 1).sum(1)
    q, r = ARRAY.axial().T
    inner = torch.stack([q, r, q + r]).abs().amax(0) < ARRAY.rings
    assert len(places) == 61
    assert (neighbours[inner] == 6).all()
    assert apart[apart > 0].min() > ARRAY.spacing - 1


def test_the_maximum_deepens_with_the_energy_a_nucleon() -> None:
    drawn = draw_primaries(40_000, ARRAY)
    for nucleons in NUCLEI.values():
        here = drawn.nucleons == nucleons
        depth, expected = drawn.depth[here], mean_depth(drawn.nucleons, drawn.energy)[here]
        assert abs(float((depth - expected).mean())) < 3  # g/cm²
    light, heavy = (drawn.nucleons == a for a in (1, 56))
    spread = [float((drawn.depth - mean_depth(drawn.nucleons, drawn.energy))[part].std()) for part in (light, heavy)]
    assert spread[0] == pytest.approx(60, rel=0.05)
    assert spread[1] == pytest.approx(60 * 56**-0.25, rel=0.05)


def test_iron_has_more_muons_than_protons() -> None:
    drawn = draw_primaries(40_000, ARRAY)
    by_energy = drawn.muons / (drawn.energy / 10) ** 0.92
    ratio = by_energy[drawn.nucleons == 56].mean() / by_energy[drawn.nucleons == 1].mean()
    assert float(ratio) == pytest.approx(56**0.08, rel=0.01)


def test_directions_are_those_of_a_flat_array() -> None:
    zenith = draw_primaries(40_000, ARRAY).zenith
    assert float(zenith.max()) <= math.radians(60)
    assert float(zenith.sin().square().mean()) == pytest.approx(0.75 / 2, rel=0.02)  # sin² is uniform


def test_a_plane_front_passes_with_the_speed_of_light() -> None:
    shower = one(zenith=0.7, azimuth=0.4)
    _, ahead = footprint(shower, ARRAY)
    along = ARRAY.places() @ torch.tensor([math.cos(0.4), math.sin(0.4)])
    torch.testing.assert_close(ahead[0], along * math.sin(0.7), atol=0.1, rtol=1e-4)


def test_the_distance_is_that_from_the_axis() -> None:
    zenith, azimuth = 0.9, 2.0
    axis = torch.tensor([math.sin(zenith) * math.cos(azimuth), math.sin(zenith) * math.sin(azimuth), math.cos(zenith)])
    places = torch.nn.functional.pad(ARRAY.places(), (0, 1))
    expected = (places - (places @ axis)[:, None] * axis).norm(dim=1)
    found, _ = footprint(one(zenith=zenith, azimuth=azimuth), ARRAY)
    torch.testing.assert_close(found[0], expected.clamp(min=1), atol=1.0, rtol=1e-3)


def test_electrons_follow_the_energy_and_muons_follow_less() -> None:
    far = torch.full((1, 1), 1000.0)
    deep = one().depth
    weak, strong = (signals(one(energy=e)._replace(depth=deep), far) for e in (10.0, 100.0))
    assert float(strong[0] / weak[0]) == pytest.approx(10, rel=1e-4)
    assert float(strong[1] / weak[1]) == pytest.approx(10**0.92, rel=1e-4)
    assert float(weak[0] + weak[1]) == pytest.approx(45, rel=0.1)  # VEM at 1,000 m


def test_muons_reach_farther_and_outlive_the_rest() -> None:
    distances = torch.tensor([[500.0, 1000.0, 2000.0, 3000.0]])
    electrons, muons = signals(one(), distances)
    assert ((muons / electrons).diff() > 0).all()
    steep = signals(one(zenith=1.0), distances)
    assert (steep[1] / steep[0] > muons / electrons).all()


def test_muons_come_before_the_rest_and_the_front_is_curved() -> None:
    delay, muon, electron = front(one(), torch.tensor([[100.0, 1000.0, 2000.0]]))
    assert (electron > muon).all()
    assert (delay.diff() > 0).all()


def test_the_electromagnetic_part_is_largest_where_the_maximum_is() -> None:
    shower, far = one(zenith=0.5), torch.full((1, 1), 1000.0)
    ground = 870 / math.cos(0.5)
    found = [float(signals(shower._replace(depth=torch.tensor([ground + below])), far)[0]) for below in (-100, 0, 100)]
    assert found[1] > max(found[0], found[2])


def test_times_are_as_uncertain_as_clocks_and_few_particles_make_them() -> None:
    shower = Primaries(*(value.expand(2000, *value.shape[1:]) for value in one(zenith=0.4)))
    seen = observe(shower, Array(dead=0.0))
    distance, ahead = footprint(shower, ARRAY)
    delay, muon, _ = front(shower, distance)
    error = uncertainty(muon, seen.traces.sum(-1), ARRAY)
    off = (seen.start - delay + ahead / 0.299792458)[seen.read] / error[seen.read]
    assert float(off.mean()) == pytest.approx(0, abs=0.02)
    assert float(off.std()) == pytest.approx(1, rel=0.02)
    assert float(error[:, 30].mean()) == pytest.approx(12, rel=0.02)  # at the core the clock is all
    assert (uncertainty(muon, torch.full_like(muon, 3.0), ARRAY) > uncertainty(muon, 0 * muon + 30, ARRAY)).all()


def test_traces_hold_the_mean_signal() -> None:
    shower = Primaries(*(value.expand(200, *value.shape[1:]) for value in one()))
    seen = observe(shower, Array(dead=0.0, threshold=0.0, noise=0.0))
    electrons, muons = signals(shower, footprint(shower, ARRAY)[0])
    near = (electrons + muons)[0] > 5
    expected = (electrons + muons)[0, near]
    found = seen.traces.sum(-1).mean(0)[near]
    torch.testing.assert_close(found, expected, rtol=0.06, atol=0.2)


def test_stations_below_the_threshold_and_dead_ones_are_not_read() -> None:
    seen = observe(draw_primaries(300, ARRAY), Array(dead=0.2))
    assert (seen.traces.sum(-1)[seen.read] > ARRAY.threshold).all()
    assert (seen.traces[~seen.read] == 0).all()
    bright = Primaries(*(value.expand(300, *value.shape[1:]) for value in one(energy=100.0)))
    middle = observe(bright, Array(dead=0.2)).read[:, 30]
    assert float(middle.float().mean()) == pytest.approx(0.8, abs=0.08)


def test_the_set_and_the_map_hold_the_same() -> None:
    seen = observe(draw_primaries(5, ARRAY), ARRAY)
    packed, grid = as_set(seen, ARRAY), as_grid(seen, ARRAY)
    assert packed.shape == (5, SAMPLES + 4, 61)
    assert grid.shape == (5, SAMPLES + 2, 9, 9)
    q, r = (ARRAY.axial() + ARRAY.rings).T
    torch.testing.assert_close(grid[:, :SAMPLES, q, r], packed[:, :SAMPLES])
    torch.testing.assert_close(grid[:, SAMPLES:, q, r], packed[:, SAMPLES + 2 :])
    torch.testing.assert_close(packed.abs().sum(1) > 0, seen.read)
    assert float(known(seen, ARRAY)[0].max()) < 10


def test_the_merit_factor_is_that_of_two_distributions() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat([0.0, math.log(56)], 50_000)
    estimate = rng.normal(np.repeat([0.0, 2.0], 50_000), np.repeat([1.0, 0.5], 50_000))
    assert merit(estimate, truth) == pytest.approx(2 / math.sqrt(1.25), rel=0.02)


def test_a_source_is_the_same_every_time() -> None:
    one_source, other = (shower_source("set", train=4, validation=4, test=4) for _ in range(2))
    np.testing.assert_array_equal(one_source.x, other.x)
    assert one_source.fresh is not None
    assert one_source.fresh(3, torch.device("cpu"))[0].shape == (3, SAMPLES + 4, 61)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"spacing": 0.0}, "spacing: found 0 m"),
        ({"lowest": 10.0, "highest": 5.0}, "lowest: found 10 to 5 EeV"),
        ({"steepest": 80.0}, "steepest: found 80 degrees, expected 0 to 65"),
        ({"dead": 1.5}, "dead"),
        ({"rings": 0}, "rings"),
    ],
)
def test_an_array_that_cannot_be_is_told(settings: dict[str, float], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Array(**settings)  # type: ignore[arg-type]
