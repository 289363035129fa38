"""`vitreous pretrain` and `train --from`: runs without labels, and what begins with them."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vitreous as vt
from benchmarks import few_labels, small_spectra
from tests.recipes import SUPERVISED, choices, narrow, two_steps
from tests.spectra import spectra_file
from tests.users import fails
from vitreous.cli import main
from vitreous.core.errors import InputError
from vitreous.data import Source
from vitreous.data.augment import Augment
from vitreous.data.source import Axis
from vitreous.nn import ViTConfig
from vitreous.nn.pretraining import METHODS, PretrainConfig
from vitreous.train import PretrainJob, SupervisedJob, TrainConfig, pretrain_job, read_start, train
from vitreous.train.optimiser import FACTOR, create_optimisers
from vitreous.train.pretrain import load_pretraining
from vitreous.zoo import load_model

MODEL = ViTConfig(input=(1, 20), patch=(4,), dim=16, depth=3, heads=2)
SHORT = TrainConfig(steps=12, batch=16, evaluate_every=4, lr=1e-3)


def spectra(rows: int = 80) -> Source:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 1, 20)).cumsum(2).astype(np.float32)
    return Source("walks", x, (x[:, 0, 7] > 0).astype(np.int64), (Axis(),), ("intensity",), ("down", "up"))


def experiment(**changes: Any) -> SupervisedJob:
    return replace(SupervisedJob(spectra(), MODEL, SHORT), **changes)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pre-trainings by every method."""
    folder = tmp_path_factory.mktemp("runs")
    for method in METHODS:
        train(pretrain_job(experiment(), PretrainConfig(method)), folder / method, device="cpu", bar=False)
    return folder


@pytest.mark.parametrize("method", METHODS)
def test_a_pre_training_is_a_run_like_any_other(runs: Path, method: str) -> None:
    run = runs / method
    told = json.loads((run / "task.json").read_text())
    assert told["task"]["kind"] == "pretraining"
    assert told["task"]["method"] == method
    assert load_model(run).config == replace(MODEL, out=0)
    assert np.isfinite(json.loads((run / "result.json").read_text())["validation"]["loss"])
    assert len((run / "metrics.jsonl").read_text().splitlines()) >= 3
    kept, encoder = load_pretraining(run).state_dict(), load_model(run).state_dict()
    assert all(torch.equal(kept[f"encoder.{name}"], value) for name, value in encoder.items())


@pytest.mark.parametrize("method", METHODS)
def test_longer_pre_training_ends_with_a_lower_loss(tmp_path: Path, method: str) -> None:
    losses = []
    for steps in (2, 60):
        job = pretrain_job(experiment(settings=replace(SHORT, steps=steps)), PretrainConfig(method))
        result = train(job, tmp_path / str(steps), device="cpu", bar=False)
        losses.append(result["validation"]["loss"])
    assert losses[1] < losses[0]


