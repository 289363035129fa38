import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import vitreous as vt
from tests.jets import toy_jets
from vitreous.errors import InputError
from vitreous.nn.pairs import lorentz
from vitreous.sim.jet_source import FEATURES, MOST, Made, as_tokens, made_jets
from vitreous.sim.jets import ORIGINS, RADIUS, Jets, Ragged, make_jets
from vitreous.train.recipes.particles import JET_MODELS

pythia = pytest.mark.skipif(
    not (find_spec("pythia8mc") and find_spec("fastjet")), reason="needs pip install 'vitreous[jets]'"
)


@pytest.fixture(scope="module")
def some() -> dict[str, Ragged]:
    """A few jets of each origin, made by Pythia."""
    found = {}
    for origin in ORIGINS:
        first, *rest = make_jets(origin, 40, Jets(), seed=1, processes=1)
        found[origin] = first.joined(*rest)
    return found


def momenta(jets: Ragged) -> np.ndarray:
    """Four-momenta of whole jets `(n, 4)`: E, p_x, p_y, p_z in GeV, φ relative to the axis."""
    owner = np.repeat(np.arange(len(jets.sizes)), jets.sizes)
    eta, phi, log_pt, log_e, _ = jets.particles.astype(np.float64).T
    eta, pt = eta + jets.axis[owner, 0], np.exp(log_pt)
    parts = np.exp(log_e), pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta)
    return np.stack([np.bincount(owner, part) for part in parts], axis=1)


def mass(jets: Ragged) -> np.ndarray:
    total = momenta(jets)
    return np.sqrt(np.maximum(0, total[:, 0] ** 2 - (total[:, 1:] ** 2).sum(1)))


@pythia
def test_jets_have_the_momentum_that_was_asked_for(some: dict[str, Ragged]) -> None:
    for jets in some.values():
        pt = np.hypot(*momenta(jets)[:, 1:3].T)
        assert len(jets.sizes) == 40
        assert pt.min() > 499
        assert pt.max() < 601


@pythia
def test_jets_of_heavy_particles_have_their_mass(some: dict[str, Ragged]) -> None:
    assert 160 < np.median(mass(some["top"])) < 190  # 173 GeV, and what else falls into the jet
    assert 78 < np.median(mass(some["W"])) < 100  # 80 GeV


@pythia
def test_gluons_radiate_more_than_quarks(some: dict[str, Ragged]) -> None:
    """As C_A / C_F = 9/4 wants it in the limit of high energies."""
    assert 1.15 < some["gluon"].sizes.mean() / some["quark"].sizes.mean() < 2.25


@pythia
def test_particles_lie_in_their_jet_hardest_first(some: dict[str, Ragged]) -> None:
    for jets in some.values():
        assert np.hypot(*jets.particles[:, :2].T).max() < 2 * RADIUS
        ends = np.cumsum(jets.sizes)
        for start, end in zip(ends - jets.sizes, ends, strict=True):
            assert (np.diff(jets.particles[start:end, 2]) <= 0).all()


@pythia
def test_charges_are_whole_and_nearly_cancel(some: dict[str, Ragged]) -> None:
    charge = np.concatenate([jets.particles[:, 4] for jets in some.values()])
    assert set(np.unique(charge)) == {-1, 0, 1}
    assert abs(charge.mean()) < 0.03


@pythia
def test_a_seed_makes_the_same_jets(some: dict[str, Ragged]) -> None:
    again, *_ = make_jets("quark", 40, Jets(), seed=1, processes=1)
    np.testing.assert_array_equal(again.particles, some["quark"].particles)


