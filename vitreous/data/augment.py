"""`Augment`: random transformations of images and spectra on the batch's device, drawn for each sample (S1.7).

No operation reads a value back from the device, so a GPU never waits and `torch.compile` traces one graph.
"""

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from vitreous.core.errors import InputError, check_choice
from vitreous.core.settings import Settings
from vitreous.data import transforms
from vitreous.data.transforms import Draw, expand_dims

_RANKS = {  # number of grid axes that a setting supports; settings not listed support any
    "shift": (1, 2),
    **dict.fromkeys(("rotate", "scale", "shear"), (2,)),
    **dict.fromkeys(("stretch", "broaden", "gain", "baseline"), (1,)),
    **dict.fromkeys(("roll", "turn"), (2,)),
}
_CHOICES = {"fill": transforms.FILLS, "roll": ("none", *transforms.ROLLS), "turn": ("none", *transforms.TURNS)}
_INPUTS = {1: "spectra (1 axis)", 2: "images (2 axes)"}
_LIMITS = {"rotate": 180.0, "erase": 1.0}
_ERASED = (0.02, 1 / 3)  # fractions of the grid, as in torchvision
_ELONGATION = 0.6  # sides of an erased box differ by up to exp(2 * 0.6) = 3.3, as in Zhong et al. 2020
_BASELINE_TERMS = 4  # constant, linear, quadratic and cubic