@pytest.mark.parametrize("method", METHODS)
def test_resuming_gives_the_weights_of_a_run_that_was_not_stopped(
    runs: Path, tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = pretrain_job(experiment(), PretrainConfig(method))
    calls = 0

    def stop(step: int) -> None:
        nonlocal calls
        calls += 1
        if calls > 6:
            raise KeyboardInterrupt

    batches = PretrainJob.batches

    def stopping(self: PretrainJob, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        stop(step)
        return batches(self, step)

    with monkeypatch.context() as patch:
        patch.setattr(PretrainJob, "batches", stopping)
        with pytest.raises(KeyboardInterrupt):
            train(job, tmp_path / "run", device="cpu", bar=False)
    train(job, tmp_path / "run", resume=True, device="cpu", bar=False)
    whole, resumed = (load_pretraining(run).state_dict() for run in (runs / method, tmp_path / "run"))
    assert all(torch.equal(whole[name], value) for name, value in resumed.items())


@pytest.mark.parametrize("recipe", [name for name in SUPERVISED if name != "powder-cnn"])
def test_every_recipe_of_a_vit_is_pre_trained_and_trained_further(recipe: str, tmp_path: Path) -> None:
    job = narrow(two_steps(recipe, choices(recipe)[0]))
    method = "contrast" if recipe == "powder-symmetry" else "masked"  # its peaks would show what masked patches hide
    train(pretrain_job(job, PretrainConfig(method)), tmp_path / "before", device="cpu", bar=False)
    begun = replace(job, start=read_start(tmp_path / "before"))
    result = train(begun, tmp_path / "after", device="cpu", bar=False)
    assert np.isfinite(result["validation"]["loss"])


def test_labels_are_not_looked_at(runs: Path, tmp_path: Path) -> None:
    source = spectra()
    parts = {"train": np.arange(60), "validation": np.arange(60, 80)}
    found = []
    for name, y in (("given", source.y), ("none", None)):
        classes = source.classes if y is not None else ()
        job = experiment(source=replace(source, y=y, classes=classes, parts=parts), test=0.0)
        train(pretrain_job(job, PretrainConfig()), tmp_path / name, device="cpu", bar=False)
        found.append(load_model(tmp_path / name).state_dict())
    assert all(torch.equal(found[0][name], value) for name, value in found[1].items())


def test_the_views_of_a_sample_are_its_augmentations_without_blends() -> None:
    job = pretrain_job(experiment(augment=Augment(noise=0.1, mixup=0.5)), PretrainConfig("contrast"))
    assert job.augment == Augment(noise=0.1)
    x = torch.randn(4, 1, 20)
    views = job.view()(x)
    assert views.shape == (4, 2, 1, 20)
    assert not torch.equal(views[:, 0], views[:, 1])
    still = replace(job, augment=Augment())
    assert torch.equal(still.view()(x), torch.stack([x, x], dim=1))


def test_what_is_damaged_is_beside_what_it_was() -> None:
    job = pretrain_job(experiment(), PretrainConfig("denoise"))
    job = replace(job, augment=Augment())
    x = torch.randn(4, 1, 20)
    damaged, whole = job.view()(x).unbind(1)
    assert torch.equal(whole, x)
    assert not torch.allclose(damaged, x)


@pytest.mark.parametrize("method", METHODS)
def test_a_training_begins_with_the_encoder_of_the_run(runs: Path, tmp_path: Path, method: str) -> None:
    start = read_start(runs / method)
    job = experiment(start=start, settings=replace(SHORT, steps=1, lr=0.0))
    train(job, tmp_path / "run", device="cpu", bar=False)
    before, after = start.model.state_dict(), load_model(tmp_path / "run").state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert after.keys() - before.keys() == {"head.layers.0.weight", "head.layers.0.bias"}
    assert vt.load(tmp_path / "run").scaling == start.scaling


def test_frozen_weights_do_not_move_and_the_head_does(runs: Path, tmp_path: Path) -> None:
    start = read_start(runs / "masked")
    settings = replace(SHORT, freeze=True, optimiser="muon", weight_decay=0.1, ema=0.9)
    train(experiment(start=start, settings=settings), tmp_path / "run", device="cpu", bar=False)
    after = load_model(tmp_path / "run").state_dict()
    assert all(torch.equal(after[name], value) for name, value in start.model.state_dict().items())
    train(
        experiment(start=start, settings=replace(SHORT, steps=1, lr=0.0)), tmp_path / "other", device="cpu", bar=False
    )
    head = load_model(tmp_path / "other").state_dict()
    assert not torch.equal(head["head.layers.0.weight"], after["head.layers.0.weight"])


def test_without_freezing_all_blocks_learn(runs: Path, tmp_path: Path) -> None:
    start = read_start(runs / "masked")
    train(experiment(start=start), tmp_path / "run", device="cpu", bar=False)
    after = load_model(tmp_path / "run").state_dict()
    assert not any(torch.equal(after[f"blocks.{i}.mlp.layers.0.weight"], start.model.state_dict()[
        f"blocks.{i}.mlp.layers.0.weight"]) for i in range(3))  # fmt: skip


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_the_learning_rate_falls_by_a_factor_from_each_layer_to_the_one_below(kind: str) -> None:
    model = vt.ViT(replace(MODEL, out=2))
    found = {
        id(p): group[FACTOR] for each in create_optimisers(model, kind, 1e-3, 0.05, 0.5) for group in each.param_groups
        for p in group["params"]
    }  # fmt: skip
    expected = {
        "head.layers.0.weight": 1.0, "norm.weight": 1.0, "blocks.2.mlp.layers.0.weight": 0.5,
        "blocks.1.attention.qkv.weight": 0.25, "blocks.0.mlp_norm.bias": 0.125, "tokenizer.project.weight": 0.0625,
        "position.table": 0.0625, "prefix": 0.0625,
    }  # fmt: skip
    parameters = dict(model.named_parameters())
    assert {name: found[id(parameters[name])] for name in expected} == expected
    assert len(found) == len(parameters)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_one_step_moves_each_layer_by_its_own_learning_rate(runs: Path, tmp_path: Path, kind: str) -> None:
    start, moved = read_start(runs / "masked"), []
    for decay in (1.0, 0.5):
        settings = replace(SHORT, steps=1, layer_decay=decay, weight_decay=0.0, warmup=0.0, optimiser=kind)
        run = tmp_path / str(decay)
        train(experiment(start=start, settings=settings), run, device="cpu", bar=False)
        after, before = load_model(run).state_dict(), start.model.state_dict()
        names = [*(f"blocks.{i}.mlp.layers.0.weight" for i in range(3)), "tokenizer.project.weight"]
        moved.append([float((after[name] - before[name]).norm()) for name in names])
    ratios = np.array(moved[1]) / np.array(moved[0])
    assert ratios == pytest.approx([0.125, 0.25, 0.5, 0.0625], rel=1e-3)


def test_a_decayed_training_resumes_to_equal_weights(runs: Path, tmp_path: Path) -> None:
    settings = replace(SHORT, layer_decay=0.75, optimiser="muon", keep="last")
    job = experiment(start=read_start(runs / "masked"), settings=settings)
    train(job, tmp_path / "whole", device="cpu", bar=False)
    shutil.copytree(tmp_path / "whole", tmp_path / "again")
    (tmp_path / "again" / "result.json").unlink()
    train(job, tmp_path / "again", resume=True, device="cpu", bar=False)
    whole, again = (load_model(tmp_path / name).state_dict() for name in ("whole", "again"))
    assert all(torch.equal(whole[name], value) for name, value in again.items())


def test_a_supervised_run_is_begun_from_as_well(runs: Path, tmp_path: Path) -> None:
    train(experiment(), tmp_path / "first", device="cpu", bar=False)
    start = read_start(tmp_path / "first")
    job = experiment(start=start, settings=replace(SHORT, steps=1, lr=0.0, seed=5))
    train(job, tmp_path / "second", device="cpu", bar=False)
    first, second = (load_model(tmp_path / name).state_dict() for name in ("first", "second"))
    assert {n for n, value in second.items() if not torch.equal(first[n], value)} == {
        "head.layers.0.weight", "head.layers.0.bias"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"dim": 32}, "has dim = 16, the model to train has dim = 32"),
        ({"patch": (5,)}, r"has patch = \(4,\), the model to train has patch = \(5,\)"),
        ({"depth": 2}, "depth = 3, the model to train has depth = 2"),
        ({"bias": "relative"}, "bias = 'none', the model to train has bias = 'relative'"),
    ],
)
def test_a_run_of_another_model_is_refused_in_one_line(runs: Path, tmp_path: Path, other: Any, told: str) -> None:
    job = experiment(start=read_start(runs / "masked"), config=replace(MODEL, **other))
    with pytest.raises(InputError, match=told) as fault:
        train(job, tmp_path / "run", device="cpu", bar=False)
    assert str(runs / "masked") in str(fault.value)
    assert not (tmp_path / "run").exists()


