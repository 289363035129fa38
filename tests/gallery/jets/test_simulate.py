"""Simulated jets have the momenta, masses and charges of their origins."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from vitreous.core.errors import InputError
from vitreous.gallery.jets.simulate import ORIGINS, RADIUS, Jets, RaggedJets, simulate_jets
from vitreous.gallery.jets.source import LabelledJets, load_jets, to_set
from vitreous.nn.attention.bias import lorentz

pythia = pytest.mark.skipif(
    not (find_spec("pythia8mc") and find_spec("fastjet")), reason="needs pip install 'vitreous[jets]'"
)


@pytest.fixture(scope="module")
def pythia_jets() -> dict[str, RaggedJets]:
    """A few jets of each origin, made by Pythia."""
    jets = {}
    for origin in ORIGINS:
        first, *rest = simulate_jets(origin, 40, Jets(), seed=1, processes=1)
        jets[origin] = first.join(*rest)
    return jets


def momenta(jets: RaggedJets) -> np.ndarray:
    """Four-momenta of whole jets `(n, 4)`: E, p_x, p_y, p_z in GeV, φ relative to the axis."""
    owner = np.repeat(np.arange(len(jets.sizes)), jets.sizes)
    eta, phi, log_pt, log_e, _ = jets.particles.astype(np.float64).T
    eta, pt = eta + jets.axis[owner, 0], np.exp(log_pt)
    parts = np.exp(log_e), pt * np.cos(phi), pt * np.sin(phi), pt * np.sinh(eta)
    return np.stack([np.bincount(owner, part) for part in parts], axis=1)


def mass(jets: RaggedJets) -> np.ndarray:
    total = momenta(jets)
    return np.sqrt(np.maximum(0, total[:, 0] ** 2 - (total[:, 1:] ** 2).sum(1)))


@pythia
def test_jets_have_the_requested_momentum(pythia_jets: dict[str, RaggedJets]) -> None:
    for jets in pythia_jets.values():
        pt = np.hypot(*momenta(jets)[:, 1:3].T)
        assert len(jets.sizes) == 40
        assert pt.min() > 499
        assert pt.max() < 601


@pythia
def test_jets_of_heavy_particles_have_their_mass(pythia_jets: dict[str, RaggedJets]) -> None:
    assert 160 < np.median(mass(pythia_jets["top"])) < 190  # 173 GeV, and what else falls into the jet
    assert 78 < np.median(mass(pythia_jets["W"])) < 100  # 80 GeV


@pythia
def test_gluons_radiate_more_than_quarks(pythia_jets: dict[str, RaggedJets]) -> None:
    """The ratio approaches C_A / C_F = 9/4 at high energies."""
    assert 1.15 < pythia_jets["gluon"].sizes.mean() / pythia_jets["quark"].sizes.mean() < 2.25


@pythia
def test_particles_lie_in_their_jet_in_order_of_falling_momentum(pythia_jets: dict[str, RaggedJets]) -> None:
    for jets in pythia_jets.values():
        assert np.hypot(*jets.particles[:, :2].T).max() < 2 * RADIUS
        ends = np.cumsum(jets.sizes)
        for start, end in zip(ends - jets.sizes, ends, strict=True):
            assert (np.diff(jets.particles[start:end, 2]) <= 0).all()


@pythia
def test_charges_are_whole_and_nearly_cancel(pythia_jets: dict[str, RaggedJets]) -> None:
    charge = np.concatenate([jets.particles[:, 4] for jets in pythia_jets.values()])
    assert set(np.unique(charge)) == {-1, 0, 1}
    assert abs(charge.mean()) < 0.03


@pythia
def test_equal_seeds_give_equal_jets(pythia_jets: dict[str, RaggedJets]) -> None:
    again, *_ = simulate_jets("quark", 40, Jets(), seed=1, processes=1)
    np.testing.assert_array_equal(again.particles, pythia_jets["quark"].particles)


@pythia
def test_pair_features_survive_the_file(pythia_jets: dict[str, RaggedJets], tmp_path: Path) -> None:
    """To a few percent, of all but the closest pairs."""
    jets = pythia_jets["W"]
    LabelledJets(jets, np.zeros(len(jets.sizes), np.int64)).write(tmp_path / "jets.npz")
    stored = LabelledJets.read(tmp_path / "jets.npz").jets
    hardest = (torch.from_numpy(to_set(each)[:, -4:, :10]).mT for each in (jets, stored))
    before, after = (lorentz(coords) for coords in hardest)
    pairs = before[..., 0].exp() > 0.01  # further apart than this
    for moved in (after - before)[pairs].abs().T:
        assert moved.quantile(0.99) < 0.1
        assert moved.median() < 0.01


@pytest.mark.parametrize(("lowest", "highest"), [(600, 500), (1, 10), (500, 5000)])
def test_invalid_momenta_are_refused(lowest: float, highest: float) -> None:
    with pytest.raises(InputError, match="expected a range within 20 GeV and a third of the protons'"):
        Jets(lowest=lowest, highest=highest)


def test_missing_programs_are_reported_before_the_progress_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VITREOUS_DATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pythia8mc", None)
    missing = r"needs pythia8mc, which is not installed: pip install 'vitreous\[jets\]'"
    with pytest.raises(InputError, match=missing):
        next(simulate_jets("top", 1, Jets()))
    with pytest.raises(InputError, match=missing):
        load_jets(Jets(), 5)
    assert not "".join(capsys.readouterr())


def test_zero_jets_are_refused() -> None:
    with pytest.raises(InputError, match="count: found 0, expected at least one jet"):
        next(simulate_jets("top", 0, Jets()))
