"""How raw samples are scaled before the model sees them; fitted on the training part and kept in the run."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from vitreous.errors import InputError, check_choice

DERIVATIVES = {"slope": 1, "curvature": 2}
"""Of spectra, and their orders."""
SCALINGS = ("none", "channel", "sample", "point", "root", *DERIVATIVES)
_CHUNK = 4096
_AROUND = 5  # points to each side that a derivative is taken from


@dataclass(frozen=True)
class Scaling:
    """`(x - mean) / deviation`, over one of several extents, after a change of each sample by itself where it says so.

    none: as it is. channel: one mean and deviation a channel. sample: each sample by its own (standard normal
    variate, for spectra whose overall height means nothing). point: one for each point of the grid (for spectra
    of which small differences matter, as in chemometrics). root: the square root of each sample over its maximum, as
    counts want it, whose noise is then the same everywhere. slope, curvature: the first or second derivative of each
    spectrum (Savitzky and Golay, 11 points, second degree), scaled as by sample and then as by point: what lies under
    the bands of near-infrared spectra is then gone.
    """

    kind: str = "none"
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_choice("scale", self.kind, SCALINGS)
        if len(self.mean) != len(self.deviation):
            raise InputError(f"scale: {len(self.mean)} means but {len(self.deviation)} deviations")

    def __call__(self, x: Tensor) -> Tensor:
        """`(B, C, *grid)` of any real type `-> (B, C, *grid)` float32, on its device."""
        return self.on(x.device)(x)

    def on(self, device: torch.device) -> Callable[[Tensor], Tensor]:
        """The same for samples on one device, where its numbers then lie: a step that is recorded copies none."""
        numbers = self.mean, self.deviation, _kernel(self.kind)
        return partial(self._scaled, *(torch.tensor(each, device=device) for each in numbers))

    def _scaled(self, mean: Tensor, deviation: Tensor, kernel: Tensor, x: Tensor) -> Tensor:
        x = _alone(self.kind, kernel, x.float())
        if not len(mean):
            return x
        shape = (1, -1, *[1] * (x.dim() - 2)) if self.kind == "channel" else (1, *x.shape[1:])
        return (x - mean.view(shape)) / deviation.view(shape)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Scaling":
        """The inverse of `to_dict`."""
        return cls(values["kind"], tuple(values["mean"]), tuple(values["deviation"]))


def fit_scaling(kind: str, x: NDArray[Any], rows: NDArray[np.intp]) -> Scaling:
    """The scaling of the given rows of `x` `(n, C, *grid)`, read in chunks so that `x` may exceed memory."""
    check_choice("scale", kind, SCALINGS)
    if kind in ("none", "sample", "root"):
        return Scaling(kind)
    if kind in DERIVATIVES and x.ndim != 3:
        raise InputError(f"scale: {kind!r} is for spectra, which have one axis; these samples have {x.ndim - 2}")
    extent = (0, *range(2, x.ndim)) if kind == "channel" else (0,)
    count, total, squares = 0, 0.0, 0.0
    for start in range(0, len(rows), _CHUNK):
        part = np.asarray(x[rows[start : start + _CHUNK]], dtype=np.float64)
        part = _alone(kind, torch.tensor(_kernel(kind), dtype=torch.float64), torch.from_numpy(part)).numpy()
        count += part.size // part.sum(axis=extent).size
        total, squares = total + part.sum(axis=extent), squares + np.square(part).sum(axis=extent)
    mean = np.ravel(total / count)
    deviation = np.sqrt(np.maximum(np.ravel(squares / count) - mean**2, 0))
    floor = deviation.max() * 1e-3 or 1.0  # a point that never changes must not be blown up
    return Scaling(kind, tuple(mean.tolist()), tuple(np.maximum(deviation, floor).tolist()))


def _alone(kind: str, kernel: Tensor, x: Tensor) -> Tensor:
    """Samples `(B, C, *grid)`, each changed by itself as a kind of scaling has it."""
    if kind == "root":
        x = x.clamp(min=0)
        return (x / x.amax(tuple(range(1, x.dim())), keepdim=True).clamp(min=1e-12)).sqrt()
    if kind in DERIVATIVES:
        wide = F.pad(x, (_AROUND, _AROUND), "replicate")
        x = F.conv1d(wide.flatten(0, 1).unsqueeze(1), kernel.view(1, 1, -1)).view_as(x)
    if kind in ("sample", *DERIVATIVES):
        extent = tuple(range(1, x.dim()))
        return (x - x.mean(extent, keepdim=True)) / (x.std(extent, keepdim=True) + 1e-8)
    return x


def _kernel(kind: str) -> tuple[float, ...]:
    """What gives the derivative of the parabola that fits the points around (least squares), as a dot product."""
    if kind not in DERIVATIVES:
        return ()
    from scipy.signal import savgol_coeffs

    return tuple(savgol_coeffs(2 * _AROUND + 1, 2, DERIVATIVES[kind], use="dot").tolist())
