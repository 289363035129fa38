"""Runs: killed and resumed they end the same, several processes agree with one, faults cost nothing that was there."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

import vitreous as vt
from tests.recipes import SUPERVISED, choices, two_steps
from vitreous.core.errors import InputError
from vitreous.data import Axis, Source, Target
from vitreous.data.augment import Augment
from vitreous.nn import CNNConfig
from vitreous.recipes import GALLERY
from vitreous.train import SupervisedJob, TrainConfig, load, train
from vitreous.train.checkpoint import LAST
from vitreous.train.loop import Loop

ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


def spectra(count: int = 300, seed: int = 0) -> Source:
    """A peak whose place is to be found, on 40 points, in nm."""
    rng = np.random.default_rng(seed)
    place = rng.uniform(10, 30, count)
    x = np.exp(-(((np.arange(40) - place[:, None]) / 3) ** 2)) + rng.normal(0, 0.05, (count, 40))
    axes = (Axis("wavelength", "nm", 500.0, 2.0),)
    return Source(
        "peaks", x[:, None].astype(np.float32), place[:, None] * 2 + 500, axes, ("i",), (), (Target("at", "nm"),)
    )


def small(**settings: object) -> SupervisedJob:
    config: dict[str, object] = {"steps": 40, "batch": 32, "lr": 3e-3, "evaluate_every": 10, **settings}
    model = vt.ViTConfig(input=(1, 40), patch=(5,), dim=16, depth=2, heads=2, dropout=0.1)
    return SupervisedJob(spectra(), model, TrainConfig(**config), Augment(shift=1.0, noise=0.02), scale="channel")  # type: ignore[arg-type]


def weights(run: Path) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(run / "model.safetensors")


def same(a: Path, b: Path) -> bool:
    one, other = (safetensors.torch.load_file(run / LAST) for run in (a, b))
    left, right = weights(a), weights(b)
    return all(torch.equal(one[k], other[k]) for k in one) and all(torch.equal(left[k], right[k]) for k in left)


def test_a_run_holds_what_is_needed_to_use_it(tmp_path: Path) -> None:
    result = train(small(steps=300, optimiser="muon", ema=0.98), tmp_path / "run", bar=False)
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names >= {"config.json", "model.safetensors", "task.json", "metrics.jsonl", "result.json", "last"}
    assert result["test"]["rmse"] < 3  # nm; the mean would be off by 11
    predictor = load(tmp_path / "run")
    fresh = spectra(50, seed=1)
    answer = predictor(fresh.x[:, 0], coverage=0.9)
    assert answer.values is not None
    assert np.sqrt(np.mean((answer.values - fresh.y) ** 2)) < 3
    assert list(answer.rows()[0]) == ["at (nm)", "at (nm) lower 90%", "at (nm) upper 90%", "familiarity"]
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "validation" in line] == list(range(10, 301, 10))


@pytest.mark.parametrize("settings", [{}, {"optimiser": "muon", "ema": 0.9, "patience": 3}], ids=str)
def test_a_run_stopped_anywhere_and_resumed_ends_the_same(
    settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(small(**settings), tmp_path / "whole", bar=False)
    job = small(**settings)

    class Killed(BaseException):
        pass

    step = Loop.step
    for kill in (13, 27, 30):

        def dying(self: Loop, number: int, kill: int = kill) -> None:
            if number == kill:
                raise Killed
            step(self, number)

        monkeypatch.setattr(Loop, "step", dying)
        with pytest.raises(Killed):
            train(job, tmp_path / "parts", resume=(tmp_path / "parts" / LAST).exists(), bar=False)
    monkeypatch.setattr(Loop, "step", step)
    train(job, tmp_path / "parts", resume=True, bar=False)
    assert same(tmp_path / "whole", tmp_path / "parts")
    whole, parts = ((tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("whole", "parts"))
    assert [json.loads(line)["step"] for line in whole] == [json.loads(line)["step"] for line in parts]


def test_kill_9_then_resume_ends_with_the_same_weights_bit_for_bit(tmp_path: Path) -> None:
    def command(out: str, *more: str) -> list[str]:
        settings = ["--epochs", "4", "--seed", "5", "--device", "cpu"]
        return [sys.executable, "-m", "vitreous", "train", "digits", "--out", str(tmp_path / out), *settings, *more]

    subprocess.run(command("whole"), env=ONE_THREAD, check=True, capture_output=True)
    process = subprocess.Popen(command("killed"), env=ONE_THREAD, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    log = tmp_path / "killed" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not (log.is_file() and log.read_text().count("validation") >= 2):
        assert process.poll() is None, "ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(np.random.default_rng().uniform(0, 0.3))
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed" / "result.json").exists()
    subprocess.run(command("killed", "--resume"), env=ONE_THREAD, check=True, capture_output=True)
    assert same(tmp_path / "whole", tmp_path / "killed")


_WORKER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from dataclasses import replace
from test_run import small
from vitreous.data.augment import Augment
from vitreous.train import train
job = small(**{settings!r})
job = replace(job, augment=Augment(), config=replace(job.config, dropout=0.0))
{more}
train(job, Path({out!r}), resume=True, device="cpu", bar=False)
"""
_DIES = """
import os, signal
from vitreous.train.loop import Loop
step = Loop.step
def dying(self, number):
    if number == 23 and os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    step(self, number)
Loop.step = dying
"""


