"""Fluxes of supernovae of several kinds, at rest and at a redshift (S2.11).

The bolometric light curve follows Villar et al. 2019: a logistic rise, a slowly falling plateau and an exponential
decline. The spectrum is a cooling black body with the ultraviolet absorbed by metals, so that the redshift changes
colours, brightness and time scale. The universe is flat, of matter and a cosmological constant: H₀ = 70 km/s/Mpc,
Ω_m = 0.3.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

HUBBLE = 70.0  # km/s/Mpc
MATTER = 0.3
BANDS = {"g": 480.0, "r": 620.0, "i": 754.0, "z": 869.0}
"""Central wavelengths in nm; bands are treated as narrow."""
_ZERO_POINT = 2.518021002e-8  # W/m² at bolometric magnitude 0
_MICROJANSKYS = 1e32  # in 1 W/m²/Hz
_SECOND_RADIATION_CONSTANT = 0.014387768775  # h c / k, in m K
_LIGHT = 299_792_458.0  # m/s
_ABSORPTION_POWER = 4.0  # power law of the absorption below the cut
_NODES = 24  # of the quadrature of distances; exact to 10⁻⁹ up to a redshift of 10


class Kind(NamedTuple):
    """Rest-frame properties of a kind of supernova: typical values and their scatter."""

    name: str
    magnitude: float  # absolute, bolometric, at maximum
    scatter: float  # of the magnitude, apart from the effect of pace
    brighter: float  # magnitudes gained by a supernova that is slower by a factor e
    pace: float  # relative scatter that all times share
    rise: float  # days, as the next two; each time has a scatter of 0.1 of its own
    plateau: float
    fall: float
    slope: float  # fraction of the light that the plateau loses per day
    hot: float  # temperature in K before maximum
    cool: float  # and long after it
    cooling: float  # time scale in days
    warmth: float  # relative scatter of the temperatures
    cut: float  # wavelength in nm below which metals absorb light


KINDS = (
    Kind("Ia", -19.2, 0.15, 1.5, 0.12, 3.5, 8.0, 25.0, 0.005, 11500.0, 5500.0, 15.0, 0.05, 390.0),
    Kind("Ib/c", -17.6, 0.7, 0.5, 0.25, 4.0, 7.0, 20.0, 0.005, 8500.0, 5000.0, 14.0, 0.1, 370.0),
    Kind("II-P", -16.9, 0.8, 0.0, 0.2, 2.0, 85.0, 14.0, 0.004, 13000.0, 5500.0, 18.0, 0.1, 330.0),
    Kind("superluminous", -21.5, 0.6, 0.0, 0.35, 11.0, 25.0, 45.0, 0.004, 14000.0, 7000.0, 40.0, 0.1, 290.0),
)
CLASSES = tuple(kind.name for kind in KINDS)
_TIMES = ("rise", "plateau", "fall", "cooling")
_TIME_SCATTER = 0.1  # relative, of each time on its own


class Supernovae(NamedTuple):
    """Parameters of single supernovae, each `(B,)`; see `Kind`."""

    kind: Tensor  # class number
    magnitude: Tensor
    rise: Tensor
    plateau: Tensor
    fall: Tensor
    cooling: Tensor
    slope: Tensor
    hot: Tensor
    cool: Tensor
    cut: Tensor
    dust: Tensor  # extinction by the host galaxy at 550 nm, in magnitudes


def random_supernovae(count: int, dust: float = 0.15, device: torch.device | str = "cpu") -> Supernovae:
    """Random supernovae of each kind in turn; `dust` is the mean of the exponentially distributed extinction."""
    kind = torch.arange(count, device=device) % len(KINDS)

    def typical(name: str) -> Tensor:
        return torch.tensor([getattr(each, name) for each in KINDS], device=device)[kind]

    def normal() -> Tensor:
        return torch.randn(count, device=device)

    pace = typical("pace") * normal()
    times = {name: typical(name) * torch.exp(pace + _TIME_SCATTER * normal()) for name in _TIMES}
    hot = typical("hot") * torch.exp(typical("warmth") * normal())
    return Supernovae(
        kind=kind,
        magnitude=typical("magnitude") + typical("scatter") * normal() - typical("brighter") * pace,
        slope=typical("slope") * torch.exp(-pace),
        hot=hot,
        cool=typical("cool") * torch.exp(typical("warmth") / 2 * normal()),
        cut=typical("cut"),
        dust=dust * torch.empty(count, device=device).exponential_(),
        **times,
    )


def luminosity_distance(redshift: Tensor) -> Tensor:
    """Luminosity distance in Mpc, for redshifts of any shape: `(1 + z) c/H₀ ∫₀ᶻ dz' / √(Ω_m (1 + z')³ + 1 − Ω_m)`."""
    nodes, weights = _quadrature(redshift.device, redshift.dtype)
    z = redshift.unsqueeze(-1) * nodes
    integral: Tensor = redshift * (weights / (MATTER * (1 + z) ** 3 + 1 - MATTER).sqrt()).sum(-1)
    return (1 + redshift) * (_LIGHT / 1000) / HUBBLE * integral


def distance_modulus(redshift: Tensor) -> Tensor:
    """Difference of apparent and absolute magnitude."""
    return 5 * luminosity_distance(redshift).log10() + 25


@lru_cache(maxsize=16)
def _quadrature(device: torch.device, dtype: torch.dtype) -> Tensor:
    """Nodes and weights of Gauss-Legendre quadrature from 0 to 1, `(2, nodes)`."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return torch.tensor(np.stack([(nodes + 1) / 2, weights / 2]), device=device, dtype=dtype)


