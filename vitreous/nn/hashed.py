"""Attention between tokens that hash alike (S2.7; Reformer, Kitaev et al. 2020)."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from vitreous.nn.attention import joined, share
from vitreous.nn.relative import Displaced, Layout
from vitreous.nn.score import Dot
from vitreous.nn.sparse import Sparse

_CHUNK = 64  # queries that are hashed alike and look at the same keys
_LARGE = 2**22  # weights of a layer above which they are computed again for the gradient


class Hashed(Sparse):
    """Locality-sensitive hashing (Reformer, Kitaev et al. 2020): a query sees keys that point its way.

    A hash is the axis of a random frame that a vector is nearest to. Queries and keys are sorted by it; a chunk of
    queries sees as many keys around the place of its own hashes as two chunks hold. Several rounds with other frames
    find what one has missed; a key that is seen twice counts once. Grows as N log N.

    Args:
        rounds: of hashing.
        layer: the seed of the frames, which are kept with the weights.
    """

    frames: Tensor

    def __init__(self, rounds: int, layer: int, layout: Layout, *others: Any, **named: Any) -> None:
        super().__init__(layout, *others, **named)
        d = self.project.in_features // self.heads
        self.ways = 2 * max(1, math.ceil(math.sqrt(math.prod(self.shape) / _CHUNK) / 2))  # of each of two frames
        draw = torch.randn(rounds, 2, d, self.ways // 2, generator=torch.Generator().manual_seed(layer))
        self.register_buffer("frames", draw)

    def _tokens(self, scored: Dot, v: Tensor, mask: Tensor | None, bias: Displaced | None, dropout: float) -> Tensor:
        p = self.prefix
        if not scored.q.shape[2]:
            return scored.q
        rounds = self._rounds(scored, mask)
        again = torch.is_grad_enabled() and scored.q[..., 0].numel() * 2 * _CHUNK > _LARGE
        parts, q = [], scored.q * scored.scale
        for i in range(len(rounds)):
            given = q, scored.k[:, :, p:], v[:, :, p:], rounds[: i + 1], mask, bias, dropout
            if again:
                parts.append(checkpoint(self._round, *given, use_reentrant=False, preserve_rng_state=dropout > 0))
            else:
                parts.append(self._round(*given))
        if p:
            scores = q @ scored.k[:, :, :p].mT
            scores = scores if bias is None else scores + bias.to_prefix(p)[:, None, :]
            scores = scores if mask is None else scores.masked_fill(~mask[..., :p], float("-inf"))
            parts.append(share(scores, v[:, :, :p], dropout))
        return joined(*(torch.stack(each) for each in zip(*parts, strict=True)))

    def _round(
        self, q: Tensor, k: Tensor, v: Tensor, rounds: "list[_Round]", mask: Tensor | None, bias: Displaced | None,
        dropout: float,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """What the queries get from the keys that the last of the rounds is the first to show them.

        And the logarithm of the total weight of these keys.
        """
        *before, now = rounds
        queries, keys = now.queries, now.keys  # (B, heads, chunks, n), (B, heads, chunks, m)
        scores = _take(q, queries) @ _take(k, keys).mT  # (B, heads, chunks, n, m)
        for other in before:
            scores = scores.masked_fill(other.sees(queries, keys), float("-inf"))
        if bias is not None:
            moved = self.places[queries].unsqueeze(-2) - self.places[keys].unsqueeze(-3)
            scores = scores + bias.each(moved)
        if mask is not None:
            there = mask[:, :, 0, self.prefix :].expand(*keys.shape[:2], -1)
            scores = scores.masked_fill(~_pick(there, keys).unsqueeze(-2), float("-inf"))
        out, total = share(scores, _take(v, keys), dropout)
        return _untangle(out.flatten(2, 3), queries, q.shape[2]), _untangle(total.flatten(2, 3), queries, q.shape[2])

    def _rounds(self, scored: Dot, mask: Tensor | None) -> "list[_Round]":
        """Who meets whom, in each round."""
        with torch.no_grad():
            k = scored.k[:, :, self.prefix :]
            absent = None if mask is None else ~mask[:, :, 0, self.prefix :]
            return [_meet(self._hash(scored.q, f), self._hash(k, f), absent) for f in self.frames.float()]

    def _hash(self, x: Tensor, frame: Tensor) -> Tensor:
        """`(B, heads, N, d) -> (B, heads, N)`: the nearest of the axes of two frames."""
        along = torch.einsum("bhnd,fdw->bhfnw", x.float(), frame)
        first, second = torch.cat([along, -along], dim=-1).argmax(-1).unbind(2)
        return first * self.ways + second

    def _visible(self, scored: Dot, mask: Tensor | None) -> Tensor:
        count = torch.arange(scored.q.shape[2], device=scored.q.device).expand(*scored.q.shape[:2], 1, -1)
        return torch.stack([r.sees(count, count)[:, :, 0] for r in self._rounds(scored, mask)]).any(0)


class _Round(NamedTuple):
    """One round of hashing: chunks of queries and the keys that each sees."""

    queries: Tensor
    """`(B, heads, chunks, n)`: the tokens of each chunk, absent ones at the end; the last one is repeated."""
    keys: Tensor
    """`(B, heads, chunks, m)`."""
    start: Tensor
    """`(B, heads, N)`: the place, among the sorted keys, of the first one that a query sees."""
    place: Tensor
    """`(B, heads, N)`: the place of each key among the sorted ones."""

    def sees(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Whether queries `(B, heads, chunks, n)` see keys `(B, heads, chunks, m)`: `(B, heads, chunks, n, m)`."""
        place, start = _pick(self.place, keys).unsqueeze(-2), _pick(self.start, queries).unsqueeze(-1)
        return (place >= start) & (place < start + self.keys.shape[-1])


