"""References and measurements for the embedding of patterns."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.recipes import narrow
from vitreous.powder.grid import POINTS
from vitreous.powder.sim.embedding_source import (
    LEAST_SHARE,
    MIXED,
    MOST,
    changed,
    embedding_samples,
    embedding_source,
    random_shares,
)
from vitreous.powder.sim.symmetry_source import crystals_of_atoms
from vitreous.recipes import load_recipe
from vitreous.run.embedding import decode_contents
from vitreous.train import train


def test_shares_add_up_and_are_not_small() -> None:
    shares = random_shares(500)
    present = shares > 0
    torch.testing.assert_close(shares.sum(-1), torch.ones(500, MOST))
    assert shares[present].min() > LEAST_SHARE - 1e-6
    assert present.diagonal(dim1=1, dim2=2).all()
    assert set(present.sum(-1).unique().tolist()) == {1, 2, 3, 4}


def test_half_of_the_samples_are_clean_references() -> None:
    x, y = embedding_samples(24)
    contents = decode_contents(y)
    assert x.shape == (24, 1, POINTS)
    assert contents.reference.sum() == 12
    strongest = x[contents.reference].amax((1, 2))  # between points of the grid a line is lower
    assert ((strongest > 0.7) & (strongest <= 1)).all()
    counts = x[~contents.reference]
    assert torch.isfinite(x).all()
    assert counts.amax((1, 2)).min() > 50


def test_a_measurement_of_one_crystal_is_most_like_its_reference() -> None:
    torch.manual_seed(3)
    good = replace(MIXED, background=(0.0, 0.0), hump=(0.0, 0.0), counts=(1e5, 1e5), start=(5.0, 5.0))
    x, y = embedding_samples(96, effects=good)
    contents = decode_contents(y)
    pure = ~contents.reference & (contents.shares.amax(1) > 0.99)
    smooth = torch.nn.functional.avg_pool1d(x.sqrt(), 45)[:, 0]  # strains move lines by less
    smooth = smooth - smooth.mean(1, keepdim=True)
    smooth = smooth / smooth.norm(dim=1, keepdim=True)
    nearest = (smooth[pure] @ smooth[contents.reference].T).argmax(1)
    true = contents.things[pure].amax(1)
    right = contents.things[contents.reference, 0][nearest] == true
    assert right.float().mean() > 0.4  # by chance 0.02


@pytest.mark.parametrize("system", ["cubic", "hexagonal", "monoclinic"])
def test_a_changed_cell_keeps_its_symmetry(system: str) -> None:
    lines = crystals_of_atoms(system, 4, 0.6, "cpu").lines
    ratio = changed(lines).s / lines.s
    assert ((ratio - 1).abs() < 0.026).all()
    spread = [float(ratio[lines.owner == i].max() - ratio[lines.owner == i].min()) for i in range(4)]
    assert max(spread) < 1e-5 if system == "cubic" else max(spread) > 1e-4


def test_validation_has_every_crystal_once() -> None:
    source = embedding_source(train=8, validation=512)
    assert source.y is not None
    contents = decode_contents(torch.from_numpy(source.y))
    own = contents.things[contents.reference, 0]
    assert len(own.unique()) == len(own) == 260
    used = contents.things[~contents.reference]
    assert np.isin(used[used >= 0].numpy(), own.numpy()).all()


class _Synchronising(TorchDispatchMode):
    """Notes operations that read values back from the device, which a CUDA graph cannot record."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if operation.name() in ("aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero"):
            self.names.append(operation.name())
        return operation(*args, **(kwargs or {}))


def test_the_loss_can_be_recorded() -> None:
    job = load_recipe("powder-embed").create(train=8, validation=8)
    _, y = embedding_samples(16)
    with _Synchronising() as mode:
        job.task.loss(torch.randn(16, 128), y)
    assert mode.names == []


def test_the_recipe_trains_two_steps_and_resumes(tmp_path: Path) -> None:
    job = narrow(load_recipe("powder-embed").create(train=8, validation=24))  # type: ignore[arg-type]
    job = job.with_changes({"steps": 2, "batch": 16, "evaluate_every": 1})
    result = train(job, tmp_path, device="cpu", bar=False)
    assert np.isfinite(result["validation"]["loss"])
    assert 0 <= result["validation"]["top10"] <= 1
    assert train(job, tmp_path, resume=True, device="cpu", bar=False) == result


def test_the_model_of_the_recipe_is_small() -> None:
    from vitreous.nn.models import build

    job = load_recipe("powder-embed").create(train=8, validation=8)
    model = build(job.config)
    assert sum(parameter.numel() for parameter in model.parameters()) < 7e6
