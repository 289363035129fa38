"""`Augment`: random transformations of images and spectra, on the batch's device, each sample with its own draw (S1.7).

Nothing here asks the device for a value, so a GPU never waits and `torch.compile` sees one graph.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.data.symmetry import ROLLS, TURNS, roll, turn
from vitreous.errors import InputError, check_choice
from vitreous.settings import Settings

FILLS = {"edge": "border", "mirror": "reflection", "zero": "zeros"}
"""What lies beyond the border of a grid that is moved, and `grid_sample`'s word for it."""

_RANKS = {  # axes of the inputs that a setting is made for; those not named here work on any
    "shift": (1, 2),
    "rotate": (2,),
    "scale": (2,),
    "shear": (2,),
    "stretch": (1,),
    "broaden": (1,),
    "gain": (1,),
    "baseline": (1,),
    "roll": (2,),
    "turn": (2,),
}
_WORDS = {"fill": FILLS, "roll": ("none", *ROLLS), "turn": ("none", *TURNS)}
_INPUTS = {1: "spectra (1 axis)", 2: "images (2 axes)"}
_MOST = {"rotate": 180.0, "erase": 1.0}
_ERASED = (0.02, 1 / 3)  # fractions of the grid, as in torchvision
_ELONGATION = 0.6  # sides of an erased box differ by up to exp(2 * 0.6) = 3.3, as in Zhong et al. 2020
_BASELINE_TERMS = 4  # offset, slope, bend and S-shape


