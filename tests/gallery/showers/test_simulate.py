"""Showers follow the parametrised physics, and stations record what reaches them."""

import math

import pytest
import torch

from vitreous.core.errors import InputError
from vitreous.gallery.showers.simulate import (
    NUCLEI,
    Array,
    Primaries,
    draw_primaries,
    front_times,
    mean_depth,
    mean_signals,
    observe,
    shower_geometry,
    start_error,
)

ARRAY = Array()


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def average_shower(nucleons: float = 1.0, energy: float = 10.0, zenith: float = 0.0, azimuth: float = 0.0) -> Primaries:
    """An average shower in the middle of the array."""
    a, e, theta, phi = (torch.tensor([value]) for value in (nucleons, energy, zenith, azimuth))
    return Primaries(a, e, theta, phi, torch.zeros(1, 2), mean_depth(a, e), a**0.08 * (e / 10) ** 0.92)


def test_every_inner_station_has_six_neighbours() -> None:
    places = ARRAY.positions().double()
    apart = torch.cdist(places, places)
    neighbours = ((apart - ARRAY.spacing).abs() < 1).sum(1)
    q, r = ARRAY.axial().T
    inner = torch.stack([q, r, q + r]).abs().amax(0) < ARRAY.rings
    assert len(places) == 61
    assert (neighbours[inner] == 6).all()
    assert apart[apart > 0].min() > ARRAY.spacing - 1


def test_the_depth_of_the_maximum_follows_the_energy_per_nucleon() -> None:
    primaries = draw_primaries(40_000, ARRAY)
    for nucleons in NUCLEI.values():
        here = primaries.nucleons == nucleons
        depth, expected = primaries.depth[here], mean_depth(primaries.nucleons, primaries.energy)[here]
        assert abs(float((depth - expected).mean())) < 3  # g/cm²
    light, heavy = (primaries.nucleons == a for a in (1, 56))
    spread = [
        float((primaries.depth - mean_depth(primaries.nucleons, primaries.energy))[part].std())
        for part in (light, heavy)
    ]
    assert spread[0] == pytest.approx(60, rel=0.05)
    assert spread[1] == pytest.approx(60 * 56**-0.25, rel=0.05)


def test_iron_has_more_muons_than_protons() -> None:
    primaries = draw_primaries(40_000, ARRAY)
    by_energy = primaries.muons / (primaries.energy / 10) ** 0.92
    ratio = by_energy[primaries.nucleons == 56].mean() / by_energy[primaries.nucleons == 1].mean()
    assert float(ratio) == pytest.approx(56**0.08, rel=0.01)


def test_directions_are_those_of_a_flat_array() -> None:
    zenith = draw_primaries(40_000, ARRAY).zenith
    assert float(zenith.max()) <= math.radians(60)
    assert float(zenith.sin().square().mean()) == pytest.approx(0.75 / 2, rel=0.02)  # sin² is uniform


def test_a_plane_front_passes_with_the_speed_of_light() -> None:
    shower = average_shower(zenith=0.7, azimuth=0.4)
    _, ahead = shower_geometry(shower, ARRAY)
    along = ARRAY.positions() @ torch.tensor([math.cos(0.4), math.sin(0.4)])
    torch.testing.assert_close(ahead[0], along * math.sin(0.7), atol=0.1, rtol=1e-4)


def test_the_distance_is_that_from_the_axis() -> None:
    zenith, azimuth = 0.9, 2.0
    axis = torch.tensor([math.sin(zenith) * math.cos(azimuth), math.sin(zenith) * math.sin(azimuth), math.cos(zenith)])
    places = torch.nn.functional.pad(ARRAY.positions(), (0, 1))
    expected = (places - (places @ axis)[:, None] * axis).norm(dim=1)
    distance, _ = shower_geometry(average_shower(zenith=zenith, azimuth=azimuth), ARRAY)
    torch.testing.assert_close(distance[0], expected.clamp(min=1), atol=1.0, rtol=1e-3)


