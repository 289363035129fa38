"""Attention between tokens with similar hashes (S2.7; Reformer, Kitaev et al. 2020)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from vitreous.nn.attention.bias import BiasTable, Layout
from vitreous.nn.attention.multihead import Attention, AttentionConfig, common_arguments
from vitreous.nn.attention.scores import Dot, join_partial, partial_attention
from vitreous.nn.attention.sparse import Sparse

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig

_CHUNK = 64  # queries with similar hashes that attend to the same keys


@dataclass(frozen=True)
class LshAttention(AttentionConfig):
    """A token attends to tokens with similar hashes: locality-sensitive hashing."""

    kind: ClassVar[str] = "lsh"
    hashes: int = 4
    """Rounds of hashing; more rounds come nearer to full attention."""

    def build(self, c: "ViTConfig", layer: int, layout: Layout) -> Attention | None:
        return Lsh(self.hashes, layer, layout, *common_arguments(c, layout))


class Lsh(Sparse):
    """Locality-sensitive hashing (Reformer, Kitaev et al. 2020): a query attends to keys of similar direction.

    The hash of a vector is the nearest axis of a random frame. Queries and keys are sorted by their hashes; a chunk of
    queries attends to the keys with the nearest hashes, twice as many as the chunk has queries. Further rounds with
    other frames find keys that one round has missed; a key that several rounds find counts once. Grows as N log N.
    The layer seeds the frames, which are saved with the weights.
    """

    frames: Tensor
    recompute_above = 2**22
    """Attention weights of a layer above which they are recomputed for the backward pass."""

    def __init__(self, rounds: int, layer: int, layout: Layout, *others: Any, **named: Any) -> None:
        super().__init__(layout, *others, **named)
        d = self.project.in_features // self.heads
        self.ways = 2 * max(1, math.ceil(math.sqrt(math.prod(self.shape) / _CHUNK) / 2))  # of each of two frames
        frames = torch.randn(rounds, 2, d, self.ways // 2, generator=torch.Generator().manual_seed(layer))
        self.register_buffer("frames", frames)

    def _tokens(self, scored: Dot, v: Tensor, mask: Tensor | None, bias: BiasTable | None) -> Tensor:
        p, dropout = self.prefix, self.active_dropout
        if not scored.q.shape[2]:
            return scored.q
        rounds, q = self._rounds(scored, mask), scored.q * scored.scale
        attend: Callable[..., tuple[Tensor, ...]] = self._round
        if torch.is_grad_enabled() and scored.q[..., 0].numel() * 2 * _CHUNK > self.recompute_above:
            attend = partial(checkpoint, self._round, use_reentrant=False, preserve_rng_state=dropout > 0)
        parts = [
            attend(q, scored.k[:, :, p:], v[:, :, p:], rounds[: i + 1], mask, bias, dropout) for i in range(len(rounds))
        ]
        if p:
            scores = q @ scored.k[:, :, :p].mT
            scores = scores if bias is None else scores + bias.to_prefix(p)[:, None, :]
            scores = scores if mask is None else scores.masked_fill(~mask[..., :p], float("-inf"))
            parts.append(partial_attention(scores, v[:, :, :p], dropout))
        return join_partial(*(torch.stack(each) for each in zip(*parts, strict=True)))

    def _round(
        self, q: Tensor, k: Tensor, v: Tensor, rounds: "list[_Round]", mask: Tensor | None, bias: BiasTable | None,
        dropout: float,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """`partial_attention` of the queries to the keys that only the last of the rounds finds."""
        *earlier, current = rounds
        queries, keys = current.queries, current.keys  # (B, heads, chunks, n), (B, heads, chunks, m)
        scores = _take(q, queries) @ _take(k, keys).mT  # (B, heads, chunks, n, m)
        for other in earlier:
            scores = scores.masked_fill(other.attends(queries, keys), float("-inf"))
        if bias is not None:
            moved = self.places[queries].unsqueeze(-2) - self.places[keys].unsqueeze(-3)
            scores = scores + bias.each(moved)
        if mask is not None:
            present = mask[:, :, 0, self.prefix :].expand(*keys.shape[:2], -1)
            scores = scores.masked_fill(~_take(present, keys).unsqueeze(-2), float("-inf"))
        parts = partial_attention(scores, _take(v, keys), dropout)
        return tuple(_restore_order(part.flatten(2, 3), queries, q.shape[2]) for part in parts)

    @torch.no_grad()
    def _rounds(self, scored: Dot, mask: Tensor | None) -> "list[_Round]":
        """Chunks of queries and their keys, for each round."""
        k, frames = scored.k[:, :, self.prefix :], self.frames.float()
        masked = None if mask is None else ~mask[:, :, 0, self.prefix :]
        return [_sort_into_chunks(self._hash(scored.q, frame), self._hash(k, frame), masked) for frame in frames]

    def _hash(self, x: Tensor, frame: Tensor) -> Tensor:
        """`(B, heads, N, d) -> (B, heads, N)`: the nearest axes of two frames."""
        along = torch.einsum("bhnd,fdw->bhfnw", x.float(), frame)
        first, second = torch.cat([along, -along], dim=-1).argmax(-1).unbind(2)
        return first * self.ways + second

    def _visible(self, scored: Dot, mask: Tensor | None) -> Tensor:
        count = torch.arange(scored.q.shape[2], device=scored.q.device).expand(*scored.q.shape[:2], 1, -1)
        return torch.stack([each.attends(count, count)[:, :, 0] for each in self._rounds(scored, mask)]).any(0)


class _Round(NamedTuple):
    """One round of hashing: chunks of queries and the keys that each attends to."""

    queries: Tensor
    """`(B, heads, chunks, n)`: the tokens of each chunk, masked ones at the end; the last one is repeated."""
    keys: Tensor
    """`(B, heads, chunks, m)`."""
    start: Tensor
    """`(B, heads, N)`: rank, among the sorted keys, of the first one that a query attends to."""
    rank: Tensor
    """`(B, heads, N)`: rank of each key among the sorted ones."""

    def attends(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Whether queries `(…, chunks, n)` attend to keys `(…, chunks, m)`: `(B, heads, chunks, n, m)`."""
        rank, start = _take(self.rank, keys).unsqueeze(-2), _take(self.start, queries).unsqueeze(-1)
        return (rank >= start) & (rank < start + self.keys.shape[-1])


