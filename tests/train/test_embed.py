"""The training of an embedding: measurements near the references of what they contain, and the run that is left."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import vitreous as vt
from tests.users import fails
from vitreous.core.errors import InputError
from vitreous.data import Source
from vitreous.data.source import Axis, consecutive_parts
from vitreous.nn import ViTConfig
from vitreous.run.embedding import Contents, Embedding, decode_contents, encode_contents
from vitreous.train import TrainConfig, train
from vitreous.train.embed import EmbedJob

POINTS, KINDS = 24, 12
CONFIG = ViTConfig(input=(1, POINTS), patch=(4,), dim=24, depth=2, heads=2)
SETTINGS = TrainConfig(steps=60, batch=48, evaluate_every=20, lr=3e-3, optimiser="muon", keep="last")


def mixed(count: int) -> tuple[Tensor, Tensor]:
    """Pairs: a spike at the place of a thing, and a noisy mixture of it with the thing of the next pair."""
    pairs = count // 2
    place = torch.randint(POINTS, (pairs,))
    spikes = torch.nn.functional.one_hot(place, POINTS).float()
    share = 0.6 + 0.4 * torch.rand(pairs, 1)
    other = (1 - share) * spikes.roll(-1, 0)
    noisy = share * spikes + other + 0.02 * torch.randn(pairs, POINTS)
    things = torch.stack([place, place.roll(-1)], dim=1)
    own = torch.stack([place, torch.full_like(place, -1)], dim=1)
    shares = torch.cat([share, 1 - share], dim=1)
    y = [(torch.ones(pairs), own, torch.zeros(pairs, 2)), (torch.zeros(pairs), things, shares)]
    x = torch.stack([spikes, noisy], dim=1).flatten(0, 1)[:, None]
    return x, torch.stack([encode_contents(Contents(*part)) for part in y], dim=1).flatten(0, 1)


def job() -> EmbedJob:
    x, y = mixed(160)
    source = Source(
        "spikes", x.numpy(), y.numpy(), (Axis(),), ("height",), parts=consecutive_parts(64, 96),
        fresh=lambda count, device: mixed(count),
    )  # fmt: skip
    return EmbedJob(source, CONFIG, Embedding(8), SETTINGS, scale="root")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "embed"
    train(job(), folder, device="cpu", bar=False)
    return folder


def test_labels_keep_the_contents() -> None:
    _, y = mixed(8)
    assert torch.equal(encode_contents(decode_contents(y)), y)


def test_training_brings_measurements_to_their_references(run: Path) -> None:
    before = train(replace(job(), settings=replace(SETTINGS, steps=1, lr=0.0)), run.parent / "before", bar=False)
    after = train(job(), run, resume=True, bar=False)
    assert after["validation"]["loss"] < before["validation"]["loss"] - 0.5
    assert after["validation"]["top10"] > before["validation"]["top10"] + 0.1


def test_a_run_gives_unit_vectors(run: Path) -> None:
    predictor, (x, _) = vt.load(run), mixed(6)
    values = predictor(x.numpy()).values
    assert values is not None
    assert values.shape == (6, 8)
    np.testing.assert_allclose((values**2).sum(1), 1.0, atol=1e-6)


def test_a_resumed_training_ends_with_the_same_weights(run: Path, tmp_path: Path) -> None:
    class StoppedError(Exception):
        pass

    class StoppingJob(EmbedJob):
        def batches(self, step: int) -> tuple[Tensor, Tensor]:
            if step == 25:
                raise StoppedError
            return super().batches(step)

    first = job()
    with pytest.raises(StoppedError):
        train(StoppingJob(first.source, CONFIG, first.task, SETTINGS, scale="root"), tmp_path, device="cpu", bar=False)
    train(job(), tmp_path, resume=True, device="cpu", bar=False)
    ours, theirs = (vt.load(folder).model.state_dict() for folder in (tmp_path, run))  # type: ignore[attr-defined]
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_another_temperature_does_not_resume(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"task\.temperature"):
        train(replace(job(), task=Embedding(8, temperature=0.1)), run, resume=True, device="cpu", bar=False)


def test_vectors_of_equal_samples_have_the_least_loss() -> None:
    torch.manual_seed(1)
    task, (_, y) = Embedding(32, temperature=0.05), mixed(16)
    contents = decode_contents(y)
    contents = contents._replace(things=torch.arange(8).repeat_interleave(2)[:, None].expand(-1, 2))
    pure = contents._replace(shares=torch.tensor([1.0, 0.0]).repeat(16, 1) * ~contents.reference[:, None])
    labels, corners = encode_contents(pure), torch.eye(32)[:8].repeat_interleave(2, 0)
    assert task.loss(corners, labels) < 1e-6
    assert task.metrics(corners, labels)["top1"] == 1.0
    exchanged = torch.stack([corners[::2], corners[1::2].roll(1, 0)], dim=1).flatten(0, 1)
    assert task.loss(exchanged, labels) > 10
    assert float(task.misfit(corners, labels).abs().max()) < 1e-6


def test_order_of_the_samples_does_not_matter() -> None:
    torch.manual_seed(2)
    task, (_, y), out = Embedding(8), mixed(20), torch.randn(20, 8)
    order = torch.randperm(20)
    assert task.loss(out[order], y[order]).item() == pytest.approx(task.loss(out, y).item(), rel=1e-5)


def test_a_batch_without_references_has_no_gradient() -> None:
    task, (_, y) = Embedding(8), mixed(8)
    out = torch.randn(4, 8, requires_grad=True)
    task.loss(out, y[1::2]).backward()
    assert out.grad is not None
    assert out.grad.abs().max() == 0


def test_a_weak_component_counts_less_than_a_strong_one() -> None:
    task = Embedding(2, temperature=1.0)
    y = torch.tensor([[1.0, 0, -1, 0, 0], [1.0, 1, -1, 0, 0], [0.0, 0, 1, 0.9, 0.1]])
    strong = torch.tensor([[1.0, 0], [0, 1], [1, 0]])
    assert task.loss(strong, y) < task.loss(strong[[0, 1, 1]], y)


@pytest.mark.parametrize("values", [{"size": 0}, {"size": 4, "temperature": 0.0}])
def test_impossible_embeddings_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(InputError, match=r"^(size|temperature): found 0"):
        Embedding(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize("command", ["report", "explain", "export", "prune"])
def test_commands_for_answers_refuse_an_embedding(
    command: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {
        "report": [], "explain": ["digits", "--out", f"{tmp_path}/a.png"], "export": ["--out", f"{tmp_path}/a.onnx"],
        "prune": ["--out", f"{tmp_path}/pruned", "--budget", "0.5"],
    }[command]  # fmt: skip
    assert "found a run of an embedding" in fails(capsys, command, str(run), *more)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("changes", [{"start": object()}, {"freeze": True}, {"layer_decay": 0.5}])
def test_an_embedding_begins_with_random_weights(changes: dict[str, object]) -> None:
    with pytest.raises(InputError, match="begins with random weights"):
        job().with_changes(changes)


def test_settings_of_a_command_reach_the_job() -> None:
    changed = job().with_changes({"epochs": 3, "lr": 0.1, "scale": None, "start": None})
    assert (changed.settings.steps, changed.settings.lr, changed.scale) == (10, 0.1, "root")
