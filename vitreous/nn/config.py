"""`ViTConfig`: all settings of a Vision Transformer, checked on construction."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

from vitreous.core.errors import InputError, check_choice
from vitreous.core.settings import Settings
from vitreous.nn.attention import ATTENTIONS, SCORES, AttentionConfig
from vitreous.nn.attention.bias import PAIRS, check_pairs
from vitreous.nn.block import NORMS
from vitreous.nn.pooling import POOLS
from vitreous.nn.position import POSITIONS
from vitreous.nn.tokens import TOKENIZERS, TokenizerConfig, token_grid

_CHOICES = {"position": POSITIONS, "bias": ("none", "relative", *PAIRS), "score": SCORES, "norm": NORMS, "pool": POOLS}
_T = TypeVar("_T")
_Part = TypeVar("_Part", TokenizerConfig, AttentionConfig)


class PartSetting(Generic[_T]):
    """A setting of a part, readable as an attribute of the whole: `config.patch` is `config.tokenizer.patch`.

    It is empty if the chosen part does not have it.
    """

    def __init__(self, part: str, empty: _T) -> None:
        self.part, self.empty = part, empty

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, config: object, owner: type | None = None) -> _T:
        value: _T = getattr(getattr(config, self.part, None), self.name, self.empty)
        return value


@dataclass(frozen=True, init=False)
class ViTConfig(Settings):
    """A Vision Transformer for signals of one, two or three dimensions, or for sets.

    The length of `input` decides: `(1, 4500)` is a spectrum, `(3, 224, 224)` an image, `(C, T, H, W)` a volume.

    Settings that only one tokenizer or one kind of attention has are in its own configuration: `tokenizer` is one of
    `TOKENIZERS` and `mixer` one of `ATTENTIONS`. The flat form does the same: the words `tokens` and `attention` choose
    the parts, and their settings are passed along with the others, to the constructor or to `dataclasses.replace`.

    >>> ViTConfig(input=(1, 4500), patch=(10,), out=6, dim=64, depth=4, heads=4, head=(64,)).tokenizer.patch
    (10,)
    >>> from vitreous.nn import PatchTokens, WindowAttention
    >>> parts = ViTConfig(input=(1, 4500), tokenizer=PatchTokens(patch=10), mixer=WindowAttention(window=3))
    >>> parts == ViTConfig(input=(1, 4500), patch=10, attention="window", window=3)
    True
    """

    kind: ClassVar[str] = "vit"
    input: tuple[int, ...]
    """Channels, then samples along each axis; for sets and lists: features, then the largest number of elements. The
    features of packed sets include their coordinates."""
    tokenizer: TokenizerConfig
    """How the input becomes tokens."""
    mixer: AttentionConfig
    """Which tokens attend to which (S2.7)."""
    out: int = 0
    """Number of outputs; 0 returns the pooled features."""
    dim: int = 192
    """Width of the tokens."""
    depth: int = 12
    """Number of blocks."""
    heads: int = 3
    """Attention heads, which divide the width equally."""
    mlp: tuple[float, ...] = (4.0,)
    """Widths of the hidden layers of each block's MLP, as multiples of `dim`."""
    head: tuple[int, ...] = ()
    """Widths of the hidden layers of the head; a linear head by default."""

    embed_norm: bool = False
    """Layer norm after the tokenizer's projection (S4.4)."""
    cls: bool = True
    """Prepend a class token."""
    registers: int = 0
    """Register tokens, inserted after the class token and never pooled."""
    position: str = "learned"
    """learned (S0.4) | sinusoidal (S1.3) | none."""
    bias: str = "none"
    """Added to the attention logits. none | relative: for patches, a trainable number for each displacement, layer and
    head (S4.1) | for sets, learned from the coordinates of pairs, once for all layers (S2.10): offset: from differences
    and distance in steps of `spacing` | lorentz: from ln ΔR, ln k_T, ln z and ln m² of particles, whose coordinates are
    rapidity, azimuth, ln p_T and ln E."""
    score: str = "scaled_dot"
    """scaled_dot | dot | cosine | general | additive | location (S2.2)."""
    norm: str = "pre"
    """pre (S4.3) | post (S1.2) | branch (S4.2)."""
    pool: str = "cls"
    """cls | mean | attention | flatten."""
    thresholds: bool = False
    """Merge and drop tokens in every block by learned thresholds (arXiv 2307.10780)."""

    qk_norm: bool = False
    """Layer norm on queries and keys."""
    layer_scale: float = 0.0
    """Initial value of a trainable factor for each channel of each branch; 0 for none."""
    dropout: float = 0.0
    """Dropout on the embedded tokens, in the MLPs and on the branches."""
    attention_dropout: float = 0.0
    """Dropout on the attention weights."""
    drop_path: float = 0.0
    """Stochastic depth: probability of skipping a branch, which grows linearly to this value at the last block."""
    eps: float = 1e-6
    """Added to the variance in layer norms."""

    patch = PartSetting[tuple[int, ...]]("tokenizer", ())
    stride = PartSetting[tuple[int, ...]]("tokenizer", ())
    stem = PartSetting[tuple[int, ...]]("tokenizer", ())
    samples = PartSetting[int]("tokenizer", 0)
    peaks = PartSetting[int]("tokenizer", 0)
    axes = PartSetting[int]("tokenizer", 0)
    origin = PartSetting[tuple[float, ...]]("tokenizer", ())
    spacing = PartSetting[tuple[float, ...]]("tokenizer", ())
    window = PartSetting[tuple[int, ...]]("mixer", ())
    hashes = PartSetting[int]("mixer", 0)
    latents = PartSetting[int]("mixer", 0)

    def __init__(
        self,
        input: Any,
        tokenizer: TokenizerConfig | None = None,
        mixer: AttentionConfig | None = None,
        **settings: Any,
    ) -> None:
        for name in settings:
            check_choice("settings", name, _names(type(self)))
        self._set("input", input)
        self._set("tokenizer", _choose_part("tokens", tokenizer or TOKENIZERS["patch"](), TOKENIZERS, settings))
        self._set("mixer", _choose_part("attention", mixer or ATTENTIONS["full"](), ATTENTIONS, settings))
        for field in fields(self):
            if field.default is not MISSING:
                self._set(field.name, settings.get(field.name, field.default))
        self.__post_init__()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, table in _CHOICES.items():
            check_choice(name, getattr(self, name), table)
        self._at_least(1, "input", "dim", "depth", "heads", "head")
        self._at_least(0, "out", "registers", "layer_scale", "eps")
        self._probability("dropout", "attention_dropout", "drop_path")
        if len(self.input) < 2:
            raise InputError(f"input: found {self.input}, expected channels and then samples along each axis")
        if any(round(ratio * self.dim) < 1 for ratio in self.mlp):
            raise InputError(f"mlp: found {self.mlp}, expected multiples of the width that leave at least one unit")
        if self.dim % self.heads:
            raise InputError(f"heads: {self.heads} heads do not divide the width dim = {self.dim}")
        if self.pool == "cls" and not self.cls:
            raise InputError("pool: 'cls' needs the class token, but cls is False")
        if self.thresholds:
            self.check_reducible("thresholds")
        self._set("tokenizer", self.tokenizer.complete(self))
        self._set("mixer", self.mixer.complete(self))
        check_pairs(self)

    @property
    def tokens(self) -> str:
        """The kind of tokens: one of `TOKENIZERS`."""
        return self.tokenizer.kind

    @property
    def attention(self) -> str:
        """The kind of attention: one of `ATTENTIONS`."""
        return self.mixer.kind

    @property
    def grid(self) -> tuple[int, ...]:
        """Samples along each axis."""
        return self.input[1:]

    @property
    def token_grid(self) -> tuple[int, ...]:
        """Patches along each axis; for grids only."""
        return token_grid(self.grid, self.patch, self.stride)

    @property
    def prefix(self) -> int:
        """Tokens before those of the data: class token and registers."""
        return int(self.cls) + self.registers

    @property
    def attends(self) -> bool:
        """Whether the model computes attention weights."""
        return self.attention != "none"

    @property
    def reduces(self) -> bool:
        """Whether tokens can be merged or dropped."""
        return self.attention == "full" and self.score != "location"

    def check_reducible(self, name: str) -> None:
        """Raise `InputError`, naming an argument, unless tokens can be merged or dropped."""
        if self.attention != "full":
            raise InputError(f"{name}: tokens are merged and dropped under full attention only")
        if not self.reduces:
            raise InputError(f"{name}: the score 'location' needs every token at its place")

    def replace(self, **changes: Any) -> "ViTConfig":
        """A copy with some settings changed, in the flat form; `dataclasses.replace` does the same."""
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """All settings in the flat form, ready for JSON."""
        return {name: getattr(self, name) for name in _names(type(self))}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; an unknown key is an error."""
        for key in values:
            check_choice("settings", key, _names(cls))
        return cls(**values)


def _names(config: type[ViTConfig]) -> list[str]:
    """Names of all settings in the flat form."""
    of_parts = [name for name, value in vars(ViTConfig).items() if isinstance(value, PartSetting)]
    plain = [field.name for field in fields(config) if field.default is not MISSING]
    return ["input", *of_parts, "tokens", "attention", *plain]


def _choose_part(word: str, part: _Part, table: Mapping[str, type[_Part]], settings: Mapping[str, Any]) -> _Part:
    """A part with the changes that the flat form asks for.

    Args:
        word: the setting that chooses the kind of part.
        part: the part to change. Settings of it that are not the default are kept, also if the kind changes.
        settings: all settings in the flat form. Those without a value, such as 0 or (), count as not given.
    """
    kind = settings.get(word, part.kind)
    check_choice(word, kind, table)
    names = {field.name for row in table.values() for field in fields(row)}
    changed = {f.name: getattr(part, f.name) for f in fields(part) if getattr(part, f.name) != f.default}
    changed |= {name: value for name, value in settings.items() if name in names}
    allowed = {field.name for field in fields(table[kind])}
    for name, value in changed.items():
        if name not in allowed and (len(value) if hasattr(value, "__len__") else value):
            raise InputError(f"{name}: found {value!r}, but {word} = {kind!r} does not have this setting")
    return table[kind](**{name: value for name, value in changed.items() if name in allowed})
