"""Jets as sets of particles, their file, and models that do not depend on the order of particles."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import vitreous as vt
from tests.gallery.jets.toy import toy_jets
from vitreous.core.errors import InputError
from vitreous.gallery.jets.recipe import JET_MODELS
from vitreous.gallery.jets.simulate import Jets
from vitreous.gallery.jets.source import FEATURES, MOST, LabelledJets, load_jets, to_set


def test_rows_agree_with_the_momenta_of_the_particles() -> None:
    toy = toy_jets()
    x = to_set(toy.jets).astype(np.float64)
    rows = dict(zip(FEATURES, x[:, : len(FEATURES)].transpose(1, 0, 2), strict=True))
    y, _phi, log_pt, log_e = x[:, len(FEATURES) :].transpose(1, 0, 2)
    there = (x != 0).any(1)
    np.testing.assert_array_equal(there.sum(1), np.minimum(toy.jets.sizes, MOST))
    first = there[:, 0]
    assert first.all()
    pt, e = np.exp(log_pt), np.exp(log_e)
    eta = 0.4 * rows["Δη"] + toy.jets.axis[:, :1]
    np.testing.assert_allclose((e * np.tanh(y))[there], (pt * np.sinh(eta))[there], rtol=2e-3, atol=2e-3)  # p_z
    whole = toy.jets.sizes <= MOST
    shares = np.exp(rows["ln pT share"] / 0.7 - 4.7) * there
    np.testing.assert_allclose(shares[whole].sum(1), 1, rtol=1e-4)


def test_a_jet_without_particles_is_refused() -> None:
    toy = toy_jets(2)
    count = toy.jets.sizes.copy()
    count[3] = 0
    with pytest.raises(InputError, match="jet 3 has no particles, expected at least one"):
        to_set(toy.jets._replace(sizes=count))


def test_files_have_three_digits(tmp_path: Path) -> None:
    toy = toy_jets()
    toy.write(tmp_path / "jets.npz")
    again = LabelledJets.read(tmp_path / "jets.npz")
    np.testing.assert_array_equal(again.origin, toy.origin)
    np.testing.assert_array_equal(again.jets.sizes, toy.jets.sizes)
    np.testing.assert_allclose(again.jets.particles, toy.jets.particles, rtol=1e-3, atol=1e-3)


def test_a_damaged_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITREOUS_DATA", str(tmp_path))
    path = tmp_path / "jets" / "jets-500-600-13000-5-0.npz"
    path.parent.mkdir()
    path.write_bytes(b"nonsense")
    with pytest.raises(InputError, match=r"jets-500-600-13000-5-0.npz: is damaged .* delete it"):
        load_jets(Jets(), 5)


@pytest.mark.parametrize("name", JET_MODELS)
def test_the_order_of_particles_changes_nothing(name: str) -> None:
    torch.manual_seed(0)
    model = vt.ViT(replace(JET_MODELS[name], dim=32, depth=2, heads=2, out=4)).eval()
    x = torch.from_numpy(to_set(toy_jets(4).jets))
    with torch.no_grad():
        torch.testing.assert_close(model(x[:, :, torch.randperm(MOST)]), model(x), atol=1e-5, rtol=1e-4)
