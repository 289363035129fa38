"""A trained run is a detector like any other, compared on the same segments."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import detection
from tests.recipes import narrow, two_steps
from vitreous.errors import InputError
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


def test_the_benchmark_tells_how_far_a_run_is_from_the_optimum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train(narrow(two_steps("chirps", {}, monkeypatch)), tmp_path / "mine", device="cpu", bar=False)
    capsys.readouterr()
    asked = {
        "noise": 100,
        "signals": 4,
        "false_alarms": (0.05,),
        "templates": 8,
        "device": "cpu",
        "masses": (5.0, 10.0, 20.0),
    }
    detection.main(runs=(tmp_path / "mine",), out=tmp_path / "table.json", **asked)
    assert "at 5 % false alarms" in capsys.readouterr().out
    told = json.loads((tmp_path / "table.json").read_text())
    assert told["chirp mass"] == [[5.0, 10.0], [10.0, 20.0]]
    assert len(told["by mass"]["mine"]["0.05"]) == 2
    found = told["efficiency"]
    assert list(found) == ["mine", "matched filter, bank of 8", detection.BEST, detection.KNOWN]
    assert all(len(shares["0.05"]) == len(chirps.SNR) + 1 for shares in found.values())


def test_runs_of_one_name_are_not_taken_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(narrow(two_steps("chirps", {}, monkeypatch)), tmp_path / "mine", device="cpu", bar=False)
    with pytest.raises(InputError, match="found two of one name"):
        detection.main(runs=(tmp_path / "mine", tmp_path / "mine"), device="cpu")


def test_detectors_are_compared_on_the_same_segments() -> None:
    short = Chirps(seconds=0.25, chirp_mass=(15.0, 30.0), lasting=0.17, coalescence=(0.18, 0.24))
    bank = Bank(short, 8)
    torch.manual_seed(0)
    detectors = {"one": bank.loudest, "same": lambda segments: 2 * bank.loudest(segments) + 1}
    populations = [replace(short, snr=(3.0, 3.0)), replace(short, snr=(12.0, 12.0)), short]
    found = compared(detectors, populations, 400, 50, (0.01, 0.1))
    assert found["one"] == found["same"]
    assert found["one"][0.01][0] <= found["one"][0.1][0]
    assert found["one"][0.01][1] == 1
    assert signals(short, random_events(short, 2)).shape == (2, short.points)


def test_segments_of_two_lengths_are_not_compared() -> None:
    with pytest.raises(InputError, match="of one length"):
        compared({"one": Bank(Chirps(), 2).loudest}, [Chirps(), Chirps(rate=4096)], 100, 1, (0.05,))