def test_rows_say_what_their_names_say() -> None:
    made = toy_jets()
    x = as_tokens(made.jets).astype(np.float64)
    rows = dict(zip(FEATURES, x[:, : len(FEATURES)].transpose(1, 0, 2), strict=True))
    y, _phi, log_pt, log_e = x[:, len(FEATURES) :].transpose(1, 0, 2)
    there = (x != 0).any(1)
    np.testing.assert_array_equal(there.sum(1), np.minimum(made.jets.sizes, MOST))
    first = there[:, 0]
    assert first.all()
    pt, e = np.exp(log_pt), np.exp(log_e)
    eta = 0.4 * rows["Δη"] + made.jets.axis[:, :1]
    np.testing.assert_allclose((e * np.tanh(y))[there], (pt * np.sinh(eta))[there], rtol=2e-3, atol=2e-3)  # p_z
    whole = made.jets.sizes <= MOST
    shares = np.exp(rows["ln pT share"] / 0.7 - 4.7) * there
    np.testing.assert_allclose(shares[whole].sum(1), 1, rtol=1e-4)


def test_a_jet_without_particles_is_told() -> None:
    made = toy_jets(2)
    count = made.jets.sizes.copy()
    count[3] = 0
    with pytest.raises(InputError, match="jet 3 has no particles, expected one at least"):
        as_tokens(made.jets._replace(sizes=count))


def test_jets_are_kept_with_three_digits(tmp_path: Path) -> None:
    made = toy_jets()
    made.write(tmp_path / "jets.npz")
    again = Made.read(tmp_path / "jets.npz")
    np.testing.assert_array_equal(again.origin, made.origin)
    np.testing.assert_array_equal(again.jets.sizes, made.jets.sizes)
    np.testing.assert_allclose(again.jets.particles, made.jets.particles, rtol=1e-3, atol=1e-3)


@pythia
def test_what_two_particles_have_to_do_with_each_other_survives_the_file(
    some: dict[str, Ragged], tmp_path: Path
) -> None:
    """To a few percent, of all but the closest pairs."""
    jets = some["W"]
    Made(jets, np.zeros(len(jets.sizes), np.int64)).write(tmp_path / "jets.npz")
    kept = Made.read(tmp_path / "jets.npz").jets
    hardest = (torch.from_numpy(as_tokens(each)[:, -4:, :10]).mT for each in (jets, kept))
    before, after = (lorentz(coords) for coords in hardest)
    pairs = before[..., 0].exp() > 0.01  # further apart than this
    for moved in (after - before)[pairs].abs().T:
        assert moved.quantile(0.99) < 0.1
        assert moved.median() < 0.01


def test_a_damaged_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITREOUS_DATA", str(tmp_path))
    path = tmp_path / "jets" / "jets-500-600-13000-5-0.npz"
    path.parent.mkdir()
    path.write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"jets-500-600-13000-5-0.npz: is damaged .* delete it"):
        made_jets(Jets(), 5)


@pytest.mark.parametrize(("lowest", "highest"), [(600, 500), (1, 10), (500, 5000)])
def test_momenta_that_cannot_be_are_told(lowest: float, highest: float) -> None:
    with pytest.raises(InputError, match="expected a range within 20 GeV and a third of the protons'"):
        Jets(lowest=lowest, highest=highest)


def test_missing_programs_are_told_before_a_bar_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VITREOUS_DATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pythia8mc", None)
    missing = r"needs pythia8mc, which is not installed: pip install 'vitreous\[jets\]'"
    with pytest.raises(InputError, match=missing):
        next(make_jets("top", 1, Jets()))
    with pytest.raises(InputError, match=missing):
        made_jets(Jets(), 5)
    assert not "".join(capsys.readouterr())


def test_no_jets_are_too_few() -> None:
    with pytest.raises(InputError, match="count: found 0, expected one jet or more"):
        next(make_jets("top", 0, Jets()))


@pytest.mark.parametrize("name", JET_MODELS)
def test_the_order_of_particles_changes_nothing(name: str) -> None:
    torch.manual_seed(0)
    model = vt.ViT(replace(JET_MODELS[name], dim=32, depth=2, heads=2, out=4)).eval()
    x = torch.from_numpy(as_tokens(toy_jets(4).jets))
    with torch.no_grad():
        torch.testing.assert_close(model(x[:, :, torch.randperm(MOST)]), model(x), atol=1e-5, rtol=1e-4)
