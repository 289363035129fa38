"""A trained run is a detector, and the benchmark compares it with the optimum."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks import detection
from tests.recipes import narrow, two_steps
from vitreous.core.errors import InputError
from vitreous.gallery.chirps.figures import SNR, network_detector
from vitreous.gallery.chirps.simulate import Chirps
from vitreous.train import load, train


def test_a_run_is_a_detector_that_gives_the_log_odds_of_its_predictions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(narrow(two_steps("chirps", {})), tmp_path, device="cpu", bar=False)
    predictor = load(tmp_path)
    segments = torch.randn(5, Chirps().points)
    odds = network_detector(predictor)(segments)
    probabilities = predictor(segments.unsqueeze(1).numpy()).probabilities
    assert probabilities is not None
    torch.testing.assert_close(odds.sigmoid(), torch.from_numpy(probabilities[:, 1]).float(), atol=1e-5, rtol=1e-5)


def test_the_benchmark_compares_a_run_with_the_optimum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train(narrow(two_steps("chirps", {})), tmp_path / "mine", device="cpu", bar=False)
    capsys.readouterr()
    settings = {
        "noise": 100,
        "signals": 4,
        "false_alarms": (0.05,),
        "templates": 8,
        "device": "cpu",
        "masses": (5.0, 10.0, 20.0),
    }
    detection.main(runs=(tmp_path / "mine",), out=tmp_path / "table.json", **settings)
    assert "at 5 % false alarms" in capsys.readouterr().out
    table = json.loads((tmp_path / "table.json").read_text())
    assert table["chirp mass"] == [[5.0, 10.0], [10.0, 20.0]]
    assert len(table["by mass"]["mine"]["0.05"]) == 2
    efficiencies = table["efficiency"]
    assert list(efficiencies) == ["mine", "matched filter, bank of 8", detection.BEST, detection.KNOWN]
    assert all(len(shares["0.05"]) == len(SNR) + 1 for shares in efficiencies.values())


def test_runs_of_equal_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(narrow(two_steps("chirps", {})), tmp_path / "mine", device="cpu", bar=False)
    with pytest.raises(InputError, match="found two with the same name"):
        detection.main(runs=(tmp_path / "mine", tmp_path / "mine"), device="cpu")
