"""Answers kept with a run: those of its model, the worst first, in plain arrays."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import vitreous as vt
from vitreous.core.errors import InputError
from vitreous.data import Axis, Source, Target, split
from vitreous.run.answers import ANSWERS, StorageLimits, collect, read_answers
from vitreous.run.folder import read_experiment
from vitreous.run.provenance import Provenance
from vitreous.run.task import Classification, Regression
from vitreous.train import SupervisedJob, TrainConfig, load, train


def job() -> SupervisedJob:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1, 20)).astype(np.float32)
    y = np.column_stack([x[:, 0, 3], np.exp(x[:, 0, 5])])
    source = Source("job", x, y, (Axis(),), ("i",), (), (Target("a", "mm"), Target("b", log=True)))
    model = vt.ViTConfig(input=(1, 20), patch=(5,), dim=8, depth=1, heads=2)
    return SupervisedJob(
        source,
        model,
        TrainConfig(steps=5, batch=32),
        test=0.2,
        provenance=Provenance(data="spectra", command=("vitreous", "train", "spectra")),
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers") / "run"
    train(job(), folder, bar=False)
    return folder


def test_a_run_keeps_the_answers_to_its_test_part(run: Path) -> None:
    source, predictor, kept = job().source, load(run), read_answers(run)
    assert kept is not None
    assert source.y is not None
    np.testing.assert_array_equal(kept.rows, split(source, test=0.2).test)
    np.testing.assert_array_equal(kept.y, source.y[kept.rows])
    np.testing.assert_array_equal(kept.samples, source.x[kept.rows[kept.shown]])
    np.testing.assert_allclose(kept.out, predictor.outputs(source.x[kept.rows]), atol=1e-6)
    assert len(np.unique(kept.shown)) == 16


def test_the_worst_answer_comes_first(run: Path) -> None:
    predictor, kept = load(run), read_answers(run)
    assert kept is not None
    assert isinstance(predictor.task, Regression)
    errors = predictor.task.errors(torch.from_numpy(kept.out), predictor.task.encode(kept.y)).amax(1)
    assert kept.shown[0] == errors.argmax()


def test_features_are_what_the_head_is_given(run: Path) -> None:
    predictor, kept = load(run), read_answers(run)
    assert kept is not None
    with torch.no_grad():
        out = predictor.model.head(torch.from_numpy(kept.features))
    np.testing.assert_allclose(out, kept.out[kept.mapped], atol=1e-5)


def test_no_more_is_kept_than_has_room(run: Path) -> None:
    predictor, source = load(run), job().source
    assert source.y is not None
    limits = StorageLimits(outputs=100, features=10, sample_bytes=6 * 80)
    every, kept = collect(
        predictor.model, predictor.task, predictor.scaling, source.x, source.y, np.arange(200), limits=limits
    )
    assert every.shape == (200, 2)
    assert kept.out.shape == (50, 2)
    assert (kept.rows[0], kept.rows[-1]) == (0, 199)
    assert kept.features.shape == (10, 8)
    assert kept.samples.nbytes == 6 * 80


def test_a_bad_and_a_usual_answer_are_kept_however_large_the_samples(run: Path) -> None:
    predictor, source = load(run), job().source
    assert source.y is not None
    limits = StorageLimits(sample_bytes=1)
    _, kept = collect(
        predictor.model, predictor.task, predictor.scaling, source.x, source.y, np.arange(200), limits=limits
    )
    errors = predictor.task.misfit(torch.from_numpy(kept.out), predictor.task.encode(kept.y)).numpy()
    assert len(kept.samples) == 2
    assert errors[kept.shown[0]] == errors.max()
    assert 90 <= (errors > errors[kept.shown[1]]).sum() <= 110


def test_samples_are_drawn_evenly_from_all_but_the_worst(run: Path) -> None:
    predictor, source = load(run), job().source
    assert source.y is not None
    _, kept = collect(predictor.model, predictor.task, predictor.scaling, source.x, source.y, np.arange(200))
    errors = predictor.task.misfit(torch.from_numpy(kept.out), predictor.task.encode(kept.y)).numpy()
    rank = (errors > errors[kept.shown][:, None]).sum(1)
    np.testing.assert_array_equal(rank[:8], np.arange(8))
    share = (rank[kept.drawn] - 8) / (200 - 8)
    np.testing.assert_allclose(share, (np.arange(8) + 0.5) / 8, atol=1 / 192)  # neither the worst nor the best of them


@pytest.mark.parametrize("count", [1, 2, 5, 16, 17])
def test_of_few_samples_none_is_kept_twice(run: Path, count: int) -> None:
    predictor, source = load(run), job().source
    assert source.y is not None
    _, kept = collect(predictor.model, predictor.task, predictor.scaling, source.x, source.y, np.arange(count))
    assert len(np.unique(kept.shown)) == len(kept.shown) == min(16, count)
    assert len(kept.samples[kept.drawn]) > 0


def test_the_model_sees_every_sample_once(run: Path) -> None:
    predictor, source = load(run), job().source
    assert source.y is not None
    limits = StorageLimits(features=30)
    seen = list[int]()
    predictor.model.register_forward_hook(lambda _, given, out: seen.append(len(out)))
    rows = np.arange(200)[::-1].copy()
    every, kept = collect(predictor.model, predictor.task, predictor.scaling, source.x, source.y, rows, limits=limits)
    assert sum(seen) == 200
    np.testing.assert_allclose(every, predictor.outputs(source.x[rows]), atol=1e-6)
    with torch.no_grad():
        np.testing.assert_allclose(
            predictor.model.head(torch.from_numpy(kept.features)), kept.out[kept.mapped], atol=1e-5
        )


def test_a_target_that_never_changes_is_never_the_worst() -> None:
    task = Regression((Target("a"), Target("b")), (0.0, 1.0), (1.0, 1e-30))
    assert task.misfit(torch.tensor([[0.5, 9.0]]), torch.tensor([[0.0, 0.0]])).item() == 0.5


def test_a_damaged_file_is_one_line(run: Path, tmp_path: Path) -> None:
    content = (run / ANSWERS).read_bytes()
    for damaged in (b"", content[:1000], b"PK" + content[2:500]):
        (tmp_path / ANSWERS).write_bytes(damaged)
        with pytest.raises(InputError, match=r"test\.npz: is damaged"):
            read_answers(tmp_path)
    np.savez(tmp_path / ANSWERS, rows=np.array([None, {}], dtype=object))
    with pytest.raises(InputError, match=r"test\.npz: is damaged"):
        read_answers(tmp_path)


def test_a_run_says_how_it_was_made(run: Path) -> None:
    about = read_experiment(run)
    assert about["command"] == ["vitreous", "train", "spectra"]
    assert TrainConfig.from_dict(about["train"]) == job().settings
    assert about["samples"] == {"train": 140, "validation": 20, "test": 40}


def test_a_run_without_a_test_part_keeps_no_answers(tmp_path: Path) -> None:
    train(replace(job(), test=0.0), tmp_path / "run", bar=False)
    assert read_answers(tmp_path / "run") is None


def test_answers_of_another_run_do_not_fit(run: Path) -> None:
    predictor, kept = load(run), read_answers(run)
    assert kept is not None
    task, input = predictor.task, predictor.model.config.input
    assert kept.fit(task, input)
    assert not kept.fit(task, (1, 21))
    assert not kept.fit(Classification(("a", "b")), input)
    assert not kept.fit(Regression((Target("a"),), (0.0,), (1.0,)), input)