@dataclass(frozen=True)
class Augment(Settings):
    """Strengths of the transformations, all off by default; a batch `(B, channels, *grid)` tells images from spectra.

    A strength is the most that is done: each sample draws its own amount, evenly from nothing to that, in both
    directions where there are two. Ranges in brackets are those worth trying.

    >>> augment = Augment(shift=0.1, rotate=10, mixup=0.2)
    >>> x, y = augment(torch.rand(4, 1, 28, 28), torch.eye(10)[:4])
    """

    shift: float = 0.0
    """Images: fraction of each side (0.05 to 0.15). Spectra: samples, whole or not (0.5 to 5)."""
    rotate: float = 0.0
    """Images: degrees about the centre (5 to 20; 180 where there is no up and down)."""
    scale: float = 0.0
    """Images: larger or smaller by a factor of up to 1 + this (0.05 to 0.2)."""
    shear: float = 0.0
    """Images: samples that a row slides over the next one (0.05 to 0.2)."""
    stretch: float = 0.0
    """Spectra: longer or shorter, about the centre, by a factor of up to 1 + this (0.001 to 0.05)."""
    broaden: float = 0.0
    """Spectra: standard deviation, in samples, of a Gaussian they are convolved with (0.5 to 5)."""
    gain: float = 0.0
    """Spectra: stronger or weaker by a factor of up to 1 + this (0.02 to 0.3)."""
    baseline: float = 0.0
    """Spectra: offset, slope, bend and S-shape added, each in standard deviations of the sample (0.02 to 0.3)."""
    noise: float = 0.0
    """White Gaussian noise, in standard deviations of the sample's channel (0.01 to 0.2)."""
    erase: float = 0.0
    """Probability that a box of 2 to 33 % of the grid is replaced by the channel's mean (0.1 to 0.5)."""
    mixup: float = 0.0
    """Blend two samples and their targets with weights from Beta(this, this) (0.1 to 1; Zhang et al. 2018)."""
    cutmix: float = 0.0
    """Paste a box of another sample, and blend the targets by its share, from Beta(this, this) (0.2 to 1; Yun et al.
    2019). With `mixup` as well, each sample gets one or the other."""
    fill: str = "edge"
    """What moves in from beyond the border of a shifted, turned, scaled or stretched grid: edge | mirror | zero."""
    roll: str = "none"
    """Images without borders, moved over their edges as far as may be: none | periodic | skewed | antiperiodic."""
    turn: str = "none"
    """Images, exactly: none | half: by half turns | square: by quarter turns and mirror images."""
    negate: bool = False
    """Turn the sign of every other sample, on average, where that means the same."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, table in _WORDS.items():
            check_choice(name, getattr(self, name), table)
        for name, value in self._strengths().items():
            most = _MOST.get(name, math.inf)
            if not 0 <= value <= most:
                wanted = "of at least 0" if most == math.inf else f"from 0 to {most:g}"
                raise InputError(f"{name}: found {value!r}, expected a number {wanted}")

    def check(self, rank: int) -> None:
        """Raise `InputError` if a setting is not made for inputs with `rank` axes after the channels."""
        for name, ranks in _RANKS.items():
            value = getattr(self, name)
            if value not in (0, "none") and rank not in ranks:
                made = " and ".join(_INPUTS[r] for r in ranks)
                found = value if isinstance(value, str) else f"{value:g}"
                raise InputError(f"{name}: found {found} with inputs of rank {rank}, but it is made for {made}")
        if rank == 2 and self.shift > 1:
            raise InputError(f"shift: found {self.shift:g}, expected a fraction of the side, from 0 to 1, with images")

    def __call__(self, x: Tensor, y: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """The batch transformed, and its targets; what was given is left alone.

        Args:
            x: `(B, channels, *grid)`.
            y: `(B, classes)` probabilities, or `(B, targets)`; `mixup` and `cutmix` blend them linearly.
            generator: where the random numbers come from, on the device of `x`; torch's own if not given.
        """
        _check_batch(x, y, generator)
        self.check(x.dim() - 2)
        draw = _Draw(x, generator)
        values = self._transform(x.to(torch.promote_types(x.dtype, torch.float32)), draw)
        if self.mixup or self.cutmix:
            values, y = self._mix(values, y, draw)
        return values.to(x.dtype), y

    def _transform(self, x: Tensor, draw: "_Draw") -> Tensor:
        """What is done to each sample by itself, in the order of a measurement: sample, instrument, detector."""
        x = self._same(x, draw)
        given, axes = x, tuple(range(2, x.dim()))
        if self.shift or self.rotate or self.scale or self.shear or self.stretch:
            x = self._warp(x, draw)
        if self.broaden:
            x = broaden(x, draw.uniform(0.0, self.broaden), most=self.broaden)
        if self.gain:
            x = x * draw.factor(self.gain)[:, None, None]
        if self.baseline:
            weights = draw.uniform(-self.baseline, self.baseline, _BASELINE_TERMS)
            x = x + given.std(axes, correction=0, keepdim=True) * polynomial(weights, x.shape[-1])
        if self.noise:
            level = _column(draw.uniform(0.0, self.noise), x.dim())
            x = x + given.std(axes, correction=0, keepdim=True) * level * draw.normal(x)
        if self.erase:
            fraction = draw.uniform(*_ERASED) * (draw.uniform(0.0, 1.0) < self.erase)
            x = torch.where(_boxes(fraction, x.shape[2:], draw, _ELONGATION), x.mean(axes, keepdim=True), x)
        return x

    def _same(self, x: Tensor, draw: "_Draw") -> Tensor:
        """What a symmetry makes of each sample."""
        if self.roll != "none":
            x = roll(x, draw.whole(2 * max(x.shape[2:]), 2), self.roll)
        if self.turn != "none":
            x = turn(x, draw.whole(len(TURNS[self.turn])), self.turn)
        if self.negate:
            x = x * (1 - 2 * _column(draw.whole(2), x.dim()))
        return x

    def _warp(self, x: Tensor, draw: "_Draw") -> Tensor:
        limits = [self.shift * side for side in x.shape[2:]] if x.dim() == 4 else [self.shift]
        return warp(
            x,
            shift=torch.stack([draw.uniform(-limit, limit) for limit in limits], dim=1),
            angle=draw.uniform(-self.rotate, self.rotate),
            factor=draw.factor(max(self.scale, self.stretch)),
            shear=draw.uniform(-self.shear, self.shear),
            fill=self.fill,
        )

    def _mix(self, x: Tensor, y: Tensor, draw: "_Draw") -> tuple[Tensor, Tensor]:
        """Blend each sample with its neighbour in the batch, which training shuffles anyway."""
        own = x.new_ones(())  # the share of the sample itself, broadcastable to (B, 1, *grid)
        if self.mixup:
            own = _column(draw.beta(self.mixup), x.dim())
        if self.cutmix:
            outside = (~_boxes(draw.beta(self.cutmix), x.shape[2:], draw)).to(torch.float32)
            chosen = _column(draw.uniform(0.0, 1.0), x.dim()) < 0.5
            own = torch.where(chosen, own, outside) if self.mixup else outside
        share = own.flatten(1).mean(1, keepdim=True).to(y.dtype)  # (B, 1)
        own = own.to(x.dtype)
        return own * x + (1 - own) * x.roll(1, 0), share * y + (1 - share) * y.roll(1, 0)

    def _strengths(self) -> dict[str, float]:
        return {field.name: getattr(self, field.name) for field in fields(self) if field.type is float}


def warp(x: Tensor, shift: Tensor, angle: Tensor, factor: Tensor, shear: Tensor, fill: str = "edge") -> Tensor:
    """Enlarge, shear and turn each grid about its centre, then shift it; linear interpolation, the same shape.

    Args:
        x: images `(B, C, rows, columns)` or spectra `(B, C, samples)`.
        shift: samples along each axis, `(B, axes)`.
        angle: degrees counter-clockwise, `(B,)`.
        factor: above 1 enlarges, `(B,)`.
        shear: samples that a row slides over the one above, `(B,)`.
        fill: one of `FILLS`.
    """
    image = x if x.dim() == 4 else x.unsqueeze(2)  # a spectrum is an image of one row
    rows, columns = image.shape[2:]
    # From a place in the result, counted in samples from the centre, back to where its value comes from.
    u = _centred(columns, x)[None, None, :] - shift[:, -1, None, None]
    v = _centred(rows, x)[None, :, None] - (shift[:, 0, None, None] if x.dim() == 4 else 0.0)
    turn, enlarge, slide = torch.deg2rad(angle)[:, None, None], factor[:, None, None], shear[:, None, None]
    across = u * turn.cos() - v * turn.sin()
    down = u * turn.sin() + v * turn.cos()  # (B, rows, columns)
    place = torch.stack([(across - slide * down) / enlarge * (2 / columns), down / enlarge * (2 / rows)], dim=-1)
    moved = F.grid_sample(image, place.to(x.dtype), padding_mode=FILLS[fill], align_corners=False)
    return moved.reshape(x.shape)


def broaden(x: Tensor, width: Tensor, most: float) -> Tensor:
    """Convolve spectra `(B, C, samples)` with Gaussians of standard deviations `width` `(B,)`, at most `most` samples.

    Beyond its ends a spectrum goes on with its last value.
    """
    batch, channels, samples = x.shape
    reach = max(1, math.ceil(4 * most))
    steps = torch.arange(-reach, reach + 1, device=x.device)
    kernel = (-0.5 * (steps / width.clamp(min=1e-3)[:, None]).square()).softmax(dim=1).to(x.dtype)  # (B, taps)
    kernel = kernel[:, None].expand(batch, channels, -1).reshape(batch * channels, 1, -1)
    padded = F.pad(x, (reach, reach), mode="replicate").reshape(1, batch * channels, -1)
    return F.conv1d(padded, kernel, groups=batch * channels).reshape(batch, channels, samples)


def polynomial(weights: Tensor, samples: int) -> Tensor:
    """Sums of Chebyshev polynomials over the axis, each between -1 and 1: `(B, terms) -> (B, 1, samples)`."""
    angle = torch.linspace(-1, 1, samples, device=weights.device).acos()
    order = torch.arange(weights.shape[1], device=weights.device)
    terms = (order[:, None] * angle).cos()  # T_k(cos a) = cos(k a), (terms, samples)
    return (weights[:, :, None] * terms).sum(1, keepdim=True)


class _Draw:
    """Random numbers for each sample of a batch."""

    def __init__(self, batch: Tensor, generator: torch.Generator | None) -> None:
        self.size, self.device, self.generator = batch.shape[0], batch.device, generator

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        """`(B, *shape)`"""
        values = torch.empty(self.size, *shape, device=self.device, dtype=torch.float32)
        return values.uniform_(low, high, generator=self.generator)

    def whole(self, count: int, *shape: int) -> Tensor:
        """`(B, *shape)`, from 0 to below `count`."""
        return (self.uniform(0.0, count, *shape)).long().clamp(max=count - 1)

    def normal(self, like: Tensor) -> Tensor:
        return torch.empty_like(like).normal_(generator=self.generator)

    def factor(self, strength: float) -> Tensor:
        """`(B,)`, from 1 / (1 + strength) to 1 + strength, as often below 1 as above."""
        most = math.log1p(strength)
        return self.uniform(-most, most).exp()

    def beta(self, alpha: float) -> Tensor:
        """`(B,)`, from Beta(alpha, alpha), by Bailey's formula for Student's t (Devroye 1996, in one line of code)."""
        cos = (2 * math.pi * self.uniform(0.0, 1.0)).cos()
        squared = torch.expm1(-self.uniform(0.0, 1.0).log() / alpha) * cos.square()  # t² / (2 alpha)
        return 0.5 + torch.copysign(0.5 / (1 + 1 / squared).sqrt(), cos)


def _boxes(fraction: Tensor, grid: Sequence[int], draw: _Draw, elongation: float = 0.0) -> Tensor:
    """True inside a box somewhere in the grid that fills `fraction` `(B,)` of it: `(B, 1, *grid)`."""
    rank = len(grid)
    logs = draw.uniform(-elongation, elongation, rank)
    sides = fraction[:, None] ** (1 / rank) * (logs - logs.mean(1, keepdim=True)).exp()  # (B, rank), of each side
    inside = torch.ones((), dtype=torch.bool, device=fraction.device)
    for axis, samples in enumerate(grid):
        side = (samples * sides[:, axis, None]).clamp(max=samples)  # (B, 1)
        start = draw.uniform(0.0, 1.0, 1) * (samples - side)
        middle = torch.arange(samples, device=fraction.device) + 0.5
        within = (start <= middle) & (middle < start + side)  # (B, samples)
        inside = inside & within.reshape(-1, 1, *(samples if a == axis else 1 for a in range(rank)))
    return inside


def _centred(samples: int, like: Tensor) -> Tensor:
    return torch.arange(samples, device=like.device) - (samples - 1) / 2


def _column(values: Tensor, dim: int) -> Tensor:
    """`(B,) -> (B, 1, ...)` with `dim` dimensions."""
    return values.reshape(-1, *(1 for _ in range(dim - 1)))


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
