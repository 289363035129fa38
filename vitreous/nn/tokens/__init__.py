"""Tokenizers: from the input to tokens, their mask and their coordinates.

A new tokenizer is a `Tokenizer` with its `TokenizerConfig` in a module here, and a row in `TOKENIZERS`.
"""

from vitreous.nn.tokens.base import Contents, Tokenizer, TokenizerConfig, Tokens
from vitreous.nn.tokens.lines import LineTokenizer, LineTokens
from vitreous.nn.tokens.packed import PackedTokenizer, PackedTokens
from vitreous.nn.tokens.patches import PatchTokenizer, PatchTokens, kernel_shape, token_grid
from vitreous.nn.tokens.peaks import PeakTokenizer, PeakTokens
from vitreous.nn.tokens.sets import SetTokenizer, SetTokens

TOKENIZERS: dict[str, type[TokenizerConfig]] = {
    part.kind: part for part in (PatchTokens, SetTokens, PackedTokens, PeakTokens, LineTokens)
}
"""Settings of each tokenizer, which build it, by the word for it in `ViTConfig(tokens=…)`."""

__all__ = [
    "TOKENIZERS",
    "Contents",
    "LineTokenizer",
    "LineTokens",
    "PackedTokenizer",
    "PackedTokens",
    "PatchTokenizer",
    "PatchTokens",
    "PeakTokenizer",
    "PeakTokens",
    "SetTokenizer",
    "SetTokens",
    "Tokenizer",
    "TokenizerConfig",
    "Tokens",
    "kernel_shape",
    "token_grid",
]
