"""Lattices that a trained transformer proposes from a list of lines: starting points of the search.

The folder `proposer/` beside this module is a run of the recipe `powder-index`.
"""

from functools import lru_cache
from importlib.resources import as_file, files

import torch
from torch import Tensor

from vitreous.powder.reduction import quadratic_from_lengths
from vitreous.powder.sim.line_lists import MAX_LINES, MIN_LINES, as_lists
from vitreous.powder.tuning import SEARCH_TUNING, SearchTuning
from vitreous.run.predictor import Predictor, load
from vitreous.run.task import Mixture


@lru_cache(maxsize=1)
def proposer() -> Predictor:
    """The trained model."""
    with as_file(files("vitreous.powder") / "proposer") as folder:
        return load(folder)


def propose(q: Tensor, intensity: Tensor, count: int, tuning: SearchTuning = SEARCH_TUNING) -> Tensor:
    """Propose reciprocal lattices `(count, 6)`: factors of h², k², l², kl, hl and hk in 1/d².

    `q` `(n,)` are 1/d² of the lines, ascending, `intensity` `(n,)` is in any unit. The model reads the lines several
    times, with and without weak ones. Its hypotheses come first; the rest are samples from the predicted distribution.
    The lengths that describe a lattice are 1/d² of low reflections, so most are moved to the nearest observed line.
    """
    model = proposer()
    task = model.task
    assert isinstance(task, Mixture)
    share = (intensity / intensity.max()).float()
    masks = [share > least for least in tuning.weakest]
    masks = [mask for i, mask in enumerate(masks) if i == 0 or MIN_LINES <= mask.sum() < masks[i - 1].sum()]
    lists = [as_lists(q[mask][None, :MAX_LINES].sqrt().float(), share[mask][None, :MAX_LINES]) for mask in masks]
    units = torch.cat([unit for _, unit in lists]).double()
    out = model.outputs(torch.cat([x for x, _ in lists]).numpy()).double()
    middles, widths, weights = task.parts(out)  # (lists, H, K) and (lists, H)
    list_of = torch.arange(len(lists)).repeat_interleave(task.hypotheses)  # the list of each hypothesis
    middles, widths, weights = middles.flatten(0, 1), widths.flatten(0, 1), weights.flatten()
    rng = torch.Generator().manual_seed(0)  # the same lines give the same proposals
    chosen = torch.multinomial(weights.exp(), max(1, count - len(list_of)), replacement=True, generator=rng)
    share = torch.rand((len(chosen), middles.shape[1]), dtype=middles.dtype, generator=rng) - 0.5
    noise = -share.sign() * torch.log1p(-2 * share.abs().clamp(max=0.4999999))  # Laplace
    samples = torch.cat([middles, middles[chosen] + widths[chosen].exp() * noise])[:count]
    lengths = task.decode(samples) * units[torch.cat([list_of, list_of[chosen]])[:count], None].square()
    nearest = q[(lengths[..., None] - q).abs().argmin(-1)]
    snapped = torch.rand(lengths.shape, generator=rng) < tuning.snapped
    return quadratic_from_lengths(torch.where(snapped, nearest, lengths))
