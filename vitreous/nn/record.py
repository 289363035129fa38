"""`record`: run the same forward and keep its attention weights and named intermediates."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn

from vitreous.errors import InputError
from vitreous.nn.groups import expand_weights

Sink = dict[str, Tensor] | None
"""Where a part puts what it is asked to keep; None on the fast path."""

Reduce = Callable[[Tensor], Tensor]
"""From the attention weights `(b, heads, N_query, N_key)` of some samples to what is kept of them, `(b, ...)`."""


class Reduced(dict[str, Tensor]):
    """A sink whose attention weights are reduced as they are computed, some samples at a time; None keeps none."""

    def __init__(self, reduce: Reduce | None) -> None:
        super().__init__()
        self.reduce = reduce


def wants_keys(sink: Sink) -> bool:
    """Whether a sink keeps the keys of an attention and none of its weights."""
    return isinstance(sink, Reduced) and sink.reduce is None


def keep(sink: Sink, name: str, value: Tensor) -> Tensor:
    """Put `value` in the sink, if there is one, and hand it on."""
    if sink is not None:
        sink[name] = value
    return value


class Record(Mapping[str, Tensor]):
    """What the last forward inside `record` left: a mapping from names to tensors.

    Names are `tokens`, `coords`, `mask`, `embedded`, `normed`, `pooled`, `out`, and for each recorded layer i
    `blocks.i.keys`, `blocks.i.weights`, `blocks.i.attention`, `blocks.i.mlp`, `blocks.i.out`; attention pooling adds
    `pool.weights`, a bias of pairs `pairwise`, which is added to the logits of all layers. Where tokens are merged or
    dropped, those of a block are of the tokens that it had: `blocks.i.source` `(B, N)` says which of these stood for
    each token of the input, and `source` and `mask` what became of them in the end.
    """

    def __init__(self, layers: Iterable[int], reduce: Reduce | None = None) -> None:
        self.layers = tuple(layers)
        self.model: dict[str, Tensor] = {}
        self.pool: dict[str, Tensor] = {}
        self.blocks: dict[int, dict[str, Tensor]] = {i: {} if reduce is None else Reduced(reduce) for i in self.layers}

    def start(self) -> dict[str, Tensor]:
        """Forget the last forward; the model's own intermediates go into what this returns."""
        for kept in (self.model, self.pool, *self.blocks.values()):
            kept.clear()
        return self.model

    @property
    def attention(self) -> dict[int, Tensor]:
        """Attention weights `(B, heads, N_query, N_key)` of each recorded layer, or what `reduce` left of them.

        They are between the tokens of the input, also where these were merged.
        """
        return {i: self.expanded(i, kept["weights"]) for i, kept in self.blocks.items() if "weights" in kept}

    def expanded(self, layer: int, weights: Tensor) -> Tensor:
        """Weights `(B, heads, n, n)` between the tokens that a layer had, told for the tokens of the input."""
        source = self.blocks[layer].get("source")
        return weights if source is None else expand_weights(weights, source)

    def _flat(self) -> dict[str, Tensor]:
        flat = dict(self.model)
        flat |= {f"pool.{name}": value for name, value in self.pool.items()}
        for i, kept in self.blocks.items():
            flat |= {f"blocks.{i}.{name}": value for name, value in kept.items()}
        return flat

    def __getitem__(self, name: str) -> Tensor:
        flat = self._flat()
        if name not in flat:
            raise KeyError(f"{name!r} was not recorded; recorded: {', '.join(flat) or 'nothing yet'}")
        return flat[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._flat())

    def __len__(self) -> int:
        return len(self._flat())


class Recordable(nn.Module):
    """A model whose forward fills `self.recording` when `record` has set it."""

    recording: Record | None = None
    blocks: nn.ModuleList


def unwrap(model: nn.Module) -> nn.Module:
    """The model itself, where torch.compile has wrapped it."""
    inner: nn.Module = getattr(model, "_orig_mod", model)
    return inner


@contextmanager
def record(
    model: nn.Module, layers: Iterable[int] | int | None = None, reduce: Reduce | None = None
) -> Iterator[Record]:
    """Keep attention weights and named intermediates of every forward inside the `with` block.

    The output is the same as without recording. What is kept takes part in autograd as usual; run under
    `torch.no_grad()` where no gradient is wanted. Weights are `(B, heads, N, N)` a layer: when the input is long, name
    the layers you need and reduce their weights. They are then computed a few samples at a time, beside the fast path.

    Args:
        model: a ViT.
        layers: to record; negative ones count from the end, None records all.
        reduce: what to keep of the weights `(b, heads, N, N)` of some samples, e.g. `lambda w: w.mean(1)`; its result's
            first axis must be the samples.

    >>> import torch, vitreous as vt
    >>> model = vt.create_model("vit_spectrum_4500")
    >>> with torch.no_grad(), vt.record(model, layers=[-1]) as seen:
    ...     out = model(torch.rand(2, 1, 4500))
    >>> seen.attention[3].shape
    torch.Size([2, 4, 451, 451])
    """
    inner = unwrap(model)
    if not isinstance(inner, Recordable):
        raise InputError(f"record: {type(inner).__name__} has no attention to record")
    seen = Record(chosen_layers(layers, len(inner.blocks)), reduce)
    before, inner.recording = inner.recording, seen
    try:
        yield seen
    finally:
        inner.recording = before


def chosen_layers(asked: Iterable[int] | int | None, depth: int) -> list[int]:
    """The layers that were asked for, in their order: all for None, negative ones from the end."""
    if asked is None:
        return list(range(depth))
    asked = [asked] if isinstance(asked, int) else list(asked)
    for i in asked:
        if not -depth <= i < depth:
            raise InputError(f"layers: layer {i} does not exist; the model has layers 0 to {depth - 1}")
    return sorted({i % depth for i in asked})
