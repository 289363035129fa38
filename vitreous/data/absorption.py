"""Simulated absorption spectra of mixtures with overlapping bands, as measured by a spectrometer.

By the Beer-Lambert law the absorbance of a mixture is the sum over its substances of absorptivity × concentration ×
path length. Scatter, baseline and noise of the spectrometer are added.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.core.settings import Settings
from vitreous.data.simulated import fixed_samples
from vitreous.data.source import Axis, Source, Target, consecutive_parts
from vitreous.data.transforms import chebyshev


@dataclass(frozen=True)
class Mixtures(Settings):
    """Random mixtures and the spectrometer that measures them; every sample has its own substances."""

    points: int = 200
    """Points of a spectrum."""
    substances: int = 4
    """Substances in each mixture."""
    bands: int = 6
    """Bands of each substance."""
    narrowest: float = 0.01
    """Smallest standard deviation of a band, as a fraction of the axis."""
    widest: float = 0.08
    """Largest standard deviation of a band, as a fraction of the axis."""
    scatter: float = 0.2
    """Relative variation of the path length by scattering."""
    baseline: float = 0.2
    """Coefficients of a cubic baseline, in standard deviations of the spectrum."""
    noise: float = 0.003
    """White noise, in standard deviations of the spectrum."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least(1, "substances", "bands")
        self._at_least(2, "points")
        self._at_least(0, "scatter", "baseline", "noise")
        if not 0 < self.narrowest <= self.widest:
            raise InputError(f"narrowest: found {self.narrowest:g}, expected from above 0 to widest = {self.widest:g}")


IDEAL_SPECTROMETER = {"scatter": 0.0, "baseline": 0.0, "noise": 0.0}
"""Settings of `Mixtures` without scatter, baseline and noise."""


def absorptivities(mixtures: Mixtures, count: int, device: torch.device | str = "cpu") -> Tensor:
    """Random spectra of pure substances `(count, substances, points)`: Gaussian bands, scaled to a maximum of 1."""
    shape = count, mixtures.substances, mixtures.bands, 1
    centre, mix, height = (torch.rand(shape, device=device) for _ in range(3))
    width = mixtures.narrowest * (mixtures.widest / mixtures.narrowest) ** mix
    axis = torch.linspace(0, 1, mixtures.points, device=device)
    bands = height * torch.exp(-0.5 * ((axis - centre) / width).square())
    total = bands.sum(2)
    return total / total.amax(-1, keepdim=True).clamp(min=1e-6)


def absorbance(concentrations: Tensor, pure: Tensor, path: float | Tensor = 1.0) -> Tensor:
    """Beer-Lambert law: `A = path · Σ_k c_k ε_k`.

    Args:
        concentrations: `(B, substances)`.
        pure: absorptivities `(B or 1, substances, points)`.
        path: path length, a number or `(B, 1)`.
    """
    return path * (concentrations.unsqueeze(-1) * pure).sum(1)  # (B, points)


def measure(spectra: Tensor, mixtures: Mixtures) -> Tensor:
    """Add scatter, baseline and noise to absorbances `(B, points)`."""
    batch, device = len(spectra), spectra.device
    deviation = spectra.std(1, correction=0, keepdim=True)
    path = 1 + mixtures.scatter * (2 * torch.rand(batch, 1, device=device) - 1)
    weights = mixtures.baseline * (2 * torch.rand(batch, 4, device=device) - 1)
    base = chebyshev(weights, spectra.shape[1])[:, 0]
    return path * spectra + deviation * (base + mixtures.noise * torch.randn_like(spectra))


def simulate_spectra(mixtures: Mixtures, count: int, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Measured spectra `(count, 1, points)` and their concentrations `(count, substances)`, which sum to 1."""
    pure = absorptivities(mixtures, count, device)
    shares = torch.empty(count, mixtures.substances, device=device).exponential_()
    shares = shares / shares.sum(1, keepdim=True)
    return measure(absorbance(shares, pure), mixtures).unsqueeze(1), shares


def absorption_source(mixtures: Mixtures, count: int = 1000, seed: int = 0) -> Source:
    """A source that simulates new spectra at every training step, with `count` fixed ones to scale and validate."""
    x, shares = fixed_samples(lambda number: simulate_spectra(mixtures, number), count, seed)
    targets = tuple(Target(f"substance {k + 1}") for k in range(mixtures.substances))
    return Source(
        "simulated spectra", x, shares, (Axis("wavelength"),), ("absorbance",), (), targets,
        consecutive_parts(count // 2, count - count // 2),
        fresh=lambda number, device: simulate_spectra(mixtures, number, device),
    )  # fmt: skip
