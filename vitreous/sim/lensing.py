"""Strong gravitational lenses (S2.12): ray-traced images of a galaxy behind a singular isothermal ellipsoid with shear.

A ray seen at θ comes from β = θ - α(θ), and a lens keeps surface brightness: the image is the source, looked up at β.
Deflections are those of Kormann et al. 1994 (with Keeton 2001), in batches, on any device; all angles are in arcsec.
Random numbers come from torch's own generator of the device, so a seed set outside decides all of them.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.errors import InputError
from vitreous.settings import Settings

_ROUNDEST = 1 - 5e-7  # axis ratio from which on a lens counts as round, where the formulas divide by zero
_FWHM = 2 * math.sqrt(2 * math.log(2))  # of a Gaussian, in standard deviations


@dataclass(frozen=True)
class Telescope(Settings):
    """What an image is made with."""

    pixels: int = 64
    """Along each side."""
    pixel: float = 0.08
    """Side of one, in arcsec."""
    rays: int = 2
    """Along each side of a pixel, whose brightness is the mean of theirs."""
    psf: float = 0.15
    """Full width at half maximum of the Gaussian that a point is seen as, in arcsec; 0 for a point."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least(1, "pixels", "rays")
        self._at_least(0, "psf")
        if self.pixel <= 0:
            raise InputError(f"pixel: found {self.pixel:g}, expected a side above 0, in arcsec")


class Lens(NamedTuple):
    """Lenses at the centre of the image, each entry `(B,)`."""

    einstein: Tensor
    """Einstein radius, in arcsec: that of the circle with the critical curve's area, where there is no shear."""
    e1: Tensor
    """(1 - q) / (1 + q) cos 2φ, of axis ratio q and angle φ of the long axis from the first axis."""
    e2: Tensor
    """(1 - q) / (1 + q) sin 2φ."""
    g1: Tensor
    """External shear along the axes."""
    g2: Tensor
    """External shear along the diagonals."""

    def check(self) -> None:
        """Raise `InputError` unless there can be such lenses."""
        flat = (self.e1.square() + self.e2.square()).sqrt()
        shear = (self.g1.square() + self.g2.square()).sqrt()
        _first(self.einstein, self.einstein > 0, "einstein", "a radius above 0, in arcsec")
        _first(flat, flat < 1, "e1, e2", "an ellipticity below 1, for an axis ratio from above 0 to 1")
        _first(shear, shear < 1, "g1, g2", "a shear below 1")


class Galaxy(NamedTuple):
    """The sources behind them, with Sérsic's profile, each entry `(B,)`."""

    x: Tensor
    """Place, in arcsec from the lens."""
    y: Tensor
    radius: Tensor
    """That half of the light lies in, in arcsec."""
    sersic: Tensor
    """The profile's index n: 0.5 for a Gaussian, 1 for a disc, 4 for an elliptical galaxy."""
    e1: Tensor
    """Ellipticity, as of a lens."""
    e2: Tensor

    def check(self) -> None:
        """Raise `InputError` unless there can be such galaxies."""
        flat = (self.e1.square() + self.e2.square()).sqrt()
        for name, place in (("x", self.x), ("y", self.y)):
            _first(place, place.isfinite(), name, "a finite place, in arcsec from the lens")
        _first(self.radius, self.radius > 0, "radius", "a radius above 0, in arcsec")
        _first(self.sersic, self.sersic >= 0.36, "sersic", "an index of at least 0.36")
        _first(flat, flat < 1, "e1, e2", "an ellipticity below 1, for an axis ratio from above 0 to 1")


def _first(values: Tensor, good: Tensor, name: str, wanted: str) -> None:
    bad = values[~(good & values.isfinite())]
    if len(bad):
        raise InputError(f"{name}: found {float(bad[0]):g}, expected {wanted}")


def deflection(x: Tensor, y: Tensor, lens: Lens) -> tuple[Tensor, Tensor]:
    """How far rays seen at x and y, `(B or 1, ...)`, are deflected along both axes, in arcsec."""
    einstein, e1, e2, g1, g2 = (_wide(part, x) for part in lens)
    q, cos, sin = _axes(e1, e2)
    along, across = cos * x + sin * y, cos * y - sin * x
    f, psi = (1 - q * q).sqrt(), _psi(along, across, q)
    strength = einstein * q.sqrt() / f
    a, b = strength * torch.atan(f * along / psi), strength * torch.atanh(f * across / psi)
    return cos * a - sin * b + g1 * x + g2 * y, sin * a + cos * b + g2 * x - g1 * y


