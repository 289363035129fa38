"""Runs with fewer tokens: `--merge` on any run, and `vitreous prune`, which leaves a run like any other."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vitreous as vt
from benchmarks.merging import main as benchmark
from tests.spectra import spectra_file
from tests.users import fails
from vitreous.cli import main
from vitreous.data import digits
from vitreous.nn import ViT
from vitreous.train import PruneJob, train


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transformer and a CNN on spectra of 20 points, and the transformer pruned."""
    folder = tmp_path_factory.mktemp("runs")
    data = str(spectra_file(folder / "spectra.csv", rows=200))
    for model in ("vit", "cnn"):
        out = str(folder / model)
        options = ["--target", "height:mm", "--steps", "60", "--batch", "32", "--model", model, "--seed", "5"]
        main(["train", data, "--out", out, *options])
    main(["prune", str(folder / "vit"), "--out", str(folder / "pruned"), "--budget", "0.6", "--steps", "120"])
    return folder


def scores(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, float]:
    main(["eval", *args, "--target", "height:mm"])
    return {name: float(value) for name, value in map(str.split, capsys.readouterr().out.splitlines())}


def test_merging_is_one_flag_of_eval_predict_and_explain(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, data = str(runs / "vit"), str(runs / "spectra.csv")
    capsys.readouterr()
    plain, none, merged = (scores(capsys, run, data, "--merge", r) for r in ("0", "0", "4"))
    assert plain == none
    assert "flops_share" not in plain
    assert 0.4 < merged["flops_share"] < 0.8
    assert merged["rmse"] != plain["rmse"]
    answers = []
    for r in ("0", "4"):
        main(["predict", run, data, "--merge", r, "--format", "json"])
        answers.append([row["height (mm)"] for row in json.loads(capsys.readouterr().out)])
    assert answers[0] != answers[1]
    assert np.corrcoef(*answers)[0, 1] > 0.9
    main(["explain", run, data, "--merge", "4", "--out", str(runs / "why.png")])
    assert (runs / "why.png").stat().st_size > 10_000


def test_a_pruned_run_keeps_to_its_budget_and_to_its_weights(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    result = json.loads((runs / "pruned" / "result.json").read_text())
    assert abs(result["test"]["flops_share"] - 0.6) < 0.08
    found = scores(capsys, str(runs / "pruned"), str(runs / "spectra.csv"))
    assert found["flops_share"] == pytest.approx(result["test"]["flops_share"], abs=0.02)
    before, after = (vt.load(runs / name).model for name in ("vit", "pruned"))
    assert isinstance(after, ViT)
    assert after.thresholds is not None
    own = after.state_dict()
    assert all(torch.equal(own[name], value) for name, value in before.state_dict().items())
    assert not torch.equal(own["thresholds.merge.value"], torch.zeros(4))


def test_a_pruned_run_splits_scales_and_answers_like_the_one_it_was_made_from(runs: Path) -> None:
    told = [json.loads((runs / name / "experiment.json").read_text()) for name in ("vit", "pruned")]
    assert told[0]["samples"] == told[1]["samples"]
    assert told[0]["train"]["seed"] == told[1]["train"]["seed"] == 5
    first, second = (vt.load(runs / name) for name in ("vit", "pruned"))
    assert first.scaling == second.scaling
    rows = [np.load(runs / name / "test.npz")["rows"] for name in ("vit", "pruned")]
    assert np.array_equal(*rows)
    assert told[1]["command"][:3] == ["vitreous", "prune", str(runs / "vit")]


def test_a_pruned_run_is_used_like_any_other(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pruned, data = str(runs / "pruned"), str(runs / "spectra.csv")
    capsys.readouterr()
    main(["predict", pruned, data, "--interval", "0.5"])
    assert capsys.readouterr().out.startswith("sample,height (mm),height (mm) lower 50%")
    main(["explain", pruned, data, "--out", str(runs / "pruned.png")])
    main(["explain", pruned, data, "--heads", "--out", str(runs / "heads.png")])
    main(["report", pruned, "--out", str(runs / "report.html")])
    main(["compare", str(runs / "vit"), pruned])
    main(["summary", pruned])
    assert "thresholds, merge and prune" in capsys.readouterr().out


def test_a_pruned_run_answers_alike_one_by_one_and_together(runs: Path) -> None:
    found = vt.load(runs / "pruned")
    x = np.loadtxt(runs / "spectra.csv", delimiter=",", skiprows=1)[:20, :20].astype(np.float32)
    together = found(x).values
    alone = np.concatenate([found(one[None]).values for one in x])
    np.testing.assert_allclose(alone, together, rtol=1e-5, atol=1e-5)


def test_pruning_can_be_told_where_the_data_lie(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moved = tmp_path / "moved.csv"
    moved.write_bytes((runs / "spectra.csv").read_bytes())
    run, out = str(runs / "vit"), str(tmp_path / "out")
    main(["prune", run, "--out", out, "--data", str(moved), "--steps", "2"])
    assert vt.load(out).data == "moved.csv"
    wrong = tmp_path / "wrong.csv"
    table = np.loadtxt(moved, delimiter=",", skiprows=1)
    header = ",".join(f"{500 + 2 * i}" for i in range(19)) + ",height"
    np.savetxt(wrong, table[:, 1:], delimiter=",", header=header, comments="")
    capsys.readouterr()
    assert "found samples of shape (1, 19), expected (1, 20)" in fails(
        capsys, "prune", run, "--out", str(tmp_path / "no"), "--data", str(wrong)
    )


def test_pruning_that_was_killed_goes_on_to_the_same_thresholds(runs: Path, tmp_path: Path) -> None:
    whole, parts, options = str(tmp_path / "whole"), str(tmp_path / "parts"), ["--steps", "100"]
    main(["prune", str(runs / "vit"), "--out", whole, *options])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PruneJob, "loss", stop_after(70))
        with pytest.raises(RuntimeError, match="killed"):
            main(["prune", str(runs / "vit"), "--out", parts, *options])
    main(["prune", str(runs / "vit"), "--out", parts, *options, "--resume"])
    states = [vt.load(folder).model.state_dict() for folder in (whole, parts)]
    assert all(torch.equal(states[1][name], value) for name, value in states[0].items())


def stop_after(steps: int) -> Callable[..., torch.Tensor]:
    """The loss, until the training is killed."""
    left, loss = iter(range(steps)), PruneJob.loss

    def counting(*args: Any) -> torch.Tensor:
        if next(left, None) is None:
            raise RuntimeError("killed")
        return loss(*args)

    return counting


def test_mistakes_are_one_line(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vit, cnn, data, out = (str(runs / name) for name in ("vit", "cnn", "spectra.csv", "nothing"))
    options = ["--target", "height:mm"]
    capsys.readouterr()
    assert "merge: found -1, expected a number of tokens" in fails(capsys, "predict", vit, data, "--merge", "-1")
    assert "merge: found 11, but of 20 tokens a block can merge half at most, 10" in fails(
        capsys, "eval", vit, data, *options, "--merge", "11"
    )
    assert "merge: a CNN has no tokens to merge" in fails(capsys, "predict", cnn, data, "--merge", "1")
    assert "already merges and drops tokens" in fails(capsys, "predict", str(runs / "pruned"), data, "--merge", "1")
    assert "prune: a CNN has no tokens to merge or drop" in fails(capsys, "prune", cnn, "--out", out)
    assert "has learned thresholds already" in fails(
        capsys, "prune", str(runs / "pruned"), "--out", out, "--data", data, *options
    )
    for budget in ("0", "-0.5", "1.01"):
        assert f"budget: found {budget}, expected a share of the operations" in fails(
            capsys, "prune", vit, "--out", out, "--budget", budget
        )
    assert "holds a run already" in fails(capsys, "prune", vit, "--out", cnn)
    assert "is no run folder" in fails(capsys, "prune", str(tmp_path), "--out", out)
    assert "the run has learned thresholds already" in fails(capsys, "prune", str(runs / "pruned"), "--out", out)
    assert not Path(out).exists()


def test_the_benchmark_prints_scores_beside_speed_and_draws_them(
    runs: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "pareto.svg"
    benchmark(
        runs / "vit", str(runs / "spectra.csv"), ("height:mm",), ("2", "4-1"), (runs / "pruned",), 20, 4, 2, figure=out
    )
    told = capsys.readouterr().out
    assert all(name in told for name in ("as it is", "r = 2", "r = 4-1", "pruned", "rmse", "times as fast"))
    assert "100.0%" in told
    assert out.stat().st_size > 5_000


def test_a_model_without_thresholds_cannot_keep_to_a_budget(tmp_path: Path) -> None:
    config = vt.ViTConfig(input=(1, 8, 8), patch=(2,), dim=16, depth=1, heads=1)
    with pytest.raises(vt.InputError, match="a ViT without thresholds cannot keep to one"):
        train(PruneJob(digits(), config), tmp_path / "run", device="cpu", bar=False)