def _meet(queries: Tensor, keys: Tensor, absent: Tensor | None) -> _Round:
    """Chunks of queries sorted by hash, each with the keys about the same hashes.

    Absent tokens change nothing for the others: they come last, with the largest hash of a query that is there.
    """
    count = queries.shape[2]
    width = min(2 * _CHUNK, count)
    last: int | Tensor = count - width
    if absent is not None:
        largest = queries.masked_fill(absent, 0).amax(2, keepdim=True)
        queries = torch.where(absent, 2 * largest + 1, 2 * queries)
        keys = torch.where(absent, torch.iinfo(keys.dtype).max, 2 * keys)
        last = (~absent).sum(2, keepdim=True) - width
    chunks = -(-count // _CHUNK)
    hashes, order = queries.sort(dim=2, stable=True)
    known, sorted_keys = keys.sort(dim=2, stable=True)
    fill = chunks * _CHUNK - count
    order = torch.cat([order, order[:, :, -1:].expand(-1, -1, fill)], dim=2).unflatten(2, (chunks, _CHUNK))
    hashes = torch.cat([hashes, hashes[:, :, -1:].expand(-1, -1, fill)], dim=2).unflatten(2, (chunks, _CHUNK))
    low = torch.searchsorted(known, hashes[..., 0].contiguous())
    high = torch.searchsorted(known, hashes[..., -1].contiguous(), right=True)
    start = ((low + high) // 2 - width // 2).clamp(max=last).clamp(min=0)  # (B, heads, chunks)
    seen = _pick(sorted_keys, start.unsqueeze(-1) + torch.arange(width, device=start.device))
    of_query = _untangle(start.unsqueeze(-1).expand_as(order).flatten(2, 3), order, count)
    rank = torch.arange(count, device=start.device, dtype=torch.int32).expand_as(sorted_keys)
    place = torch.empty_like(rank, memory_format=torch.contiguous_format).scatter_(2, sorted_keys, rank)
    return _Round(order, seen, of_query.int(), place)


def _take(x: Tensor, index: Tensor) -> Tensor:
    """Rows of `(B, heads, N, d)` at `(B, heads, chunks, n)`: `(B, heads, chunks, n, d)`."""
    flat = index.flatten(2).unsqueeze(-1).expand(-1, -1, -1, x.shape[-1])
    rows: Tensor = x.gather(2, flat).unflatten(2, index.shape[2:])
    return rows


def _pick(x: Tensor, index: Tensor) -> Tensor:
    """Numbers of `(B, heads, N)` at `(B, heads, chunks, n)`."""
    found: Tensor = x.gather(2, index.flatten(2)).view_as(index)
    return found


def _untangle(x: Tensor, index: Tensor, count: int) -> Tensor:
    """Rows in the order of `index` `(B, heads, chunks, n)` back to that of the tokens; the repeated one is left out."""
    flat, x = index.flatten(2)[:, :, :count], x[:, :, :count]
    flat = flat if x.dim() == 3 else flat.unsqueeze(-1).expand_as(x)
    return torch.empty_like(x).scatter(2, flat, x)
