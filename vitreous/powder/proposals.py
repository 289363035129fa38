"""Lattices that a trained transformer proposes from a list of lines: starting points of the search.

The folder `proposer/` beside this module is a run of the recipe `powder-index`.
"""

from functools import lru_cache
from importlib.resources import as_file, files

import torch
from torch import Tensor

from vitreous.powder.observed_lines import ObservedLines
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


def propose(
    lines: ObservedLines, intensity: Tensor, wavelength: float, count: int, tuning: SearchTuning = SEARCH_TUNING,
    model: Predictor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Propose reciprocal lattices `(count, 6)`, factors of h², k², l², kl, hl and hk in 1/d², and zero shifts.

    The zero shifts `(count,)` are in degrees, `intensity` `(n,)` is in any unit, `wavelength` in ångström; `model` is
    that of the package by default. It reads the lines several times, with and without weak ones. Its hypotheses come
    first; the rest are samples from the predicted distribution. The lengths that describe a lattice are 1/d² of low
    reflections, so most are moved to the nearest observed line.
    """
    model = model or proposer()
    task = model.task
    assert isinstance(task, Mixture)
    share = (intensity / intensity.max()).float()
    masks = [share > least for least in tuning.weakest]
    masks = [mask for i, mask in enumerate(masks) if i == 0 or MIN_LINES <= mask.sum() < masks[i - 1].sum()]
    lists = [_read(lines.q[mask], share[mask], wavelength) for mask in masks]
    units = torch.cat([unit for _, unit in lists]).double()
    rows = slice(len(model.channels))  # models of earlier versions read fewer
    out = model.outputs(torch.cat([x for x, _ in lists])[:, rows].numpy()).double()
    middles, widths, weights = task.parts(out)  # (lists, H, K) and (lists, H)
    list_of = torch.arange(len(lists)).repeat_interleave(task.hypotheses)  # the list of each hypothesis
    middles, widths, weights = middles.flatten(0, 1), widths.flatten(0, 1), weights.flatten()
    rng = torch.Generator().manual_seed(0)  # the same lines give the same proposals
    chosen = torch.multinomial(weights.exp(), max(1, count - len(list_of)), replacement=True, generator=rng)
    share = torch.rand((len(chosen), middles.shape[1]), dtype=middles.dtype, generator=rng) - 0.5
    noise = -share.sign() * torch.log1p(-2 * share.abs().clamp(max=0.4999999))  # Laplace
    samples = torch.cat([middles, middles[chosen] + widths[chosen].exp() * noise])[:count]
    values = task.decode(samples)
    lengths = values[:, :6] * units[torch.cat([list_of, list_of[chosen]])[:count], None].square()
    shift = wavelength * values[:, 6:].sum(1)  # at low angles, a displaced sample shifts like the zero
    zero = shift.clamp(-tuning.largest_zero, tuning.largest_zero)
    true_q = lines.q - zero[:, None] * lines.slope  # (count, n)
    at = (lengths[..., None] - true_q[:, None]).abs().argmin(-1)  # (count, 6)
    snapped = torch.rand(lengths.shape, generator=rng) < tuning.snapped
    return quadratic_from_lengths(torch.where(snapped, true_q.gather(1, at), lengths)), zero


def _read(q: Tensor, share: Tensor, wavelength: float) -> tuple[Tensor, Tensor]:
    """The first lines as the model reads them, and their unit."""
    first = slice(MAX_LINES)
    return as_lists(q[None, first].sqrt().float(), share[None, first], torch.tensor([wavelength]))