def bolometric_light(s: Supernovae, days: Tensor) -> Tensor:
    """Bolometric light relative to `magnitude`, at rest-frame `days` `(..., B, n)` after the rise."""
    rise, plateau, fall, slope = (part.unsqueeze(-1) for part in (s.rise, s.plateau, s.fall, s.slope))
    level = 1 - slope * torch.minimum(days, plateau)
    end = torch.exp(-(days - plateau).clamp(min=0) / fall)
    return torch.sigmoid(days / rise) * level * end


def temperature(s: Supernovae, days: Tensor) -> Tensor:
    """Temperature in K at rest-frame `days`: constant during the rise, then falling exponentially."""
    hot, cool, cooling = (part.unsqueeze(-1) for part in (s.hot, s.cool, s.cooling))
    return cool + (hot - cool) * torch.exp(-days.clamp(min=0) / cooling)


def black_body(wavelength: Tensor, kelvin: Tensor) -> Tensor:
    """Normalised spectrum of a black body per frequency, in 1/Hz, at a wavelength in m: `π B_ν / σ T⁴`."""
    x = _SECOND_RADIATION_CONSTANT / (wavelength * kelvin)
    return 15 / math.pi**4 * (_SECOND_RADIATION_CONSTANT / _LIGHT / kelvin) * x**3 / torch.expm1(x)


def flux(s: Supernovae, redshift: Tensor, days: Tensor, wavelength: Tensor) -> Tensor:
    """Observed flux in μJy: `(1 + z) L_ν / 4π d_L²`, with L_ν at the wavelength and time in the rest frame.

    For B supernovae at redshifts `(..., B)`, observed `days` after the rise, at a `wavelength` in nm, both `(B, n)`.
    """
    shift = (1 + redshift).unsqueeze(-1)  # (..., B, 1)
    rest, emitted = days / shift, wavelength / shift
    absorption = (emitted / s.cut.unsqueeze(-1)).clamp(max=1) ** _ABSORPTION_POWER
    extinction = s.dust.unsqueeze(-1) * (emitted / 550) ** -1.3
    magnitude = s.magnitude.unsqueeze(-1) + distance_modulus(redshift).unsqueeze(-1) + extinction
    bolometric = _ZERO_POINT * _MICROJANSKYS * 10 ** (-0.4 * magnitude) * bolometric_light(s, rest)
    return bolometric * shift * black_body(1e-9 * emitted, temperature(s, rest)) * absorption
