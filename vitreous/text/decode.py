"""From a model that knows the next token to whole sequences: greedy and beam search, with or without a cache."""

from typing import NamedTuple

import torch
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.nn.attention.cache import State
from vitreous.text.transformer import END, PAD, START, UNKNOWN, Encoded, Seq2Seq

_CUT = 1e6  # by which a sequence that does not come to an end is worse than one that does


class Decoded(NamedTuple):
    """Tokens `(B, T)`, padded behind their end, and the score `(B,)` of each row: its mean log-probability."""

    tokens: Tensor
    score: Tensor


@torch.no_grad()
def greedy(model: Seq2Seq, source: Tensor, most: int = 0, cached: bool = True, stop: bool = True) -> Decoded:
    """The likeliest token at every step.

    Args:
        model: in evaluation mode.
        source: `(B, S)`.
        most: tokens to write at most, their end included; as many as the model takes if 0.
        cached: keep what earlier tokens have computed, rather than computing it again for every new one.
        stop: end where every row has ended; else write `most` tokens whatever they are.
    """
    encoded = model.encode(source)
    state = model.start() if cached else None
    written = torch.full((len(source), 1), START, device=source.device)
    ended = torch.zeros(len(source), dtype=torch.bool, device=source.device)
    total, count = (torch.zeros(len(source), device=source.device) for _ in range(2))
    for _ in range(_most(model, most)):
        target = written[:, -1:] if cached else written
        chance, token = _chances(model.decode(target, encoded, state, last=True)).max(-1)
        token, chance = token.masked_fill(ended, PAD), chance.masked_fill(ended, 0.0)
        count, total = count + ~ended, total + chance
        written = torch.cat([written, token[:, None]], dim=1)
        if stop:
            ended = ended | (token == END)
            if bool(ended.all()):
                break
    return Decoded(written[:, 1:], total / count.clamp(min=1))


@torch.no_grad()
def beam(model: Seq2Seq, source: Tensor, width: int = 4, most: int = 0) -> Decoded:
    """The best of the sequences that `width` beams find, of those that have ended if some have; beam 0 is greedy.

    The beams are nested: each takes the likeliest token that those before it and it itself lead to and that none of
    them has taken. So the first w of them are the beams of a search of width w, and a wider search never finds worse.
    """
    if width < 1:
        raise InputError(f"beam: found {width}, expected at least 1")
    rows, device = len(source), source.device
    first = torch.arange(rows, device=device)[:, None] * width  # (B, 1), where each sentence's beams begin
    encoded = model.encode(source).pick(torch.arange(rows, device=device).repeat_interleave(width))
    state = model.start()
    written = torch.full((rows, width, 1), START, device=device)
    ended = torch.zeros(rows, width, dtype=torch.bool, device=device)
    count = torch.zeros(rows, width, device=device)
    total = torch.full((rows, width), float("-inf"), device=device)
    total[:, 0] = 0.0  # all beams are the same until the first has led somewhere
    for _ in range(_most(model, most)):
        chances, tokens = _next(model, written, encoded, state, ended, width)
        total, choice = _nested(total.unsqueeze(-1) + chances)
        parent = choice // chances.shape[2]  # (B, W)
        token = tokens.flatten(1).gather(1, choice)
        written = torch.cat([_of(written, parent), token.unsqueeze(-1)], dim=2)
        before = ended.gather(1, parent)
        count = count.gather(1, parent) + ~before
        ended = before | (token == END)
        state.pick((first + parent).flatten())
        if bool(ended.all()):
            break
    score = total / count.clamp(min=1)
    best = torch.where(ended, score, score - _CUT).argmax(1, keepdim=True)
    return Decoded(_of(written, best).squeeze(1)[:, 1:], score.gather(1, best).squeeze(1))


def _chances(out: Tensor) -> Tensor:
    """Log-probabilities `(B, vocabulary)` of the next token, which is a word or the end."""
    chances = out[:, -1].float().log_softmax(-1)
    for no_word in (PAD, START, UNKNOWN):
        chances[:, no_word] = float("-inf")
    return chances


def _next(
    model: Seq2Seq, written: Tensor, encoded: Encoded, state: State, ended: Tensor, width: int
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and tokens `(B, W, W)` with which each beam may go on; one that has ended stays as it is."""
    out = _chances(model.decode(written.flatten(0, 1)[:, -1:], encoded, state, last=True))
    chances, tokens = out.topk(min(width, out.shape[-1]), dim=-1)
    chances, tokens = (part.unflatten(0, ended.shape) for part in (chances, tokens))
    stays = torch.full_like(chances, float("-inf"))
    stays[..., 0] = 0.0
    return torch.where(ended.unsqueeze(-1), stays, chances), tokens.masked_fill(ended.unsqueeze(-1), PAD)


def _nested(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Score and place `(B, W)` of what each beam takes of the candidates `(B, W, K)` of itself and those before it."""
    free, each, choices = scores.flatten(1), scores.shape[2], []
    for beam in range(scores.shape[1]):
        choices.append(free[:, : (beam + 1) * each].max(1))
        free = free.scatter(1, choices[-1].indices[:, None], float("-inf"))
    best, place = (torch.stack(part, 1) for part in zip(*choices, strict=True))
    return best, place


def _of(written: Tensor, beams: Tensor) -> Tensor:
    """What these beams `(B, W)` have written."""
    return written.gather(1, beams.unsqueeze(-1).expand(-1, -1, written.shape[2]))


def _most(model: Seq2Seq, most: int) -> int:
    if most > model.length:
        raise InputError(f"most: found {most} tokens, the model takes {model.length} at most")
    return most or model.length