def torchrun(script: Path, processes: int, settings: dict[str, object], more: str = "", *options: str) -> None:
    """A training by the script in so many processes, in a folder named as the script."""
    out = str(script.with_suffix(""))
    script.write_text(_WORKER.format(tests=str(Path(__file__).parent), settings=settings, out=out, more=more))
    command = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", *options, str(script)]
    subprocess.run([sys.executable, *command], env=ONE_THREAD, check=True, capture_output=True, timeout=300)


@pytest.mark.parametrize(
    "settings",
    [
        {"steps": 15},
        {"steps": 15, "accumulate": 2, "ema": 0.9},
        {"steps": 15, "accumulate": 2, "ema": 0.9, "shard": True},
    ],
    ids=str,
)
def test_two_processes_agree_with_one(settings: dict[str, object], tmp_path: Path) -> None:
    """All but the biases of the keys: attention does not depend on them, so their gradient is rounding alone."""
    torchrun(tmp_path / "one.py", 1, settings)
    torchrun(tmp_path / "two.py", 2, settings)
    one, two = weights(tmp_path / "one"), weights(tmp_path / "two")
    for key in one:
        keys = torch.arange(len(one[key])) // 16 == 1 if key.endswith("qkv.bias") else torch.zeros(len(one[key])) > 0
        torch.testing.assert_close(two[key][~keys], one[key][~keys], atol=1e-5, rtol=1e-5)
    results = [json.loads((tmp_path / name / "result.json").read_text())["test"]["rmse"] for name in ("one", "two")]
    assert results[0] == pytest.approx(results[1], rel=1e-4)


@pytest.mark.parametrize("settings", [{}, {"optimiser": "muon", "ema": 0.9, "shard": True}], ids=str)
def test_a_process_that_dies_is_started_again_from_the_last_state(settings: dict[str, object], tmp_path: Path) -> None:
    torchrun(tmp_path / "whole.py", 2, settings)
    torchrun(tmp_path / "killed.py", 2, settings, _DIES, "--max-restarts=1")
    assert same(tmp_path / "whole", tmp_path / "killed")


def test_accumulation_gives_the_same_weights(tmp_path: Path) -> None:
    for parts in (1, 4):
        job = small(steps=10, accumulate=parts)
        job = replace(job, augment=Augment(), config=replace(job.config, dropout=0.0))
        train(job, tmp_path / str(parts), bar=False)
    one, four = weights(tmp_path / "1"), weights(tmp_path / "4")
    for key in one:
        torch.testing.assert_close(four[key], one[key], atol=1e-5, rtol=1e-4)


def test_training_stops_early_without_improvement(tmp_path: Path) -> None:
    result = train(small(steps=400, lr=0.0, patience=3), tmp_path / "run", bar=False)
    assert result["steps"] == 40  # the first evaluation is the best; three more are not better