def _sort_into_chunks(queries: Tensor, keys: Tensor, masked: Tensor | None) -> _Round:
    """Chunks of queries sorted by hash, each with the keys of similar hashes.

    Masked tokens do not affect the others: they come last, with the largest hash of an unmasked query.
    """
    count = queries.shape[2]
    width = min(2 * _CHUNK, count)
    last: int | Tensor = count - width
    if masked is not None:
        largest = queries.masked_fill(masked, 0).amax(2, keepdim=True)
        queries = torch.where(masked, 2 * largest + 1, 2 * queries)
        keys = torch.where(masked, torch.iinfo(keys.dtype).max, 2 * keys)
        last = (~masked).sum(2, keepdim=True) - width
    chunks = -(-count // _CHUNK)
    hashes, order = queries.sort(dim=2, stable=True)
    key_hashes, sorted_keys = keys.sort(dim=2, stable=True)
    fill = chunks * _CHUNK - count
    order, hashes = (
        torch.cat([part, part[:, :, -1:].expand(-1, -1, fill)], dim=2).unflatten(2, (chunks, _CHUNK))
        for part in (order, hashes)
    )
    low = torch.searchsorted(key_hashes, hashes[..., 0].contiguous())
    high = torch.searchsorted(key_hashes, hashes[..., -1].contiguous(), right=True)
    start = ((low + high) // 2 - width // 2).clamp(max=last).clamp(min=0)  # (B, heads, chunks)
    nearest = _take(sorted_keys, start.unsqueeze(-1) + torch.arange(width, device=start.device))
    of_query = _restore_order(start.unsqueeze(-1).expand_as(order).flatten(2, 3), order, count)
    ranks = torch.arange(count, device=start.device, dtype=torch.int32).expand_as(sorted_keys)
    rank = torch.empty_like(ranks, memory_format=torch.contiguous_format).scatter_(2, sorted_keys, ranks)
    return _Round(order, nearest, of_query.int(), rank)


def _take(x: Tensor, index: Tensor) -> Tensor:
    """Values of `(B, heads, N)`, or rows of `(B, heads, N, d)`, at `(B, heads, chunks, n)`."""
    flat = index.flatten(2)
    flat = flat if x.dim() == 3 else flat.unsqueeze(-1).expand(-1, -1, -1, x.shape[-1])
    return torch.unflatten(x.gather(2, flat), 2, index.shape[2:])


def _restore_order(x: Tensor, index: Tensor, count: int) -> Tensor:
    """Rows in the order of `index` `(B, heads, chunks, n)` back in the order of the tokens, without the repeat."""
    flat, x = index.flatten(2)[:, :, :count], x[:, :, :count]
    flat = flat if x.dim() == 3 else flat.unsqueeze(-1).expand_as(x)
    return torch.empty_like(x).scatter(2, flat, x)
