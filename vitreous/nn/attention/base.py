"""Settings of one kind of attention, next to which each kind defines its own."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from vitreous.core.errors import InputError
from vitreous.core.settings import Settings
from vitreous.nn.attention.multihead import Attention
from vitreous.nn.attention.relative import Layout
from vitreous.nn.attention.scores import SCORES

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig


@dataclass(frozen=True)
class AttentionConfig(Settings):
    """Base class of the settings of one kind of attention."""

    kind: ClassVar[str]
    """The word for it in `ViTConfig(attention=…)`."""
    needs_grid: ClassVar[bool] = False
    """Whether tokens must be a regular grid."""

    def complete(self, c: "ViTConfig") -> Self:
        """A copy that fits the rest of the model's settings; `InputError` if there is none."""
        if not SCORES[c.score].dot:
            raise InputError(f"score: {c.score!r} needs attention = 'full'; {self.kind!r} takes dot products only")
        if self.needs_grid and not c.tokenizer.is_grid:
            raise InputError(f"attention: {self.kind!r} needs a grid; for {c.tokens} use full, lsh or latent")
        return self

    def build(self, c: "ViTConfig", layer: int, layout: Layout) -> Attention | None:
        """The attention of one block."""
        raise NotImplementedError


def common_arguments(c: "ViTConfig", layout: Layout) -> tuple[Any, ...]:
    """The arguments of `Attention`, which all kinds share."""
    keys = layout.prefix + len(layout.places)
    return c.dim, c.heads, c.score, keys, c.qk_norm, c.attention_dropout, c.eps


@dataclass(frozen=True)
class FullAttention(AttentionConfig):
    """Every token attends to all tokens."""

    kind: ClassVar[str] = "full"

    def complete(self, c: "ViTConfig") -> Self:
        return self

    def build(self, c: "ViTConfig", layer: int, layout: Layout) -> Attention | None:
        return Attention(*common_arguments(c, layout))


@dataclass(frozen=True)
class NoAttention(AttentionConfig):
    """No attention: blocks are MLPs of each token alone. With `pool="mean"` the model is Deep Sets (Zaheer 2017)."""

    kind: ClassVar[str] = "none"

    def complete(self, c: "ViTConfig") -> Self:
        if c.pool == "cls":
            raise InputError(
                "pool: with attention = 'none' the class token sees nothing; expected 'mean' or 'attention'"
            )
        for name, expected in _UNUSED.items():
            value = getattr(c, name)
            if value != expected:
                raise InputError(
                    f"{name}: found {value!r}, but with attention = 'none' it has no use; expected {expected!r}"
                )
        return self

    def build(self, c: "ViTConfig", layer: int, layout: Layout) -> Attention | None:
        return None


_UNUSED: dict[str, Any] = {  # settings that only attention reads
    "cls": False,
    "registers": 0,
    "bias": "none",
    "score": "scaled_dot",
    "qk_norm": False,
    "attention_dropout": 0.0,
}