def test_training_leaves_the_callers_random_numbers_alone(tmp_path: Path) -> None:
    torch.manual_seed(7)
    wanted = torch.rand(3)
    torch.manual_seed(7)
    train(small(steps=10), tmp_path / "run", bar=False)
    assert torch.equal(torch.rand(3), wanted)


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_good_state(tmp_path: Path) -> None:
    job = small(steps=40, evaluate_every=10, clip=0.0)

    class Breaks(Augment):
        calls = 0

        def __call__(self, x: torch.Tensor, y: torch.Tensor, generator: torch.Generator | None = None):  # type: ignore[no-untyped-def]
            Breaks.calls += 1
            return (x * float("nan") if Breaks.calls == 24 else x), y

    with pytest.raises(InputError, match=r"no longer finite after step 24; the state before it is in .*last.*lower lr"):
        train(replace(job, augment=Breaks(noise=0.1)), tmp_path / "run", bar=False)
    state = safetensors.torch.load_file(tmp_path / "run" / LAST)
    assert all(value.isfinite().all() for value in state.values() if value.is_floating_point())


def test_a_full_disk_leaves_the_previous_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    real = os.fsync

    def full(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls > 12:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot be written .No space left"):
        train(small(steps=200), tmp_path / "run", bar=False)
    monkeypatch.setattr(os, "fsync", real)
    result = train(small(steps=200), tmp_path / "run", resume=True, bar=False)
    train(small(steps=200), tmp_path / "whole", bar=False)
    assert result["steps"] == 200
    assert same(tmp_path / "run", tmp_path / "whole")


def test_a_run_is_not_overwritten(tmp_path: Path) -> None:
    train(small(steps=10), tmp_path / "run", bar=False)
    with pytest.raises(InputError, match="holds a run already; continue it with --resume"):
        train(small(steps=10), tmp_path / "run", bar=False)
    for name in ("config.json", "result.json"):  # as before the first weights are saved
        (tmp_path / "run" / name).unlink()
    with pytest.raises(InputError, match="holds a run already; continue it with --resume"):
        train(small(steps=10), tmp_path / "run", bar=False)


def test_the_seconds_of_a_run_are_those_of_all_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as slow:
        slow.setattr(Loop, "seconds", lambda loop: 1000.0)
        assert train(small(steps=10), tmp_path / "run", bar=False)["seconds"] < 1000
    (tmp_path / "run" / "result.json").unlink()
    assert 1000 <= train(small(steps=10), tmp_path / "run", resume=True, bar=False)["seconds"] < 1100


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda run: (run / LAST).write_bytes((run / LAST).read_bytes()[:-50]), "is damaged; delete it to start again"),
        (lambda run: (run / LAST).write_bytes(b""), "is damaged"),
    ],
)
def test_a_damaged_state_is_told_in_one_line(damage: object, message: str, tmp_path: Path) -> None:
    train(small(steps=10), tmp_path / "run", bar=False)
    (tmp_path / "run" / "result.json").unlink()
    damage(tmp_path / "run")  # type: ignore[operator]
    with pytest.raises(InputError, match=message) as fault:
        train(small(steps=10), tmp_path / "run", resume=True, bar=False)
    assert "\n" not in str(fault.value)


