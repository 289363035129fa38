"""Token merging (ToMe; Bolya et al. 2023, arXiv 2210.09461): a trained model made faster, without training.

Each block merges the r pairs of tokens whose keys are most alike, and attention counts a merged token as many times as
it has members.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from vitreous.errors import InputError
from vitreous.nn.groups import Groups
from vitreous.nn.match import match
from vitreous.nn.record import unwrap
from vitreous.nn.vit import ViT


class Merging:
    """Merges r tokens in every block, or half of them where that is less."""

    def __init__(self, r: int) -> None:
        self.r = r

    def wanted(self, groups: Groups) -> None:
        """Nothing of the attention weights."""

    def __call__(self, x: Tensor, layer: int, groups: Groups, keys: Tensor, known: Tensor | None) -> Tensor:
        """From tokens `(B, n, D)` to `(B, n - r, D)`."""
        r = min(self.r, (x.shape[1] - groups.prefix) // 2)
        if r == 0:
            return x
        best, a, b = match(keys, groups.size, groups.prefix)
        chosen = best.topk(r, dim=1, sorted=False).indices
        x = groups.merge(x, a.gather(1, chosen), b.gather(1, chosen))
        return groups.compact(x, x.shape[1] - r)


@contextmanager
def merged(model: nn.Module, r: int) -> Iterator[None]:
    """Let every block of a model merge r tokens, for as long as the `with` block lasts.

    Class token and registers are never merged, and tokens without data are merged with nothing. What `record` keeps
    inside is told for the tokens of the input.

    Args:
        model: a ViT with full attention, trained or not.
        r: tokens by which each block makes them fewer, or half of them where that is less; 0 for none.

    >>> import torch, vitreous as vt
    >>> model = vt.create_model("vit_spectrum_4500").eval()
    >>> with torch.no_grad(), vt.merged(model, 60), vt.record(model) as seen:
    ...     out = model(torch.rand(2, 1, 4500))
    >>> [seen[f"blocks.{i}.out"].shape[1] for i in range(4)], seen.attention[3].shape
    ([391, 331, 271, 211], torch.Size([2, 4, 451, 451]))
    """
    if r < 0:
        raise InputError(f"merge: found {r}, expected a number of tokens to merge in each block, from 0 on")
    if r == 0:
        yield
        return
    inner = check_mergeable(model, r)
    before, inner.merging = inner.merging, Merging(r)
    try:
        yield
    finally:
        inner.merging = before


def check_mergeable(model: nn.Module, r: int) -> ViT:
    """The model itself, or one line that says why it cannot merge r tokens in each block."""
    inner = unwrap(model)
    if not isinstance(inner, ViT):
        raise InputError(f"merge: a {type(inner).__name__} has no tokens to merge")
    inner.config.check_fewer("merge")
    if inner.thresholds is not None:
        raise InputError("merge: the model merges and drops tokens by learned thresholds already")
    most = inner.tokenizer.most
    if r > most // 2:
        raise InputError(f"merge: found {r}, but of {most} tokens a block can merge half at most, {most // 2}")
    return inner
