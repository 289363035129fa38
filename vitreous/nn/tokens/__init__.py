"""Tokenizers: from the input to tokens, their mask and their coordinates.

A new tokenizer is a `Tokenizer` with its `TokenizerConfig` in a module here, and a row in `TOKENIZERS`.
"""

from vitreous.nn.tokens.base import Tokenizer as Tokenizer
from vitreous.nn.tokens.base import TokenizerConfig as TokenizerConfig
from vitreous.nn.tokens.base import Tokens as Tokens
from vitreous.nn.tokens.lines import LineTokens as LineTokens
from vitreous.nn.tokens.lines import PeakTokens as PeakTokens
from vitreous.nn.tokens.patches import PatchTokenizer as PatchTokenizer
from vitreous.nn.tokens.patches import PatchTokens as PatchTokens
from vitreous.nn.tokens.patches import kernel_shape as kernel_shape
from vitreous.nn.tokens.patches import token_grid as token_grid
from vitreous.nn.tokens.profile import ProfileTokens as ProfileTokens
from vitreous.nn.tokens.sets import PackedTokens as PackedTokens
from vitreous.nn.tokens.sets import SetTokenizer as SetTokenizer
from vitreous.nn.tokens.sets import SetTokens as SetTokens

TOKENIZERS: dict[str, type[TokenizerConfig]] = {
    part.kind: part for part in (PatchTokens, SetTokens, PackedTokens, PeakTokens, ProfileTokens, LineTokens)
}
"""Settings of each tokenizer, which build it, by the word for it in `ViTConfig(tokens=…)`."""
