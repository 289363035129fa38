"""Token merging (ToMe; Bolya et al. 2023, arXiv 2210.09461): a trained model made faster, without training.

Each block merges the r pairs of tokens whose keys are most alike, and attention counts a merged token as many times as
it has members.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn

from vitreous.errors import InputError
from vitreous.nn.groups import Groups
from vitreous.nn.match import match
from vitreous.nn.record import unwrap
from vitreous.nn.vit import ViT


class Merging:
    """Merges tokens in every block, or half of them where that is less.

    Args:
        r: how many in each block from the first on, and none in those after; one number serves all blocks.
    """

    def __init__(self, r: int | Sequence[int]) -> None:
        self.r = _numbers(r)

    def wanted(self, groups: Groups) -> None:
        """Nothing of the attention weights."""

    def __call__(self, x: Tensor, layer: int, groups: Groups, keys: Tensor, known: Tensor | None) -> Tensor:
        """From tokens `(B, n, D)` to `(B, n - r, D)`."""
        wanted = self.r[0] if len(self.r) == 1 else self.r[layer] if layer < len(self.r) else 0
        r = min(wanted, (x.shape[1] - groups.prefix) // 2)
        if r == 0:
            return x
        best, a, b = match(keys, groups.size, groups.prefix)
        chosen = best.topk(r, dim=1, sorted=False).indices
        x = groups.merge(x, a.gather(1, chosen), b.gather(1, chosen))
        return groups.compact(x, x.shape[1] - r)


@contextmanager
def merged(model: nn.Module, r: int | Sequence[int]) -> Iterator[None]:
    """Let the blocks of a model merge r tokens each, for as long as the `with` block lasts.

    Class token and registers are never merged, and tokens without data are merged with nothing. What `record` keeps
    inside is told for the tokens of the input.

    Args:
        model: a ViT with full attention, trained or not.
        r: tokens by which each block makes them fewer, or half of them where that is less; 0 for none. Several numbers
            are for one block each, from the first on, and those after merge none: most is gained by merging early,
            where much of the input is empty.

    >>> import torch, vitreous as vt
    >>> model = vt.create_model("vit_spectrum_4500").eval()
    >>> with torch.no_grad(), vt.merged(model, 60), vt.record(model) as seen:
    ...     out = model(torch.rand(2, 1, 4500))
    >>> [seen[f"blocks.{i}.out"].shape[1] for i in range(4)], seen.attention[3].shape
    ([391, 331, 271, 211], torch.Size([2, 4, 451, 451]))
    """
    if not any(_numbers(r)):
        yield
        return
    inner = check_mergeable(model, r)
    before, inner.merging = inner.merging, Merging(r)
    try:
        yield
    finally:
        inner.merging = before


def check_mergeable(model: nn.Module, r: int | Sequence[int]) -> ViT:
    """The model itself, or one line that says why it cannot merge r tokens in each block."""
    numbers = _numbers(r)
    inner = unwrap(model)
    if not isinstance(inner, ViT):
        raise InputError(f"merge: a {type(inner).__name__} has no tokens to merge")
    inner.config.check_fewer("merge")
    if inner.thresholds is not None:
        raise InputError("merge: the model merges and drops tokens by learned thresholds already")
    most, depth = inner.tokenizer.most, inner.config.depth
    if max(numbers) > most // 2:
        raise InputError(
            f"merge: found {max(numbers)}, but of {most} tokens a block can merge half at most, {most // 2}"
        )
    if len(numbers) > depth:
        raise InputError(f"merge: found {len(numbers)} numbers, but the model has {depth} blocks")
    return inner


def _numbers(r: int | Sequence[int]) -> tuple[int, ...]:
    """One number for all blocks, or one for each of the first."""
    found = (r,) if isinstance(r, int) else tuple(r) or (0,)
    if min(found) < 0:
        raise InputError(f"merge: found {min(found)}, expected a number of tokens to merge in each block, from 0 on")
    return found
