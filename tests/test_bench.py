"""`vitreous bench`: numbers that fit together, and mistakes in one line. Nothing here depends on how fast it is."""

import json
import math
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vitreous as vt
from tests.users import fails
from vitreous.bench import measure, memory, peers, timing
from vitreous.bench.fresh_process import ProcessDiedError, run_in_fresh_process
from vitreous.bench.memory import Peak
from vitreous.bench.peers import PEERS, build_all
from vitreous.bench.timing import Setting, make_step, median_ratio, time_steps
from vitreous.cli import main
from vitreous.data import Axis, Source
from vitreous.nn.cnn import CNNConfig
from vitreous.train import SupervisedJob, TrainConfig, train
from vitreous.zoo.cost import count_flops, example_inputs, model_cost

TINY = "vit_micro_patch2_8"
MB = 1_000_000


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_SECONDS", 0.01)
    monkeypatch.setitem(timing._SIDES, "cpu", {512: 40})
    monkeypatch.setitem(timing._COPIED, "cpu", 1 << 26)


@pytest.fixture
def _no_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which take seconds to import, twice."""
    monkeypatch.setattr(peers, "PEERS", {})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    source = Source(
        "steps", rng.normal(size=(40, 1, 20)), rng.integers(0, 2, 40), (Axis(),), ("i",), classes=("a", "b")
    )
    config = vt.ViTConfig(input=(1, 20), patch=(4,), dim=16, depth=2, heads=2)
    folder = tmp_path_factory.mktemp("bench") / "run"
    train(SupervisedJob(source, config, TrainConfig(steps=2, batch=8, evaluate_every=2)), folder, device="cpu")
    return folder


def benched(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    main(["bench", *args, "--device", "cpu", "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def check(found: dict[str, Any], batches: list[int]) -> None:
    """What is true of every result."""
    assert sorted({row["batch"] for row in found["rows"]}) == batches
    assert found["peak_flops_per_second"] > 0
    assert found["peak_bytes_per_second"] > 0
    for row in found["rows"]:
        assert 0 < row["median_seconds"] <= row["p90_seconds"]
        assert math.isclose(row["samples_per_second"] * row["median_seconds"], row["batch"])
        assert 0 < row["share_of_peak"] <= 1.2
        rate = row["samples_per_second"] * found["flops_per_sample"]
        assert math.isclose(row["share_of_peak"], rate / found["peak_flops_per_second"])
        assert row["time_over_ours"] > 0
        assert row["library"] != "vitreous" or row["time_over_ours"] == 1
    for floor in found["floors"]:
        expected = floor["batch"] * found["flops_per_sample"] / found["peak_flops_per_second"]
        assert math.isclose(floor["flops_seconds"], expected)
        assert floor["bytes_seconds"] > 4 * found["parameters"] / found["peak_bytes_per_second"]


def test_a_named_model_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    found = benched(capsys, TINY, "--batch", "256", "64")
    check(found, [1, 64, 256])
    assert found["parameters"] == 202_186
    taken = [row["peak_memory_bytes"] for row in found["rows"] if row["library"] == "vitreous"]
    assert taken[-1] > 4 * 202_186
    assert taken == sorted(taken)
    assert {row["library"] for row in found["rows"]} | set(found["notes"]) == {"vitreous", *PEERS}


@pytest.mark.usefixtures("_no_peers")
def test_training_costs_three_times_the_operations(capsys: pytest.CaptureFixture[str]) -> None:
    found = benched(capsys, TINY, "--batch", "8", "--train")
    check(found, [1, 8])
    assert found["train"]
    assert found["flops_per_sample"] == pytest.approx(3 * model_cost(vt.zoo.model_config(TINY)).flops, rel=0.01)


@pytest.mark.usefixtures("_no_peers")
def test_a_run_is_also_timed_as_predict_uses_it(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    main(["bench", str(run), "--batch", "4", "--device", "cpu"])
    out = capsys.readouterr().out
    assert "What this machine could do" in out
    assert out.count("│ predict ") == 2  # at both batches
    assert "predict: checks, scaling, model in float32, units" in out


def test_a_saved_model_and_a_cnn_are_measured(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    vt.save_model(vt.nn.CNN(CNNConfig(input=(1, 8, 8), out=10)), tmp_path)
    found = benched(capsys, str(tmp_path), "--batch", "2")
    check(found, [1, 2])
    assert found["notes"] == dict.fromkeys(PEERS, "has no such model (CNN)")


def test_flops_are_those_of_the_formula() -> None:
    c = vt.ViTConfig(input=(1, 4500), patch=(10,), out=6, dim=64, depth=4, heads=4, pool="mean")
    patches, width = 450, c.dim
    tokens = patches + 1
    block = 2 * tokens * (3 + 1 + 2 * 4) * width**2 + 4 * tokens**2 * width  # qkv, output, MLP; scores, mixing
    expected = 2 * patches * 10 * width + c.depth * block + 2 * width * c.out
    assert count_flops(c) == pytest.approx(expected, rel=0.01)
    assert count_flops(replace(c, bias="relative")) == count_flops(c)
    alone = 2 * (2 * tokens + 2 + 2 * 4) * width**2 + 4 * tokens * width  # a last block in which one token asks
    assert count_flops(replace(c, pool="cls")) == pytest.approx(expected - block + alone, rel=0.01)


@pytest.mark.parametrize("tokens", ["peaks", "lines", "set"])
def test_models_that_look_at_their_input_have_a_cost_too(tokens: str) -> None:
    shape = {
        "peaks": {"input": (1, 300), "peaks": 8, "position": "none"},
        "lines": {"input": (3, 8), "position": "none"},
        "set": {"input": (3, 8), "axes": 2},
    }[tokens]
    c = vt.ViTConfig(**shape, tokens=tokens, out=2, dim=32, depth=3, heads=2)
    assert model_cost(c).tokens == 9
    assert count_flops(c) > (c.depth - 1) * 2 * 9 * 12 * c.dim**2
    make_step(vt.ViT(c), example_inputs(c, 2), c.out, Setting(train=True))()


def test_a_race_gives_every_step_every_round() -> None:
    count = {"a": 0, "b": 0}

    def step(name: str) -> None:
        count[name] += 1

    told: list[float] = []
    times = time_steps(
        {"a": lambda: step("a"), "b": lambda: step("b")}, "cpu", (4, 4), repeats=3, warm=2, progress=told.append
    )
    assert count == {"a": 14, "b": 14}
    assert [len(t) for t in times.values()] == [4, 4]
    assert told == sorted(told)
    assert max(told) < 1
    assert median_ratio([2.0, 9.0, 6.0], [1.0, 3.0, 3.0]) == 2


def test_resident_memory_is_that_of_what_was_allocated() -> None:
    grown = run_in_fresh_process(_allocate, 200 * MB)
    assert 200 * MB <= grown < 220 * MB


def _allocate(size: int) -> int:
    peak = Peak("cpu")
    torch.ones(size // 4)
    return peak.bytes()


def test_what_runs_alone_raises_here_and_may_take_too_long_or_die() -> None:
    with pytest.raises(ZeroDivisionError):
        run_in_fresh_process(divmod, 1, 0)
    with pytest.raises(TimeoutError, match="within 0"):
        run_in_fresh_process(time.sleep, 60.0, seconds=0.1)
    with pytest.raises(ProcessDiedError, match="exit code 3"):
        run_in_fresh_process(os._exit, 3)


def test_peers_without_such_a_model_say_why() -> None:
    plain = vt.zoo.model_config(TINY)
    for change, why in [
        ({"bias": "relative"}, "bias"),
        ({"pool": "flatten"}, "pool"),
        ({"stride": (1, 1)}, "stride"),
        ({"input": (1, 9, 9)}, "input"),
        ({"mlp": (2.0, 2.0)}, "mlp"),
        ({"registers": 2, "score": "cosine"}, "registers, score"),
    ]:
        _, notes = build_all(replace(plain, **change), train=False)
        assert notes == dict.fromkeys(PEERS, f"has no such model ({why})")
    _, notes = build_all(replace(plain, drop_path=0.1), train=True)
    assert notes == dict.fromkeys(PEERS, "has no such model (drop_path)")


def test_a_peer_that_is_not_installed_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("timm", "timm.models.vision_transformer", "transformers", "vit_pytorch"):
        monkeypatch.setitem(sys.modules, name, None)
    models, notes = build_all(vt.zoo.model_config(TINY), train=False)
    assert list(models) == ["vitreous"]
    assert notes == dict.fromkeys(PEERS, "not installed")


def test_mistakes_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "did you mean vit_base_patch16_224" in fails(capsys, "bench", "vit_base_patch16_22")
    assert "expected one of: vit_tiny_patch16_224" in fails(capsys, "bench", "zzz")
    assert "is no run folder" in fails(capsys, "bench", str(tmp_path))
    assert "is no run folder" in fails(capsys, "bench", "runs/nothing")
    assert "batch: found 0, expected at least 1 sample" in fails(capsys, "bench", TINY, "--batch", "4", "0")
    assert "--batch" in fails(capsys, "bench", TINY, "--batch", "many")
    if not torch.cuda.is_available():
        assert "no CUDA device is available" in fails(capsys, "bench", "--device", "cuda")


@pytest.mark.usefixtures("_no_peers")
def test_a_batch_that_does_not_fit_says_which_one_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda device: 200 * 2**20)
    told = fails(capsys, "bench", TINY, "--batch", "1", "16384", "--device", "cpu")
    assert "16,384 samples of vit_micro_patch2_8 need more memory than the 0.2 GiB that are free; about" in told
    fits = int(told.split("about ")[1].split()[0].replace(",", ""))
    assert 64 <= fits < 16384
    check(benched(capsys, TINY, "--batch", str(fits // 2)), [1, fits // 2])
    monkeypatch.setattr(memory, "available_memory", lambda device: 2**20)
    assert "not even one fits" in fails(capsys, "bench", "vit_tiny_patch16_224", "--device", "cpu")


@pytest.mark.usefixtures("_no_peers")
def test_all_are_compiled_and_a_compiler_that_fails_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = []

    def compile(model: torch.nn.Module, dynamic: bool) -> torch.nn.Module:
        compiled.append(model)
        return model

    def broken(model: torch.nn.Module, dynamic: bool) -> None:
        raise torch._dynamo.exc.InternalTorchDynamoError("No working C++ compiler found")

    monkeypatch.setattr(torch, "compile", compile)
    found = benched(capsys, TINY, "--batch", "2", "--compile")
    assert found["compile"]
    assert len(compiled) == len(found["rows"])
    monkeypatch.setattr(torch, "compile", broken)
    assert "compile: torch.compile fails here (No working C++" in fails(capsys, "bench", TINY, "--compile")
