"""Which tokens see which, and what is added to their logits: choices of a config that depend on each other."""

from typing import TYPE_CHECKING, Any

from vitreous.errors import InputError
from vitreous.nn.pairs import PAIRS

if TYPE_CHECKING:
    from vitreous.nn.config import ViTConfig

BIASES = ("none", "relative", *PAIRS)
ATTENTIONS = ("full", "window", "strided", "lsh", "latent", "none")

_ALONE: dict[str, Any] = {  # what attention alone would read, and so must be left out without it
    "cls": False,
    "registers": 0,
    "bias": "none",
    "score": "scaled_dot",
    "qk_norm": False,
    "attention_dropout": 0.0,
}


def check_alone(c: "ViTConfig") -> None:
    """Raise `InputError` for the first setting that needs attention, where there is none."""
    if c.pool == "cls":
        raise InputError("pool: with attention = 'none' the class token sees nothing; expected 'mean' or 'attention'")
    for name, needed in _ALONE.items():
        if getattr(c, name) != needed:
            found = getattr(c, name)
            raise InputError(f"{name}: found {found!r}, but with attention = 'none' it has no use; expected {needed!r}")


def check_pairs(c: "ViTConfig") -> None:
    """Raise `InputError` unless a bias that is learned from pairs has pairs to learn from."""
    if c.bias not in PAIRS:
        return
    if c.tokens not in ("set", "packed"):
        raise InputError(f"bias: {c.bias!r} looks at pairs of a set's elements; found tokens = {c.tokens!r}")
    if c.attention != "full":
        raise InputError(f"bias: {c.bias!r} needs attention = 'full', which looks at all pairs")
    names = PAIRS[c.bias].coordinates
    if names and c.axes != len(names):
        raise InputError(f"axes: found {c.axes}, but bias = {c.bias!r} needs {', '.join(names)}")
    if not c.axes:
        raise InputError(f"axes: bias {c.bias!r} needs the number of coordinates")
