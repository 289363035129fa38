"""Distances in a flat universe of matter and a cosmological constant: H₀ = 70 km/s/Mpc, Ω_m = 0.3."""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from vitreous.core.errors import InputError

HUBBLE = 70.0  # km/s/Mpc
MATTER = 0.3
_LIGHT = 299_792.458  # km/s
_NODES = 24  # of the quadrature; exact to 10⁻⁹ up to a redshift of 10


def luminosity_distance(redshift: Tensor) -> Tensor:
    """Luminosity distance in Mpc, for redshifts of any shape: `(1 + z) c/H₀ ∫₀ᶻ dz' / √(Ω_m (1 + z')³ + 1 − Ω_m)`."""
    nodes, weights = _quadrature(redshift.device, redshift.dtype)
    z = redshift.unsqueeze(-1) * nodes
    integral = redshift * (weights / (MATTER * (1 + z) ** 3 + 1 - MATTER).sqrt()).sum(-1)
    return (1 + redshift) * _LIGHT / HUBBLE * integral


def distance_modulus(redshift: Tensor) -> Tensor:
    """Difference of apparent and absolute magnitude."""
    return 5 * luminosity_distance(redshift).log10() + 25


def check_redshift(name: str, redshift: float) -> None:
    """Raise `InputError` unless the redshift is above 0."""
    if not redshift > 0:
        raise InputError(f"{name}: found {redshift:g}, expected a redshift above 0")


@lru_cache(maxsize=16)
def _quadrature(device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Nodes and weights of Gauss-Legendre quadrature from 0 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return torch.tensor((nodes + 1) / 2, device=device, dtype=dtype), torch.tensor(
        weights / 2, device=device, dtype=dtype
    )