def convergence(x: Tensor, y: Tensor, lens: Lens) -> Tensor:
    """Surface density over the critical one, κ = θ_E / (2 √(q x² + y² / q)) along the lens's axes."""
    einstein, e1, e2, _, _ = (_wide(part, x) for part in lens)
    q, cos, sin = _axes(e1, e2)
    return 0.5 * einstein * q.sqrt() / _psi(cos * x + sin * y, cos * y - sin * x, q)


def inverse_magnification(x: Tensor, y: Tensor, lens: Lens) -> Tensor:
    """det ∂β/∂θ = (1 - κ)² - γ²; the critical curve is where it is 0. An isothermal lens shears by κ, tangentially."""
    kappa, turn = convergence(x, y, lens), 2 * torch.atan2(y, x)
    g1, g2 = _wide(lens.g1, x) - kappa * turn.cos(), _wide(lens.g2, x) - kappa * turn.sin()
    return (1 - kappa).square() - g1.square() - g2.square()


def _wide(part: Tensor, like: Tensor) -> Tensor:
    return part.reshape(-1, *[1] * (like.dim() - 1))


def _axes(e1: Tensor, e2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Axis ratio, and cosine and sine of the long axis's angle."""
    e = torch.hypot(e1, e2)
    angle = 0.5 * torch.atan2(e2, e1)
    return ((1 - e) / (1 + e)).clamp(max=_ROUNDEST), angle.cos(), angle.sin()


def _psi(along: Tensor, across: Tensor, q: Tensor) -> Tensor:
    return torch.sqrt(q * q * along * along + across * across).clamp(min=1e-6)


def brightness(x: Tensor, y: Tensor, galaxy: Galaxy) -> Tensor:
    """Surface brightness at x and y, `(B, ...)`, where that at the half-light radius is 1."""
    x0, y0, radius, n, e1, e2 = (_wide(part, x) for part in galaxy)
    q, cos, sin = _axes(e1, e2)
    along, across = cos * (x - x0) + sin * (y - y0), cos * (y - y0) - sin * (x - x0)
    r = torch.sqrt(q * along * along + across * across / q).clamp(min=1e-6) / radius
    b = 2 * n - 1 / 3 + 4 / (405 * n) + 46 / (25515 * n * n)  # Ciotti and Bertin 1999
    return torch.exp(-b * (r ** (1 / n) - 1))


def places(telescope: Telescope, device: torch.device | str = "cpu", rays: int = 1) -> tuple[Tensor, Tensor]:
    """x and y `(1, n, n)` of the pixels' centres, or of so many rays along each of their sides, in arcsec."""
    count, step = telescope.pixels * rays, telescope.pixel / rays
    axis = (torch.arange(count, device=device) - (count - 1) / 2) * step
    return axis.expand(1, count, count), axis[:, None].expand(1, count, count)


def images(lens: Lens, galaxy: Galaxy, telescope: Telescope | None = None) -> Tensor:
    """What a telescope sees, without noise: `(B, pixels, pixels)`, rows along y; raises for what cannot be."""
    lens.check()
    galaxy.check()
    return traced(lens, galaxy, telescope or Telescope())


def traced(lens: Lens, galaxy: Galaxy, telescope: Telescope) -> Tensor:
    """The same for lenses and galaxies that are known to be possible, for which no device has to wait."""
    x, y = places(telescope, lens.einstein.device, telescope.rays)
    ax, ay = deflection(x, y, lens)
    seen = brightness(x - ax, y - ay, galaxy)
    return blurred(F.avg_pool2d(seen.unsqueeze(1), telescope.rays), telescope).squeeze(1)


def blurred(image: Tensor, telescope: Telescope) -> Tensor:
    """`(B, 1, rows, columns)` as seen through the telescope's point-spread function; beyond the edge it is dark."""
    width = telescope.psf / _FWHM / telescope.pixel  # in pixels
    if width == 0:
        return image
    reach = math.ceil(4 * width)
    steps = torch.arange(-reach, reach + 1, device=image.device)
    kernel = (-0.5 * (steps / width).square()).softmax(0).to(image.dtype)
    rows = F.conv2d(image, kernel.view(1, 1, 1, -1), padding=(0, reach))
    return F.conv2d(rows, kernel.view(1, 1, -1, 1), padding=(reach, 0))