@dataclass(frozen=True)
class Augment(Settings):
    """Strengths of the transformations, all off by default, for batches `(B, channels, *grid)`.

    A strength is a maximum: each sample draws its own amount uniformly from zero to it, in both directions where there
    are two. Typical values are given in brackets.

    >>> augment = Augment(shift=0.1, rotate=10, mixup=0.2)
    >>> x, y = augment(torch.rand(4, 1, 28, 28), torch.eye(10)[:4])
    """

    shift: float = 0.0
    """Images: fraction of each side (0.05 to 0.15). Spectra: samples, fractions allowed (0.5 to 5)."""
    rotate: float = 0.0
    """Images: degrees about the centre (5 to 20; 180 if the orientation is arbitrary)."""
    scale: float = 0.0
    """Images: enlarge or shrink by a factor of up to 1 + this (0.05 to 0.2)."""
    shear: float = 0.0
    """Images: columns that each row moves relative to the next (0.05 to 0.2)."""
    stretch: float = 0.0
    """Spectra: stretch or compress about the centre by a factor of up to 1 + this (0.001 to 0.05)."""
    broaden: float = 0.0
    """Spectra: convolve with a Gaussian of this standard deviation in samples (0.5 to 5)."""
    gain: float = 0.0
    """Spectra: multiply by a factor of up to 1 + this or divide by it (0.02 to 0.3)."""
    baseline: float = 0.0
    """Spectra: add a cubic polynomial; each coefficient in standard deviations of the sample (0.02 to 0.3)."""
    noise: float = 0.0
    """Add white Gaussian noise, in standard deviations of the sample's channel (0.01 to 0.2)."""
    erase: float = 0.0
    """Probability to replace a box of 2 to 33 % of the grid by the channel's mean (0.1 to 0.5)."""
    mixup: float = 0.0
    """Blend two samples and their targets with weights from Beta(this, this) (0.1 to 1; Zhang et al. 2018)."""
    cutmix: float = 0.0
    """Paste a box of another sample and blend the targets by its share, from Beta(this, this) (0.2 to 1; Yun et al.
    2019). If `mixup` is set too, each sample gets one of the two."""
    fill: str = "edge"
    """Values beyond the border of a shifted, rotated, scaled or stretched grid: edge | mirror | zero."""
    roll: str = "none"
    """Images: random translation with this boundary condition: none | periodic | skewed | antiperiodic."""
    turn: str = "none"
    """Images: exact symmetry operations: none | half: half turns | square: quarter turns and reflections."""
    negate: bool = False
    """Change the sign of half of the samples, where the sign has no meaning."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        for name in (field.name for field in fields(self) if field.type is float):
            value, limit = getattr(self, name), _LIMITS.get(name, math.inf)
            if not 0 <= value <= limit:
                expected = "of at least 0" if limit == math.inf else f"from 0 to {limit:g}"
                raise InputError(f"{name}: found {value!r}, expected a number {expected}")

    def check(self, rank: int) -> None:
        """Raise `InputError` if a setting does not support inputs with `rank` grid axes."""
        for name, ranks in _RANKS.items():
            value = getattr(self, name)
            if value not in (0, "none") and rank not in ranks:
                supported = " and ".join(_INPUTS[number] for number in ranks)
                text = value if isinstance(value, str) else f"{value:g}"
                raise InputError(f"{name}: found {text} with inputs of rank {rank}, but it is for {supported}")
        if rank == 2 and self.shift > 1:
            raise InputError(f"shift: found {self.shift:g}, expected a fraction of the side, from 0 to 1, with images")

    def __call__(self, x: Tensor, y: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return a transformed copy of a batch `(B, channels, *grid)` and its targets.

        Args:
            y: `(B, classes)` probabilities, or `(B, targets)`; `mixup` and `cutmix` blend them linearly.
            generator: of random numbers, on the device of `x`; by default torch's own.
        """
        _check_batch(x, y, generator)
        self.check(x.dim() - 2)
        draw = Draw(x, generator)
        values = self._transform(x.to(torch.promote_types(x.dtype, torch.float32)), draw)
        if self.mixup or self.cutmix:
            values, y = self._mix(values, y, draw)
        return values.to(x.dtype), y

    def _transform(self, x: Tensor, draw: Draw) -> Tensor:
        """Transform each sample, in the order of a measurement: sample, instrument, detector."""
        if self.roll != "none":
            x = transforms.roll(x, draw.integers(2 * max(x.shape[2:]), 2), self.roll)
        if self.turn != "none":
            x = transforms.turn(x, draw.integers(len(transforms.TURNS[self.turn])), self.turn)
        if self.negate:
            x = x * (1 - 2 * expand_dims(draw.integers(2), x.dim()))
        original, axes = x, tuple(range(2, x.dim()))
        if self.shift or self.rotate or self.scale or self.shear or self.stretch:
            x = self._warp(x, draw)
        if self.broaden:
            x = transforms.broaden(x, draw.uniform(0.0, self.broaden), most=self.broaden)
        if self.gain:
            x = x * draw.factor(self.gain)[:, None, None]
        if self.baseline:
            weights = draw.uniform(-self.baseline, self.baseline, _BASELINE_TERMS)
            x = x + original.std(axes, correction=0, keepdim=True) * transforms.chebyshev(weights, x.shape[-1])
        if self.noise:
            level = expand_dims(draw.uniform(0.0, self.noise), x.dim())
            x = x + original.std(axes, correction=0, keepdim=True) * level * draw.normal(x)
        if self.erase:
            fraction = draw.uniform(*_ERASED) * (draw.uniform(0.0, 1.0) < self.erase)
            box = transforms.random_boxes(fraction, x.shape[2:], draw, _ELONGATION)
            x = torch.where(box, x.mean(axes, keepdim=True), x)
        return x

    def _warp(self, x: Tensor, draw: Draw) -> Tensor:
        limits = [self.shift * side for side in x.shape[2:]] if x.dim() == 4 else [self.shift]
        return transforms.warp(
            x,
            shift=torch.stack([draw.uniform(-limit, limit) for limit in limits], dim=1),
            angle=draw.uniform(-self.rotate, self.rotate),
            factor=draw.factor(max(self.scale, self.stretch)),
            shear=draw.uniform(-self.shear, self.shear),
            fill=self.fill,
        )

    def _mix(self, x: Tensor, y: Tensor, draw: Draw) -> tuple[Tensor, Tensor]:
        """Blend each sample with its neighbour in the batch, which training has shuffled."""
        own = x.new_ones(())  # weight of the sample itself, broadcastable to (B, 1, *grid)
        if self.mixup:
            own = expand_dims(draw.beta(self.mixup), x.dim())
        if self.cutmix:
            outside = (~transforms.random_boxes(draw.beta(self.cutmix), x.shape[2:], draw)).to(torch.float32)
            use_mixup = expand_dims(draw.uniform(0.0, 1.0), x.dim()) < 0.5
            own = torch.where(use_mixup, own, outside) if self.mixup else outside
        share = own.flatten(1).mean(1, keepdim=True).to(y.dtype)  # (B, 1)
        own = own.to(x.dtype)
        return own * x + (1 - own) * x.roll(1, 0), share * y + (1 - share) * y.roll(1, 0)


def _check_batch(x: Tensor, y: Tensor, generator: torch.Generator | None) -> None:
    if not x.is_floating_point():
        raise InputError(f"x: found {x.dtype}, expected floating-point numbers")
    if not 3 <= x.dim() <= 5:
        raise InputError(f"x: found a batch of shape {tuple(x.shape)}, expected (batch, channels, *grid)")
    if not y.is_floating_point() or y.dim() != 2 or len(y) != len(x):
        raise InputError(
            f"y: found {y.dtype} of shape {tuple(y.shape)}, "
            f"expected floating-point probabilities or targets of shape ({len(x)}, number)"
        )
    if generator is not None and generator.device.type != x.device.type:
        raise InputError(f"generator: found one on {generator.device}, expected one on {x.device} as the batch")
