"""`Scaling` of raw samples before the model, fitted on the training part and saved with the run."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from vitreous.core.errors import InputError, check_choice
from vitreous.core.settings import Settings

DERIVATIVES = {"slope": 1, "curvature": 2}
"""Scalings that differentiate spectra, and the order of the derivative."""
SCALINGS = ("none", "channel", "sample", "point", "root", *DERIVATIVES)
_CHUNK = 4096
_HALF_WINDOW = 5  # points on each side in the window of a derivative
_ROUNDING = 1e-6  # values that differ by less, relative to the largest, are equal up to float32 rounding


@dataclass(frozen=True)
class Scaling(Settings):
    """`(x - mean) / deviation`, optionally after a transformation of each sample.

    Args:
        kind: one of

            - none: no scaling.
            - channel: one mean and deviation per channel.
            - sample: mean and deviation of each sample (standard normal variate), for spectra of arbitrary height.
              A sample whose values are all equal becomes zeros.
            - point: one mean and deviation per point of the grid, for small differences as in chemometrics.
            - root: square root of each sample divided by its maximum, for counts; makes their noise uniform.
            - slope, curvature: first or second derivative of each spectrum (Savitzky-Golay, 11 points, degree 2),
              scaled by sample and then by point; removes the baseline of near-infrared spectra.
        mean: fitted means, for channel, point, slope and curvature.
        deviation: fitted standard deviations.
    """

    kind: str = "none"
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("scale", self.kind, SCALINGS)
        if len(self.mean) != len(self.deviation):
            raise InputError(f"scale: {len(self.mean)} means but {len(self.deviation)} deviations")

    def __call__(self, x: Tensor) -> Tensor:
        """`(B, C, *grid)` of any real type `-> (B, C, *grid)` float32, on the same device."""
        return self.on(x.device)(x)

    def on(self, device: torch.device) -> Callable[[Tensor], Tensor]:
        """This scaling as a function for one device; its constants are copied once, as CUDA graphs require."""
        constants = self.mean, self.deviation, _derivative_kernel(self.kind)
        return partial(self._apply, *(torch.tensor(values, device=device) for values in constants))

    def _apply(self, mean: Tensor, deviation: Tensor, kernel: Tensor, x: Tensor) -> Tensor:
        x = _transform_samples(self.kind, kernel, x.float())
        if not len(mean):
            return x
        shape = (1, -1, *[1] * (x.dim() - 2)) if self.kind == "channel" else (1, *x.shape[1:])
        return (x - mean.view(shape)) / deviation.view(shape)


def fit_scaling(kind: str, x: NDArray[Any], rows: NDArray[np.intp]) -> Scaling:
    """Fit a scaling to some rows of `x` `(n, C, *grid)`, in chunks because `x` may be larger than memory."""
    check_choice("scale", kind, SCALINGS)
    if kind in ("none", "sample", "root"):
        return Scaling(kind)
    if kind in DERIVATIVES and x.ndim != 3:
        raise InputError(f"scale: {kind!r} is for spectra, which have one axis; these samples have {x.ndim - 2}")
    extent = (0, *range(2, x.ndim)) if kind == "channel" else (0,)
    kernel = torch.tensor(_derivative_kernel(kind), dtype=torch.float64)
    count, total, squares = 0, 0.0, 0.0
    for start in range(0, len(rows), _CHUNK):
        part = np.asarray(x[rows[start : start + _CHUNK]], dtype=np.float64)
        part = _transform_samples(kind, kernel, torch.from_numpy(part)).numpy()
        count += part.size // part.sum(axis=extent).size
        total, squares = total + part.sum(axis=extent), squares + np.square(part).sum(axis=extent)
    mean = np.ravel(total / count)
    deviation = np.sqrt(np.maximum(np.ravel(squares / count) - mean**2, 0))
    floor = deviation.max() * 1e-3 or 1.0  # avoids dividing by nearly 0 at constant points
    return Scaling(kind, tuple(mean.tolist()), tuple(np.maximum(deviation, floor).tolist()))


def _transform_samples(kind: str, kernel: Tensor, x: Tensor) -> Tensor:
    """The part of a scaling that depends on each sample alone, `(B, C, *grid) -> (B, C, *grid)`."""
    extent = tuple(range(1, x.dim()))
    if kind == "root":
        x = x.clamp(min=0)
        return (x / x.amax(extent, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)).sqrt()
    if kind not in ("sample", *DERIVATIVES):
        return x
    rounding = _ROUNDING * x.abs().amax(extent, keepdim=True).clamp(max=torch.finfo(torch.float32).max)
    if kind in DERIVATIVES:
        rounding = rounding * kernel.abs().sum()
        padded = F.pad(x, (_HALF_WINDOW, _HALF_WINDOW), "replicate")
        x = F.conv1d(padded.flatten(0, 1).unsqueeze(1), kernel.view(1, 1, -1)).view_as(x)
    # Extremes are exact, so torch and onnxruntime agree on which samples are constant; their deviations differ.
    constant = x.amax(extent, keepdim=True) - x.amin(extent, keepdim=True) <= rounding
    scaled = (x - x.mean(extent, keepdim=True)) / (x.std(extent, keepdim=True) + 1e-8)
    return scaled.masked_fill(constant, 0.0)


def _derivative_kernel(kind: str) -> tuple[float, ...]:
    """Savitzky-Golay coefficients of the derivative; empty for other scalings."""
    if kind not in DERIVATIVES:
        return ()
    from scipy.signal import savgol_coeffs

    return tuple(savgol_coeffs(2 * _HALF_WINDOW + 1, 2, DERIVATIVES[kind], use="dot").tolist())
