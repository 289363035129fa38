"""Simulated absorption spectra: mixtures with overlapping bands, and what a spectrometer makes of them.

The absorbance of a mixture is the sum of its substances' molar absorptivities, each times its concentration and the
length of the path (Beer and Lambert); scatter, baseline and noise come on top of it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from vitreous.data.augment import polynomial
from vitreous.data.source import Axis, Source, Target, in_order
from vitreous.errors import InputError
from vitreous.settings import Settings
from vitreous.sim.drawn import drawn


@dataclass(frozen=True)
class Mixtures(Settings):
    """Which mixtures there are and how they are measured; every sample has substances of its own."""

    points: int = 200
    """Of a spectrum."""
    substances: int = 4
    """In each mixture."""
    bands: int = 6
    """Of each substance."""
    narrowest: float = 0.01
    """Least standard deviation of a band, as a share of the axis."""
    widest: float = 0.08
    """Largest standard deviation of a band, as a share of the axis."""
    scatter: float = 0.2
    """How much longer or shorter the path is in each sample, as a share, by scattering."""
    baseline: float = 0.2
    """Offset, slope, bend and S-shape, in standard deviations of the spectrum."""
    noise: float = 0.003
    """White noise, in standard deviations of the spectrum."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least(1, "substances", "bands")
        self._at_least(2, "points")
        self._at_least(0, "scatter", "baseline", "noise")
        if not 0 < self.narrowest <= self.widest:
            raise InputError(f"narrowest: found {self.narrowest:g}, expected from above 0 to widest = {self.widest:g}")


CLEAN = {"scatter": 0.0, "baseline": 0.0, "noise": 0.0}
"""Settings of a spectrometer without faults."""


def absorptivities(mixtures: Mixtures, count: int, device: torch.device | str = "cpu") -> Tensor:
    """Random pure spectra `(count, substances, points)`: Gaussian bands, the strongest of height 1."""
    shape = count, mixtures.substances, mixtures.bands, 1
    centre, mix, height = (torch.rand(shape, device=device) for _ in range(3))
    width = mixtures.narrowest * (mixtures.widest / mixtures.narrowest) ** mix
    axis = torch.linspace(0, 1, mixtures.points, device=device)
    bands = height * torch.exp(-0.5 * ((axis - centre) / width).square())
    total = bands.sum(2)
    return total / total.amax(-1, keepdim=True).clamp(min=1e-6)


def absorbance(concentrations: Tensor, pure: Tensor, path: float | Tensor = 1.0) -> Tensor:
    """Beer and Lambert: `A = path · Σ_k c_k ε_k`.

    Args:
        concentrations: `(B, substances)`.
        pure: absorptivities `(B or 1, substances, points)`.
        path: length, one for all or `(B, 1)`.
    """
    return path * (concentrations.unsqueeze(-1) * pure).sum(1)  # (B, points)


def measured(spectra: Tensor, mixtures: Mixtures) -> Tensor:
    """Absorbances `(B, points)` as a spectrometer gives them: scattered, on a baseline, with noise."""
    batch, device = len(spectra), spectra.device
    deviation = spectra.std(1, correction=0, keepdim=True)
    path = 1 + mixtures.scatter * (2 * torch.rand(batch, 1, device=device) - 1)
    weights = mixtures.baseline * (2 * torch.rand(batch, 4, device=device) - 1)
    base = polynomial(weights, spectra.shape[1])[:, 0]
    return path * spectra + deviation * (base + mixtures.noise * torch.randn_like(spectra))


def mixed(mixtures: Mixtures, count: int, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Measured spectra `(count, 1, points)` and the concentrations in them `(count, substances)`, of sum 1."""
    pure = absorptivities(mixtures, count, device)
    shares = torch.empty(count, mixtures.substances, device=device).exponential_()
    shares = shares / shares.sum(1, keepdim=True)
    return measured(absorbance(shares, pure), mixtures).unsqueeze(1), shares


def spectra_source(mixtures: Mixtures, count: int = 1000, seed: int = 0) -> Source:
    """New spectra at every step of a training, and `count` fixed ones to set the scales and to validate on."""
    x, shares = drawn(lambda some: mixed(mixtures, some), count, seed)
    targets = tuple(Target(f"substance {k + 1}") for k in range(mixtures.substances))

    def fresh(count: int, device: torch.device) -> tuple[Tensor, Tensor]:
        return mixed(mixtures, count, device)

    return Source(
        "simulated spectra", x, shares, (Axis("wavelength"),), ("absorbance",), (), targets,
        in_order(count // 2, count - count // 2), fresh=fresh,
    )  # fmt: skip
