"""`ViTConfig`: every choice that makes a model, checked when it is made."""

from dataclasses import dataclass

from vitreous.errors import InputError, check_choice
from vitreous.nn.block import NORMS
from vitreous.nn.head import POOLS
from vitreous.nn.mixing import ATTENTIONS, BIASES, check_alone, check_pairs
from vitreous.nn.position import POSITIONS
from vitreous.nn.score import SCORES
from vitreous.nn.tokens import TOKENIZERS, token_grid
from vitreous.settings import Settings


@dataclass(frozen=True)
class ViTConfig(Settings):
    """A Vision Transformer for signals of one, two or three dimensions, or for sets.

    The rank of `input` decides: `(1, 4500)` is a spectrum, `(3, 224, 224)` an image, `(C, T, H, W)` a volume.

    >>> ViTConfig(input=(1, 4500), patch=(10,), out=6, dim=64, depth=4, heads=4, head=(64,)).grid
    (4500,)
    """

    input: tuple[int, ...]
    """Channels, then samples along each axis; for sets and lists: features, then the largest number of elements. The
    features of packed sets are counted with their coordinates."""
    patch: tuple[int, ...] = ()
    """Samples of a patch along each axis; one number serves all axes. Not used for sets."""
    out: int = 0
    """Outputs; 0 returns the pooled features."""
    dim: int = 192
    """Width of the tokens."""
    depth: int = 12
    """Number of blocks."""
    heads: int = 3
    """Attention heads; they share the width equally."""
    mlp: tuple[float, ...] = (4.0,)
    """Hidden layers of each block's MLP, as multiples of the width."""
    head: tuple[int, ...] = ()
    """Widths of the head's hidden layers; none makes it linear."""

    tokens: str = "patch"
    """Where tokens come from: patch | set | packed: a set in one array, whose last rows are coordinates and where an
    element of zeros is missing | peaks: the maxima of a one-channel spectrum | lines: a list of such."""
    peaks: int = 0
    """With tokens = peaks: the largest number of them."""
    axes: int = 0
    """For sets: the number of coordinates of an element."""
    stride: tuple[int, ...] = ()
    """Samples between neighbouring patches, if not the patch itself; smaller makes them overlap."""
    stem: tuple[int, ...] = ()
    """Widths of convolutions before the patches; each halves the grid. For packed sets: along the trace that the first
    features of an element are, each halving it (S2.8)."""
    samples: int = 0
    """With the stem of a packed set: how many features are the trace; all if not given."""
    embed_norm: bool = False
    """Layer norm after the patch projection (S4.4)."""
    origin: tuple[float, ...] = ()
    """Coordinate of the first sample along each axis, in the input's units; 0 if not given."""
    spacing: tuple[float, ...] = ()
    """Step between samples along each axis, in the input's units; 1 if not given. For sets: one position step."""
    cls: bool = True
    """Prepend a class token."""
    registers: int = 0
    """Register tokens, prepended after the class token and never pooled."""

    position: str = "learned"
    """learned (S0.4) | sinusoidal (S1.3) | none."""
    bias: str = "none"
    """What is added to the attention logits: none | relative: for patches, a trainable number per displacement, layer
    and head (S4.1). For sets, learned from the coordinates of pairs, once for all layers (S2.10): offset: from their
    differences and distance, in steps of `spacing` | lorentz: from ln ΔR, ln k_T, ln z and ln m² of particles, whose
    coordinates are rapidity, azimuth, ln p_T and ln E."""
    score: str = "scaled_dot"
    """scaled_dot | dot | cosine | general | additive | location (S2.2)."""
    attention: str = "full"
    """Which tokens a token sees (S2.7): full: all | window: near ones | strided: a row or a column | lsh: those that
    hash alike | latent: all, through a few learned latents, these four for long inputs | none: itself alone, which
    with pool = mean makes Deep Sets (Zaheer et al. 2017)."""
    window: tuple[int, ...] = ()
    """With attention = window: how many tokens away a token sees, along each axis; one number serves all axes."""
    hashes: int = 0
    """With attention = lsh: rounds of hashing; more come nearer to full attention. 4 if not given."""
    latents: int = 0
    """With attention = latent: how many. 64 if not given."""
    norm: str = "pre"
    """pre (S4.3) | post (S1.2) | branch (S4.2)."""
    pool: str = "cls"
    """cls | mean | attention | flatten."""
    thresholds: bool = False
    """Merge and drop tokens in every block by learned thresholds (arXiv 2307.10780)."""

    qk_norm: bool = False
    """Layer norm on queries and keys."""
    layer_scale: float = 0.0
    """Initial value of a trainable factor per channel on each branch; 0 for none."""
    dropout: float = 0.0
    """Dropout on the embedded tokens, in the MLPs and on the branches."""
    attention_dropout: float = 0.0
    """Dropout on the attention weights."""
    drop_path: float = 0.0
    """Stochastic depth: probability of skipping a branch, growing linearly to this value at the last block."""
    eps: float = 1e-6
    """Added to the variance in layer norms."""

    @property
    def grid(self) -> tuple[int, ...]:
        """Samples along each axis."""
        return self.input[1:]

    @property
    def prefix(self) -> int:
        """Tokens before those of the data: class token and registers."""
        return int(self.cls) + self.registers

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, table in _TABLES.items():
            check_choice(name, getattr(self, name), table)
        self._at_least(1, "input", "patch", "stride", "stem", "dim", "depth", "heads", "head")
        self._at_least(0, "out", "axes", "samples", "hashes", "latents", "peaks", "registers", "layer_scale", "eps")
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
            self.check_fewer("thresholds")
        if self.tokens != "peaks" and self.peaks:
            raise InputError(f"peaks: found {self.peaks}, but tokens = {self.tokens!r} has none")
        if self.samples and not (self.tokens == "packed" and self.stem):
            raise InputError(f"samples: found {self.samples}, but only the stem of a packed set reads traces")
        checks = {
            "patch": self._check_patches, "set": self._check_set, "packed": self._check_packed,
            "peaks": self._check_peaks, "lines": self._check_lines,
        }  # fmt: skip
        checks[self.tokens]()
        self._check_attention()
        check_pairs(self)

    def _check_attention(self) -> None:
        owner = {"window": "window", "hashes": "lsh", "latents": "latent"}
        for name, kind in owner.items():
            if getattr(self, name) and self.attention != kind:
                raise InputError(f"{name}: found {getattr(self, name)}, but attention = {self.attention!r} has none")
        if self.attention == "full":
            return
        if self.attention == "none":
            check_alone(self)
            return
        if not SCORES[self.score].dot:
            raise InputError(f"score: {self.score!r} needs attention = 'full'; {self.attention!r} takes dot products")
        if self.attention == "lsh":
            self._set("hashes", self.hashes or 4)
        elif self.attention == "latent":
            self._set("latents", self.latents or 64)
        elif self.tokens != "patch":
            raise InputError(f"attention: {self.attention!r} needs a grid; for {self.tokens} use full, lsh or latent")
        if self.attention == "window":
            self._check_window()

    def _check_window(self) -> None:
        self._at_least(1, "window")
        self._spread("window", len(self.grid))
        shape = token_grid(self.grid, self.patch, self.stride)
        if any(w >= n for w, n in zip(self.window, shape, strict=True)):
            raise InputError(f"window: {self.window} reaches past the {shape} tokens; use attention = 'full'")

    def check_fewer(self, name: str) -> None:
        """Raise `InputError`, in the name of an argument, unless tokens may be merged and dropped."""
        if self.attention != "full":
            raise InputError(f"{name}: tokens are merged and dropped under full attention only")
        if self.score == "location":
            raise InputError(f"{name}: the score 'location' needs every token at its place")

    def _check_patches(self) -> None:
        rank = len(self.grid)
        if rank > 3:
            raise InputError(f"input: found {rank} axes after the channels in {self.input}, expected 1, 2 or 3")
        if self.axes:
            raise InputError("axes: only sets are told their number of coordinates; a grid has its own")
        self._spread("patch", rank)
        self._set("stride", self.stride or self.patch)
        self._spread("stride", rank)
        self._check_scales(rank)
        for p, s, g in zip(self.patch, self.stride, self.grid, strict=True):
            if p > g:
                raise InputError(f"patch: {self.patch} is larger than the grid {self.grid}")
            if s > p:
                raise InputError(f"stride: {self.stride} is larger than the patch {self.patch} and would skip samples")
            if p % 2 ** len(self.stem) or s % 2 ** len(self.stem):
                raise InputError(
                    f"stem: {len(self.stem)} halvings need patch {self.patch} and stride {self.stride} "
                    f"to be multiples of {2 ** len(self.stem)}"
                )

    def _check_peaks(self) -> None:
        if len(self.input) != 2 or self.input[0] != 1 or self.input[1] < 200:
            raise InputError(f"input: found {self.input}, peaks are found in (1, samples) with at least 200 samples")
        if not 1 <= self.peaks <= self.input[1]:
            raise InputError(f"peaks: found {self.peaks}, expected their largest number, e.g. 64")
        self._check_places("patch", "stride", "stem", "axes")
        if any(step < 0 for step in self.spacing):
            raise InputError(f"spacing: found {self.spacing}, peaks are counted along a rising axis")
        self._check_scales(1)

    def _check_lines(self) -> None:
        if len(self.input) != 2:
            raise InputError(f"input: found {self.input}, a list expects (numbers of a line, largest number of lines)")
        self._check_places("patch", "stride", "stem", "axes", "origin", "spacing")

    def _check_places(self, *unused: str) -> None:
        """Peaks and lines carry their place with them."""
        if self.position != "none":
            raise InputError(
                f"position: found {self.position!r}; {self.tokens} carry their place, so it must be 'none'"
            )
        for name in unused:
            if getattr(self, name):
                raise InputError(f"{name}: found {getattr(self, name)}, but {self.tokens} have none")
        self._check_unordered()

    def _check_unordered(self) -> None:
        if self.bias == "relative":
            raise InputError("bias: 'relative' counts steps on a grid; give a set's biases to forward as pairwise=")
        for name, choice in (("pool", "flatten"), ("score", "location")):
            if getattr(self, name) == choice:
                raise InputError(f"{name}: {choice!r} needs a fixed order of tokens, which a set does not have")

    def _check_set(self) -> None:
        if len(self.input) != 2:
            raise InputError(f"input: found {self.input}, a set expects (features, largest number of elements)")
        for name in ("patch", "stride", "stem", "origin"):
            if getattr(self, name) and (name, self.tokens) != ("stem", "packed"):
                raise InputError(f"{name}: found {getattr(self, name)}, but sets are not cut into patches")
        if self.position != "none" and not self.axes:
            raise InputError(f"axes: position {self.position!r} needs the number of coordinates, or position='none'")
        self._check_unordered()
        self._check_scales(self.axes)

    def _check_packed(self) -> None:
        self._check_set()
        if self.axes >= self.input[0]:
            raise InputError(f"axes: {self.axes} coordinates leave no features in the rows of input {self.input}")
        if self.samples > self.input[0] - self.axes:
            raise InputError(f"samples: found {self.samples}, but an element has {self.input[0] - self.axes} features")

    def _spread(self, name: str, rank: int) -> None:
        """One number stands for every axis; otherwise there is one for each."""
        value = getattr(self, name)
        if len(value) == 1:
            self._set(name, value * rank)
        elif len(value) != rank:
            raise InputError(f"{name}: found {value}, expected one number for each axis of input {self.input}")

    def _check_scales(self, rank: int) -> None:
        if self.position == "sinusoidal" and self.dim < 2 * rank:
            raise InputError(f"dim: {self.dim} is too narrow for sinusoidal positions along {rank} axes")
        for name in ("origin", "spacing"):
            if getattr(self, name):
                self._spread(name, rank)
        if any(step == 0 for step in self.spacing):
            raise InputError(f"spacing: found {self.spacing}, expected steps other than 0")


_TABLES = {
    "tokens": TOKENIZERS,
    "position": POSITIONS,
    "bias": BIASES,
    "attention": ATTENTIONS,
    "score": tuple(SCORES),
    "norm": tuple(NORMS),
    "pool": tuple(POOLS),
}
