"""Token merging (ToMe; Bolya et al. 2023, arXiv 2210.09461): makes a trained model faster, without training.

Each block merges the r pairs of tokens with the most similar keys; attention counts a merged token as often as
it has members.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from torch import Tensor, nn

from vitreous.core.errors import InputError
from vitreous.nn.execution import executing, unwrap
from vitreous.nn.reduction.groups import Groups, match
from vitreous.nn.vit import ViT


class Merging:
    """Merges r tokens in every block, as `merged` describes."""

    def __init__(self, r: int | Sequence[int]) -> None:
        self.r = _numbers(r)

    def reduce_weights(self, groups: Groups) -> None:
        """The attention weights are not used."""

    def __call__(self, x: Tensor, layer: int, groups: Groups, keys: Tensor, reduced: Tensor | None) -> Tensor:
        """From tokens `(B, n, D)` to `(B, n - r, D)`."""
        count = self.r[0] if len(self.r) == 1 else self.r[layer] if layer < len(self.r) else 0
        r = min(count, (x.shape[1] - groups.prefix) // 2)
        if r == 0:
            return x
        similarity, a, b = match(keys, groups.size, groups.prefix)
        chosen = similarity.topk(r, dim=1, sorted=False).indices
        x = groups.merge(x, a.gather(1, chosen), b.gather(1, chosen))
        return groups.compact(x, x.shape[1] - r)


@contextmanager
def merged(model: nn.Module, r: int | Sequence[int]) -> Iterator[None]:
    """Merge r tokens in each block of a model within the `with` block.

    Class token and registers are never merged, nor are masked tokens. The attention weights of `record` are between the
    tokens of the input.

    Args:
        model: a ViT with full attention.
        r: tokens that each block merges, or half of the tokens if that is less; 0 for none. Several numbers are for the
            first blocks; the blocks after them merge none. Early merging saves most, where much of the input is empty.

    >>> import torch, vitreous as vt
    >>> model = vt.create_model("vit_spectrum_4500").eval()
    >>> with torch.no_grad(), vt.merged(model, 60), vt.record(model) as seen:
    ...     out = model(torch.rand(2, 1, 4500))
    >>> [seen[f"blocks.{i}.out"].shape[1] for i in range(4)], seen.attention[3].shape
    ([391, 331, 271, 211], torch.Size([2, 4, 451, 451]))
    """
    with executing(check_mergeable(model, r), reducer=Merging(r)) if any(_numbers(r)) else nullcontext():
        yield


def check_mergeable(model: nn.Module, r: int | Sequence[int]) -> ViT:
    """The model without its wrapper; `InputError` if it cannot merge r tokens in each block."""
    numbers, inner = _numbers(r), unwrap(model)
    if not isinstance(inner, ViT):
        raise InputError(f"merge: a {type(inner).__name__} has no tokens to merge")
    inner.config.check_reducible("merge")
    if inner.thresholds is not None:
        raise InputError("merge: the model already merges and drops tokens by learned thresholds")
    most, half, depth = inner.tokenizer.most, inner.tokenizer.most // 2, inner.config.depth
    if max(numbers) > half:
        raise InputError(f"merge: found {max(numbers)}, but of {most} tokens a block can merge half at most, {half}")
    if len(numbers) > depth:
        raise InputError(f"merge: found {len(numbers)} numbers, but the model has {depth} blocks")
    return inner


def _numbers(r: int | Sequence[int]) -> tuple[int, ...]:
    """One number for all blocks, or one for each of the first blocks."""
    numbers = (r,) if isinstance(r, int) else tuple(r) or (0,)
    if min(numbers) < 0:
        raise InputError(f"merge: found {min(numbers)}, expected a number of tokens to merge in each block, from 0 on")
    return numbers
