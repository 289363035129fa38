"""A trained run is a detector like any other, compared on the same segments."""

from pathlib import Path

import pytest
import torch

from tests.recipes import narrow, two_steps
from vitreous.gallery import chirps
from vitreous.sim.chirps import Chirps, random_events, signals
from vitreous.sim.templates import Bank, compared
from vitreous.train import load, train


def test_a_run_is_a_detector_that_gives_the_odds_of_its_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(narrow(two_steps("chirps", {}, monkeypatch)), tmp_path, device="cpu", bar=False)
    predictor = load(tmp_path)
    segments = torch.randn(5, Chirps().points)
    odds = chirps.network(predictor)(segments)
    shares = predictor(segments.unsqueeze(1).numpy()).probabilities
    assert shares is not None
    torch.testing.assert_close(odds.sigmoid(), torch.from_numpy(shares[:, 1]).float(), atol=1e-5, rtol=1e-5)


def test_detectors_are_compared_on_the_same_segments() -> None:
    short = Chirps(seconds=0.25, chirp_mass=(15.0, 30.0), lasting=0.17, coalescence=(0.18, 0.24))
    bank = Bank(short, 8)
    torch.manual_seed(0)
    detectors = {"one": bank.loudest, "same": lambda segments: 2 * bank.loudest(segments) + 1}
    found = compared(detectors, short, (3.0, 12.0), 400, 50, (0.01, 0.1))
    assert found["one"] == found["same"]
    assert found["one"][0.01][0] <= found["one"][0.1][0]
    assert found["one"][0.01][1] == 1
    assert signals(short, random_events(short, 2)).shape == (2, short.points)