def test_a_run_of_another_tokenizer_is_refused_in_one_line(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((40, 1, 256)).astype(np.float32)
    source = Source("peaks", x, np.arange(40) % 2, (Axis(),), ("intensity",), ("a", "b"))
    peaks = ViTConfig(input=(1, 256), tokens="peaks", peaks=6, position="none", dim=16, depth=3, heads=2)
    job = SupervisedJob(source, peaks, replace(SHORT, steps=1), scale="none")
    train(pretrain_job(job, PretrainConfig()), tmp_path / "peaks", device="cpu", bar=False)
    with pytest.raises(InputError, match="tokens = 'peaks', the model to train has tokens = 'patch'"):
        train(
            replace(job, config=replace(MODEL, patch=(8,), input=(1, 256)), start=read_start(tmp_path / "peaks")),
            tmp_path / "run",
        )


def command(*words: str) -> list[str]:
    return [*words, "--steps", "4", "--batch", "16", "--device", "cpu"]


def test_the_commands_go_from_spectra_to_a_figure_to_a_finished_run(tmp_path: Path) -> None:
    data = str(spectra_file(tmp_path / "spectra.csv"))
    before, after = str(tmp_path / "before"), str(tmp_path / "after")
    for method in METHODS:
        scaled = ("--scale", "slope") if method == "denoise" else ()
        main(command("pretrain", data, "--target", "height:mm", "--out", before + method, "--method", method, *scaled))
        assert (tmp_path / f"before{method}" / "pretraining.png").stat().st_size > 5_000
    labels = ("--target", "height:mm")
    main(command("train", data, *labels, "--from", f"{before}contrast", "--layer-decay", "0.75", "--out", after))
    main(command("train", data, *labels, "--from", f"{before}masked", "--freeze", "--out", f"{after}frozen"))
    told = json.loads((tmp_path / "after" / "experiment.json").read_text())
    assert told["from"] == f"{before}contrast"
    assert told["train"]["layer_decay"] == 0.75
    assert ["--from", f"{before}contrast"] == told["command"][-2:]
    assert vt.load(tmp_path / "after")(np.zeros((1, 1, 20), np.float32)).values is not None
    main(["report", after])
    main(command("train", data, *labels, "--from", f"{before}denoise", "--out", f"{after}slope"))
    assert vt.load(tmp_path / "afterslope").scaling.kind == "slope"


def test_a_mistake_is_one_line(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = str(spectra_file(tmp_path / "spectra.csv"))
    labels = ("--target", "height:mm", "--out", str(tmp_path / "run"))
    assert "no run folder" in fails(capsys, "train", data, *labels, "--from", str(tmp_path / "nowhere"))
    wide = fails(capsys, "train", data, *labels, "--from", str(runs / "masked"))
    assert "has dim = 16, the model to train has dim = 64" in wide
    assert "--from" in fails(capsys, "train", data, *labels, "--freeze")
    scaled = fails(capsys, "train", data, *labels, "--from", str(runs / "masked"), "--scale", "slope")
    assert "scale: is that of the run" in scaled
    assert "'slop'" in fails(capsys, "train", data, *labels, "--scale", "slop")
    assert "scale: 'slope' is for spectra" in fails(capsys, "train", "digits", "--out", labels[-1], "--scale", "slope")
    assert "layer_decay: is for" in fails(capsys, "train", data, *labels, "--layer-decay", "0.5")
    assert "expected a factor" in fails(
        capsys, "train", data, *labels, "--from", str(runs / "masked"), "--layer-decay", "1.5"
    )
    alone = fails(capsys, "pretrain", data, *labels, "--method", "contrast", "--batch", "1")
    assert "batch: found 1, expected at least 2 samples to contrast" in alone
    assert "pre-training" in fails(capsys, "predict", str(runs / "masked"), data)
    assert "pre-training" in fails(capsys, "report", str(runs / "masked"))
    assert "ratio" in fails(capsys, "pretrain", data, *labels, "--ratio", "1.5")
    assert "lines" in fails(capsys, "pretrain", "powder-index", "--method", "contrast", "--out", str(tmp_path / "run"))
    assert "holds a run" in fails(capsys, "pretrain", data, "--target", "height:mm", "--out", str(runs / "masked"))


@pytest.mark.parametrize("name", ["model.safetensors", "task.json", "config.json"])
def test_a_truncated_file_is_one_line(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    data, run = str(spectra_file(tmp_path / "spectra.csv")), tmp_path / "broken"
    shutil.copytree(runs / "masked", run)
    content = (run / name).read_bytes()
    (run / name).write_bytes(content[: len(content) // 2])
    told = fails(capsys, "train", data, "--target", "height:mm", "--out", str(tmp_path / "r"), "--from", str(run))
    assert name in told


def test_an_estimator_begins_with_a_pre_trained_run(tmp_path: Path) -> None:
    x = spectra().x
    source = replace(spectra(), y=None, classes=())
    job = PretrainJob(source, MODEL, PretrainConfig(), SHORT, scale="sample")
    train(job, tmp_path / "before", device="cpu", bar=False)
    options: dict[str, Any] = {"pretrained": tmp_path / "before", "steps": 2, "device": "cpu"}
    model = vt.ViTRegressor(**options, freeze=True).fit(x[:, 0], x[:, 0, 7])
    weights = load_model(tmp_path / "before").state_dict()
    fitted = model.predictor_.model.state_dict()
    assert all(torch.equal(fitted[name], value) for name, value in weights.items())
    model.save(tmp_path / "saved")
    assert np.array_equal(vt.ViTRegressor.load(tmp_path / "saved").predict(x[:, 0]), model.predict(x[:, 0]))
    with pytest.raises(InputError, match="has dim = 16, the model to train has dim = 24"):
        vt.ViTClassifier(**options, dim=24).fit(x[:, 0], spectra().y)
    with pytest.raises(InputError, match="input"):
        vt.ViTRegressor(**options).fit(x[:, 0, :16], x[:, 0, 7])


def test_few_labels_compares_scratch_with_pre_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 255, (120, 1, 28, 28), dtype=np.uint8)
    parts = {"train": np.arange(100), "test": np.arange(100, 120)}
    images = Source("mnist", x, np.arange(120) % 10, (Axis(), Axis()), ("grey",), tuple("0123456789"), parts=parts)
    monkeypatch.setattr(few_labels, "mnist", lambda: images)
    few_labels.main(
        seeds=1, labels=20, methods=METHODS, steps=2, scratch_steps=2, fine_steps=2, batch=8, small=True, device="cpu",
        out=tmp_path / "table.json",
    )  # fmt: skip
    told = json.loads((tmp_path / "table.json").read_text())
    assert told["rows"].keys() == {few_labels.SCRATCH, *METHODS}
    assert "median error" in capsys.readouterr().out


def test_few_labels_draws_as_many_of_each_class_and_no_test_image() -> None:
    labels = np.arange(300) % 10
    parts = {"train": np.arange(200), "test": np.arange(200, 300)}
    images = Source("mnist", np.zeros((300, 1, 2, 2)), labels, (Axis(), Axis()), ("grey",), tuple("0123456789"),
                    parts=parts)  # fmt: skip
    few = few_labels.few(images, 50, 0).parts
    assert np.bincount(labels[few["train"]]).tolist() == [5] * 10
    assert not np.isin(few["train"], parts["test"]).any()
    assert not np.array_equal(few["train"], few_labels.few(images, 50, 1).parts["train"])


@pytest.mark.parametrize("name", ["tecator", "mayonnaise"])
def test_small_spectra_compares_networks_with_what_chemists_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    rng = np.random.default_rng(0)
    x, shift = rng.normal(size=(60, 30)).cumsum(1), int(name == "mayonnaise")
    y = np.arange(60) % 6 + 1 if shift else x[:, 7]
    (tmp_path / "spectra").mkdir()
    np.savez(tmp_path / "spectra" / f"{name}.npz", train_x=x[:48], train_y=y[:48], test_x=x[48:], test_y=y[48:])
    monkeypatch.setenv("VITREOUS_DATA", str(tmp_path))
    monkeypatch.setattr(small_spectra, "PREPARED", {n: small_spectra.PREPARED[n] for n in small_spectra.FOR_NETWORKS})
    monkeypatch.setattr(small_spectra, "simulated", lambda points: rng.normal(size=(40, points)).cumsum(1))
    small_spectra.main((name,), seeds=2, steps=2, out=tmp_path / "table.json")
    told = json.loads((tmp_path / "table.json").read_text())[name]
    assert len(told) == 6
    assert all(np.isfinite(way["median"]) for way in told.values())
    assert "CNN" in capsys.readouterr().out
