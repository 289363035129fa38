"""`record`: store attention weights and intermediate values of a forward pass."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn

from vitreous.core.errors import InputError
from vitreous.nn.execution import Network, executing, unwrap
from vitreous.nn.reduction.groups import expand_weights

Sink = dict[str, Tensor] | None
"""Receives the values that a part records; None on the fast path."""

Reduce = Callable[[Tensor], Tensor]
"""From the attention weights `(b, heads, N_query, N_key)` of some samples to the recorded values, `(b, ...)`."""


class Reduced(dict[str, Tensor]):
    """A sink whose attention weights are reduced, some samples at a time; with None, weights are not recorded."""

    def __init__(self, reduce: Reduce | None) -> None:
        super().__init__()
        self.reduce = reduce


def wants_keys(sink: Sink) -> bool:
    """Whether a sink records the keys of an attention but not its weights."""
    return isinstance(sink, Reduced) and sink.reduce is None


def keep(sink: Sink, name: str, value: Tensor) -> Tensor:
    """Store a value in the sink, if there is one, and return it."""
    if sink is not None:
        sink[name] = value
    return value


class Record(Mapping[str, Tensor]):
    """Values of the last forward pass within `record`: a mapping from names to tensors.

    Names are `tokens`, `coords`, `mask`, `embedded`, `normed`, `pooled`, `out`, and for each recorded layer i
    `blocks.i.keys`, `blocks.i.weights`, `blocks.i.attention`, `blocks.i.mlp`, `blocks.i.out`; attention pooling adds
    `pool.weights`, a bias of pairs adds `pairwise`, which all layers share. If tokens are merged or dropped, the values
    of a block are for the tokens of that block: `blocks.i.source` `(B, N)` maps each token of the input to one of them;
    `source` and `mask` are the map and the mask after the last block.
    """

    def __init__(self, layers: Iterable[int], reduce: Reduce | None = None) -> None:
        self.layers = tuple(layers)
        self.model: dict[str, Tensor] = {}
        self.pool: dict[str, Tensor] = {}
        self.blocks: dict[int, dict[str, Tensor]] = {i: {} if reduce is None else Reduced(reduce) for i in self.layers}

    def start(self) -> dict[str, Tensor]:
        """Clear the values of the last forward pass; returns the sink of the model itself."""
        for sink in (self.model, self.pool, *self.blocks.values()):
            sink.clear()
        return self.model

    @property
    def attention(self) -> dict[int, Tensor]:
        """Attention weights `(B, heads, N_query, N_key)` of each recorded layer, or their reduced form.

        They are between the tokens of the input, even if tokens are merged.
        """
        return {i: self.expanded(i, sink["weights"]) for i, sink in self.blocks.items() if "weights" in sink}

    def expanded(self, layer: int, weights: Tensor) -> Tensor:
        """Expand the weights `(B, heads, n, n)` of a layer to the tokens of the input."""
        source = self.blocks[layer].get("source")
        return weights if source is None else expand_weights(weights, source)

    def _flat(self) -> dict[str, Tensor]:
        flat = dict(self.model)
        flat |= {f"pool.{name}": value for name, value in self.pool.items()}
        for i, sink in self.blocks.items():
            flat |= {f"blocks.{i}.{name}": value for name, value in sink.items()}
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


@contextmanager
def record(
    model: nn.Module, layers: Iterable[int] | int | None = None, reduce: Reduce | None = None
) -> Iterator[Record]:
    """Record attention weights and intermediate values of the forward passes within the `with` block.

    The output is the same as without recording. Recorded values have gradients as usual; use `torch.no_grad()` if you
    need none. Weights are `(B, heads, N, N)` for each layer: for long inputs, choose the layers that you need and
    reduce their weights, which are then computed a few samples at a time.

    Args:
        model: a model that records, e.g. a ViT.
        layers: layers to record; negative numbers count from the end, None records all.
        reduce: maps the weights `(b, heads, N, N)` of some samples to the recorded values, e.g. `lambda w: w.mean(1)`;
            the first axis of the result must be the samples.

    >>> import torch, vitreous as vt
    >>> model = vt.create_model("vit_spectrum_4500")
    >>> with torch.no_grad(), vt.record(model, layers=[-1]) as seen:
    ...     out = model(torch.rand(2, 1, 4500))
    >>> seen.attention[3].shape
    torch.Size([2, 4, 451, 451])
    """
    inner = unwrap(model)
    if not isinstance(inner, Network) or not inner.records:
        raise InputError(f"record: {type(inner).__name__} has no attention to record")
    recording = Record(chosen_layers(layers, len(inner.blocks)), reduce)
    with executing(inner, recording=recording):
        yield recording


def chosen_layers(layers: Iterable[int] | int | None, depth: int) -> list[int]:
    """Numbers of layers, sorted: all for None, negative numbers count from the end."""
    if layers is None:
        return list(range(depth))
    layers = [layers] if isinstance(layers, int) else list(layers)
    for i in layers:
        if not -depth <= i < depth:
            raise InputError(f"layers: layer {i} does not exist; the model has layers 0 to {depth - 1}")
    return sorted({i % depth for i in layers})
