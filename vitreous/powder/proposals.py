"""Lattices that a transformer reads from a list of lines: where a search begins.

The weights beside this module were trained by the recipe `powder-index`; their folder is a run like any other.
"""

from functools import lru_cache
from importlib.resources import as_file, files

import torch
from torch import Tensor

from vitreous.powder import superbase
from vitreous.sim.lists import FEWEST, LINES, as_lists
from vitreous.train.predictor import Predictor, load
from vitreous.train.task import Mixture

_WEAKEST = (0.0, 0.01, 0.03)  # lines above these shares of the strongest are read: weak ones may be an impurity's
_SEEN = 0.75  # how often one of the six lengths is taken for a line


@lru_cache(maxsize=1)
def proposer() -> Predictor:
    """The trained model."""
    with as_file(files("vitreous.powder") / "proposer") as folder:
        return load(folder)


def propose(q: Tensor, intensity: Tensor, count: int) -> Tensor:
    """Reciprocal lattices `(count, 6)`: factors of h², k², l², kl, hl and hk in 1/d².

    The lines are read several times, with and without the weak ones. The middles of the model's hypotheses come first;
    the rest are drawn about them, as likely as the model holds them to be. The lengths that describe a lattice are 1/d²
    of low reflections, so most of them are moved to the nearest line that was seen.

    Args:
        q: `(n,)`, 1/d² of the lines, rising.
        intensity: `(n,)`, in any unit.
        count: lattices wanted.
    """
    model = proposer()
    task = model.task
    assert isinstance(task, Mixture)
    share = (intensity / intensity.max()).float()
    strong = [share > least for least in _WEAKEST]
    strong = [kept for i, kept in enumerate(strong) if i == 0 or FEWEST <= kept.sum() < strong[i - 1].sum()]
    read = [as_lists(q[kept][None, :LINES].sqrt().float(), share[kept][None, :LINES]) for kept in strong]
    units = torch.cat([unit for _, unit in read]).double()
    out = model.outputs(torch.cat([x for x, _ in read]).numpy()).double()
    middles, widths, weights = task.parts(out)  # (lists, H, K) and (lists, H)
    of = torch.arange(len(read)).repeat_interleave(task.hypotheses)  # the list that each hypothesis is about
    middles, widths, weights = middles.flatten(0, 1), widths.flatten(0, 1), weights.flatten()
    rng = torch.Generator().manual_seed(0)  # the same lines have the same answer
    drawn = torch.multinomial(weights.exp(), max(1, count - len(of)), replacement=True, generator=rng)
    share = torch.rand((len(drawn), middles.shape[1]), dtype=middles.dtype, generator=rng) - 0.5
    noise = -share.sign() * torch.log1p(-2 * share.abs().clamp(max=0.4999999))  # of Laplace's distribution
    samples = torch.cat([middles, middles[drawn] + widths[drawn].exp() * noise])[:count]
    lengths = task.decode(samples) * units[torch.cat([of, of[drawn]])[:count], None].square()
    nearest = q[(lengths[..., None] - q).abs().argmin(-1)]
    return superbase.of_lengths(torch.where(torch.rand(lengths.shape, generator=rng) < _SEEN, nearest, lengths))