def test_electrons_grow_with_the_energy_and_muons_grow_less() -> None:
    far = torch.full((1, 1), 1000.0)
    deep = average_shower().depth
    weak, strong = (mean_signals(average_shower(energy=e)._replace(depth=deep), far) for e in (10.0, 100.0))
    assert float(strong[0] / weak[0]) == pytest.approx(10, rel=1e-4)
    assert float(strong[1] / weak[1]) == pytest.approx(10**0.92, rel=1e-4)
    assert float(weak[0] + weak[1]) == pytest.approx(45, rel=0.1)  # VEM at 1,000 m


def test_muons_reach_farther_and_outlive_the_rest() -> None:
    distances = torch.tensor([[500.0, 1000.0, 2000.0, 3000.0]])
    electrons, muons = mean_signals(average_shower(), distances)
    assert ((muons / electrons).diff() > 0).all()
    steep = mean_signals(average_shower(zenith=1.0), distances)
    assert (steep[1] / steep[0] > muons / electrons).all()


def test_muons_come_before_the_rest_and_the_front_is_curved() -> None:
    delay, muon, electron = front_times(average_shower(), torch.tensor([[100.0, 1000.0, 2000.0]]))
    assert (electron > muon).all()
    assert (delay.diff() > 0).all()


def test_the_electromagnetic_part_is_largest_where_the_maximum_is() -> None:
    shower, far = average_shower(zenith=0.5), torch.full((1, 1), 1000.0)
    ground = 870 / math.cos(0.5)
    electrons = [
        float(mean_signals(shower._replace(depth=torch.tensor([ground + below])), far)[0]) for below in (-100, 0, 100)
    ]
    assert electrons[1] > max(electrons[0], electrons[2])


def test_start_times_have_the_error_of_clocks_and_few_particles() -> None:
    shower = Primaries(*(value.expand(2000, *value.shape[1:]) for value in average_shower(zenith=0.4)))
    recording = observe(shower, Array(dead=0.0))
    distance, ahead = shower_geometry(shower, ARRAY)
    delay, muon, _ = front_times(shower, distance)
    error = start_error(muon, recording.traces.sum(-1), ARRAY)
    off = (recording.start - delay + ahead / 0.299792458)[recording.read] / error[recording.read]
    assert float(off.mean()) == pytest.approx(0, abs=0.02)
    assert float(off.std()) == pytest.approx(1, rel=0.02)
    assert float(error[:, 30].mean()) == pytest.approx(12, rel=0.02)  # at the core only the clock matters
    assert (start_error(muon, torch.full_like(muon, 3.0), ARRAY) > start_error(muon, 0 * muon + 30, ARRAY)).all()


def test_traces_hold_the_mean_signal() -> None:
    shower = Primaries(*(value.expand(200, *value.shape[1:]) for value in average_shower()))
    recording = observe(shower, Array(dead=0.0, threshold=0.0, noise=0.0))
    electrons, muons = mean_signals(shower, shower_geometry(shower, ARRAY)[0])
    near = (electrons + muons)[0] > 5
    expected = (electrons + muons)[0, near]
    mean = recording.traces.sum(-1).mean(0)[near]
    torch.testing.assert_close(mean, expected, rtol=0.06, atol=0.2)


def test_stations_below_the_threshold_and_dead_ones_are_not_read() -> None:
    recording = observe(draw_primaries(300, ARRAY), Array(dead=0.2))
    assert (recording.traces.sum(-1)[recording.read] > ARRAY.threshold).all()
    assert (recording.traces[~recording.read] == 0).all()
    bright = Primaries(*(value.expand(300, *value.shape[1:]) for value in average_shower(energy=100.0)))
    middle = observe(bright, Array(dead=0.2)).read[:, 30]
    assert float(middle.float().mean()) == pytest.approx(0.8, abs=0.08)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"spacing": 0.0}, "spacing: found 0 m"),
        ({"lowest": 10.0, "highest": 5.0}, "lowest: found 10 to 5 EeV"),
        ({"steepest": 80.0}, "steepest: found 80 degrees, expected 0 to 65"),
        ({"dead": 1.5}, "dead"),
        ({"rings": 0}, "rings"),
    ],
)
def test_an_invalid_array_is_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Array(**settings)  # type: ignore[arg-type]
