"""Supernovae of several kinds as they would shine beside us and as they look from afar: time dilated, reddened, faint.

The bolometric light follows Villar et al. 2019: a logistic rise, a slowly falling plateau and an exponential end. It is
radiated as a black body that cools, of which metals take the ultraviolet, so that a redshift changes colours as it does
brightness and pace.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from vitreous.sim.cosmology import distance_modulus

BANDS = {"g": 480.0, "r": 620.0, "i": 754.0, "z": 869.0}
"""Their middle wavelengths in nm; a band is taken to be narrow."""
_ZERO = 2.518021002e-8  # W/m², of something of bolometric magnitude 0
_PER_MICROJANSKY = 1e32  # W/m²/Hz
_HEAT = 0.014387768775  # h c / k, in m K
_LIGHT = 299_792_458.0  # m/s
_BLANKET = 4.0  # power of the wavelength with which light falls below the cut


@dataclass(frozen=True)
class Kind:
    """What supernovae of a kind are like at rest: middles, and how much single ones differ.

    Args:
        name: of the class.
        magnitude, scatter: bolometric, absolute, at the top of the rise; of all that is not said by the pace.
        brighter: magnitudes by which one that is slower by a factor e is brighter.
        rise, plateau, fall: days; each differs by a share of 0.1, and all together by the share `pace`.
        slope: share of the light that the plateau loses in a day.
        hot, cool: temperatures in K before and long after the top; they differ by the share `warmth`.
        cooling: days.
        cut: wavelength in nm below which metals take light away.
    """

    name: str
    magnitude: float
    scatter: float
    brighter: float
    pace: float
    rise: float
    plateau: float
    fall: float
    slope: float
    hot: float
    cool: float
    cooling: float
    warmth: float
    cut: float


KINDS = (
    Kind("Ia", -19.2, 0.15, 1.5, 0.12, 3.5, 8.0, 25.0, 0.005, 11500.0, 5500.0, 15.0, 0.05, 390.0),
    Kind("Ib/c", -17.6, 0.7, 0.5, 0.25, 4.0, 7.0, 20.0, 0.005, 8500.0, 5000.0, 14.0, 0.1, 370.0),
    Kind("II-P", -16.9, 0.8, 0.0, 0.2, 2.0, 85.0, 14.0, 0.004, 13000.0, 5500.0, 18.0, 0.1, 330.0),
    Kind("superluminous", -21.5, 0.6, 0.0, 0.35, 11.0, 25.0, 45.0, 0.004, 14000.0, 7000.0, 40.0, 0.1, 290.0),
)
CLASSES = tuple(kind.name for kind in KINDS)
_TIMES = ("rise", "plateau", "fall", "cooling")
_OWN = 0.1  # share by which each time of a supernova differs beside the pace of all


class Supernovae(NamedTuple):
    """Single ones at rest, each entry `(B,)`; see `Kind`."""

    kind: Tensor
    """Number of the class."""
    magnitude: Tensor
    rise: Tensor
    plateau: Tensor
    fall: Tensor
    cooling: Tensor
    slope: Tensor
    hot: Tensor
    cool: Tensor
    cut: Tensor
    dust: Tensor
    """Extinction in the supernova's own galaxy at 550 nm, magnitudes."""


def random_supernovae(count: int, dust: float = 0.15, device: torch.device | str = "cpu") -> Supernovae:
    """As many of each kind, in turn; `dust` is the mean extinction in magnitudes, exponentially distributed."""
    kind = torch.arange(count, device=device) % len(KINDS)

    def middle(name: str) -> Tensor:
        return torch.tensor([getattr(each, name) for each in KINDS], device=device)[kind]

    def normal() -> Tensor:
        return torch.randn(count, device=device)

    pace = middle("pace") * normal()
    times = {name: middle(name) * torch.exp(pace + _OWN * normal()) for name in _TIMES}
    warmth = torch.exp(middle("warmth") * normal())
    return Supernovae(
        kind=kind,
        magnitude=middle("magnitude") + middle("scatter") * normal() - middle("brighter") * pace,
        slope=middle("slope") * torch.exp(-pace),
        hot=middle("hot") * warmth,
        cool=middle("cool") * torch.exp(middle("warmth") / 2 * normal()),
        cut=middle("cut"),
        dust=dust * torch.empty(count, device=device).exponential_(),
        **times,
    )


def light(s: Supernovae, days: Tensor) -> Tensor:
    """Bolometric, relative to what `magnitude` says, at rest-frame `days` `(..., B, n)` after the rise."""
    rise, plateau, fall, slope = (part.unsqueeze(-1) for part in (s.rise, s.plateau, s.fall, s.slope))
    level = 1 - slope * torch.minimum(days, plateau)
    end = torch.exp(-(days - plateau).clamp(min=0) / fall)
    return torch.sigmoid(days / rise) * level * end


def temperature(s: Supernovae, days: Tensor) -> Tensor:
    """In K, of the same shape: constant during the rise, then falling exponentially."""
    hot, cool, cooling = (part.unsqueeze(-1) for part in (s.hot, s.cool, s.cooling))
    return cool + (hot - cool) * torch.exp(-days.clamp(min=0) / cooling)


def black_body(wavelength: Tensor, kelvin: Tensor) -> Tensor:
    """Share of a black body's light in an interval of frequency, 1/Hz, at a wavelength in m: `π B_ν / σ T⁴`."""
    x = _HEAT / (wavelength * kelvin)
    return 15 / math.pi**4 * (_HEAT / _LIGHT / kelvin) * x**3 / torch.expm1(x)


def flux(s: Supernovae, redshift: Tensor, days: Tensor, wavelength: Tensor) -> Tensor:
    """What is seen, in μJy: `(1 + z) L_ν / 4π d_L²`, with L_ν at the wavelength and the time of the supernova's rest.

    Args:
        s: B supernovae.
        redshift: `(..., B)`.
        days: since the rise, as we count them, `(B, n)`.
        wavelength: at which each is observed, in nm, `(B, n)`.
    """
    shift = (1 + redshift).unsqueeze(-1)  # (..., B, 1)
    rest, at = days / shift, wavelength / shift
    blanket = (at / s.cut.unsqueeze(-1)).clamp(max=1) ** _BLANKET
    extinction = s.dust.unsqueeze(-1) * (at / 550) ** -1.3
    magnitude = s.magnitude.unsqueeze(-1) + distance_modulus(redshift).unsqueeze(-1) + extinction
    bolometric = _ZERO * _PER_MICROJANSKY * 10 ** (-0.4 * magnitude) * light(s, rest)
    return bolometric * shift * black_body(1e-9 * at, temperature(s, rest)) * blanket