def test_a_run_killed_before_its_first_state_begins_again(tmp_path: Path) -> None:
    train(small(steps=10), tmp_path / "whole", bar=False)
    train(small(steps=10), tmp_path / "killed", bar=False)
    (tmp_path / "killed" / LAST).unlink()
    (tmp_path / "killed" / "result.json").unlink()
    train(small(steps=10), tmp_path / "killed", resume=True, bar=False)
    assert same(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.parametrize("where", ["step", "evaluate", "weights"])
def test_a_run_stopped_by_the_keyboard_and_resumed_ends_the_same(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the interrupt comes: after a step, in an evaluation, or with the averaged weights in place."""

    train(small(ema=0.9), tmp_path / "whole", bar=False)
    real, calls = getattr(Loop, where), 0

    def stopped(self: Loop, *arguments: object) -> object:
        nonlocal calls
        calls += 1
        found = real(self, *arguments)
        if calls == {"step": 25, "evaluate": 3, "weights": 4}[where]:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(Loop, where, stopped)
    with pytest.raises(KeyboardInterrupt, match=r"continue with --resume"):
        train(small(ema=0.9), tmp_path / "parts", bar=False)
    monkeypatch.setattr(Loop, where, real)
    train(small(ema=0.9), tmp_path / "parts", resume=True, bar=False)
    assert same(tmp_path / "whole", tmp_path / "parts")


def test_a_training_without_time_still_ends_with_a_model(tmp_path: Path) -> None:
    result = train(small(minutes=1e-9), tmp_path / "run", bar=False)
    assert result["steps"] == 1
    assert load(tmp_path / "run")(spectra(3).x).values is not None


def test_a_run_is_resumed_as_it_was_begun(tmp_path: Path) -> None:
    train(small(steps=10), tmp_path / "run", bar=False)
    (tmp_path / "run" / "result.json").unlink()
    with pytest.raises(InputError, match=r"was begun with lr = 0.003, not 0.1"):
        train(small(steps=10, lr=0.1), tmp_path / "run", resume=True, bar=False)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda run: (run / "task.json").unlink(), "is no run folder"),
        (lambda run: (run / "task.json").write_text("{"), "task.json: is damaged"),
        (
            lambda run: (run / "task.json").write_text('{"version": 99}'),
            "in format 99, this version reads 1",
        ),
        (lambda run: (run / "result.json").unlink(), "has not finished"),
        (lambda run: (run / "model.safetensors").write_bytes(b"x" * 99), "model.safetensors: the file is damaged"),
        (lambda run: (run / "model.safetensors").unlink(), "model.safetensors: no such file"),
        (lambda run: (run / "config.json").write_text("{}"), "expected the kind of model"),
    ],
)
def test_a_damaged_run_is_told_in_one_line(damage: object, message: str, tmp_path: Path) -> None:
    train(small(steps=10), tmp_path / "run", bar=False)
    (tmp_path / "run" / "checksums.json").unlink()  # which would find the damage first
    damage(tmp_path / "run")  # type: ignore[operator]
    with pytest.raises(InputError, match=message) as fault:
        load(tmp_path / "run")
    assert "\n" not in str(fault.value)


def test_a_batch_that_cannot_be_shared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="32 samples cannot be shared evenly by 1 process"):
        train(small(accumulate=5), tmp_path / "run", bar=False)


def test_a_cnn_runs_the_same_way(tmp_path: Path) -> None:
    job = replace(
        small(steps=60, ema=0.9, lr=1e-2), config=CNNConfig(input=(1, 40), widths=(8, 16), nonlocal_after=(1,))
    )
    train(job, tmp_path / "whole", bar=False)
    predictor = load(tmp_path / "whole")
    assert predictor(spectra(5).x).values is not None


@pytest.mark.parametrize(
    ("name", "choice"),
    [(name, choice) for name in SUPERVISED if name not in GALLERY for choice in choices(name)],
    ids=str,
)  # those of the gallery are trained and drawn in tests/gallery
def test_every_recipe_runs_two_steps(name: str, choice: dict[str, str], tmp_path: Path) -> None:
    job = two_steps(name, choice)
    result = train(job, tmp_path / "run", bar=False)
    assert result["steps"] == 2
    score, most = ("accuracy", 1) if job.source.classes else ("rmse_scaled", 4)
    assert 0 <= result["test"][score] <= most


def test_a_training_with_little_time_ends_in_it_with_a_low_rate(tmp_path: Path) -> None:
    job = small(steps=1_000_000, minutes=3 / 60)
    result = train(job, tmp_path / "run", bar=False)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    rates = [line["lr"] for line in lines if "lr" in line]
    assert 1 < result["steps"] < 100_000
    assert max(rates) > 0.5 * 3e-3
    assert rates[-1] < 0.1 * 3e-3
    assert "validation" in lines[-1]
