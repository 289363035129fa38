"""Strong gravitational lenses (S2.12): ray-traced images of a galaxy behind a singular isothermal ellipsoid with shear.

A ray observed at θ comes from β = θ - α(θ). Lensing conserves surface brightness, so the image is the source evaluated
at β. Deflections follow Kormann et al. 1994 and Keeton 2001, in batches, on any device. All angles are in arcsec. The
source has new images at every training step, and fixed ones to test on.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.core.settings import Settings
from vitreous.data.simulated import fixed_samples
from vitreous.data.source import Axis, Source, Target, consecutive_parts

TARGETS = (
    Target("Einstein radius", "arcsec"),
    *(Target(name) for name in ("ellipticity 1", "ellipticity 2", "shear 1", "shear 2")),
)
"""Quantities to regress: the fields of `Lens`, in order."""
_CHUNK = 64  # lenses simulated at a time on a CPU
_ROUNDEST = 1 - 5e-7  # largest axis ratio; the formulas divide by zero for a round lens
_FWHM = 2 * math.sqrt(2 * math.log(2))  # full width at half maximum of a Gaussian, in standard deviations


@dataclass(frozen=True)
class Telescope(Settings):
    """Geometry and resolution of an image.

    Args:
        pixels: along each side.
        pixel: side of a pixel, in arcsec.
        rays: along each side of a pixel, averaged to its brightness.
        psf: full width at half maximum of the Gaussian point-spread function, in arcsec; 0 for none.
    """

    pixels: int = 64
    pixel: float = 0.08
    rays: int = 2
    psf: float = 0.15

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least(1, "pixels", "rays")
        self._at_least(0, "psf")
        if self.pixel <= 0:
            raise InputError(f"pixel: found {self.pixel:g}, expected a side above 0, in arcsec")


class Lens(NamedTuple):
    """Parameters of lenses at the centre of the image, each `(B,)`."""

    einstein: Tensor  # radius in arcsec, of the circle with the area of the critical curve without shear
    e1: Tensor  # (1 - q) / (1 + q) cos 2φ, with axis ratio q and angle φ between the long axis and the x axis
    e2: Tensor  # (1 - q) / (1 + q) sin 2φ
    g1: Tensor  # external shear along the axes
    g2: Tensor  # external shear along the diagonals

    def check(self) -> None:
        """Raise `InputError` for invalid lenses."""
        shear = (self.g1.square() + self.g2.square()).sqrt()
        _check_values(self.einstein, self.einstein > 0, "einstein", "a radius above 0, in arcsec")
        _check_ellipticity(self.e1, self.e2)
        _check_values(shear, shear < 1, "g1, g2", "a shear below 1")


class Galaxy(NamedTuple):
    """Parameters of the galaxies behind the lenses, with a Sérsic profile, each `(B,)`."""

    x: Tensor  # position, in arcsec from the lens
    y: Tensor
    radius: Tensor  # half-light radius, in arcsec
    sersic: Tensor  # Sérsic index n: 0.5 for a Gaussian, 1 for a disc, 4 for an elliptical galaxy
    e1: Tensor  # ellipticity, defined as for `Lens`
    e2: Tensor

    def check(self) -> None:
        """Raise `InputError` for invalid galaxies."""
        for name, position in (("x", self.x), ("y", self.y)):
            _check_values(position, position.isfinite(), name, "a finite position, in arcsec from the lens")
        _check_values(self.radius, self.radius > 0, "radius", "a radius above 0, in arcsec")
        _check_values(self.sersic, self.sersic >= 0.36, "sersic", "an index of at least 0.36")
        _check_ellipticity(self.e1, self.e2)


def _check_ellipticity(e1: Tensor, e2: Tensor) -> None:
    size = (e1.square() + e2.square()).sqrt()
    _check_values(size, size < 1, "e1, e2", "an ellipticity below 1, for an axis ratio from above 0 to 1")


def _check_values(values: Tensor, valid: Tensor, name: str, expected: str) -> None:
    """Raise `InputError` for the first value that is not valid."""
    invalid = values[~(valid & values.isfinite())]
    if len(invalid):
        raise InputError(f"{name}: found {float(invalid[0]):g}, expected {expected}")


def deflection(x: Tensor, y: Tensor, lens: Lens) -> tuple[Tensor, Tensor]:
    """Deflection along both axes of rays observed at x and y, `(B or 1, ...)`, in arcsec."""
    einstein, e1, e2, g1, g2 = (_expand(part, x) for part in lens)
    q, cos, sin = _orientation(e1, e2)
    along, across = cos * x + sin * y, cos * y - sin * x
    f, psi = (1 - q * q).sqrt(), _psi(along, across, q)
    strength = einstein * q.sqrt() / f
    a, b = strength * torch.atan(f * along / psi), strength * torch.atanh(f * across / psi)
    return cos * a - sin * b + g1 * x + g2 * y, sin * a + cos * b + g2 * x - g1 * y


def convergence(x: Tensor, y: Tensor, lens: Lens) -> Tensor:
    """Surface density in units of the critical one, κ = θ_E / (2 √(q x² + y² / q)) in the axes of the lens."""
    einstein, e1, e2, _, _ = (_expand(part, x) for part in lens)
    q, cos, sin = _orientation(e1, e2)
    return 0.5 * einstein * q.sqrt() / _psi(cos * x + sin * y, cos * y - sin * x, q)


def inverse_magnification(x: Tensor, y: Tensor, lens: Lens) -> Tensor:
    """det ∂β/∂θ = (1 - κ)² - γ², 0 on the critical curve; the tangential shear of an isothermal lens is κ."""
    kappa, turn = convergence(x, y, lens), 2 * torch.atan2(y, x)
    g1, g2 = _expand(lens.g1, x) - kappa * turn.cos(), _expand(lens.g2, x) - kappa * turn.sin()
    return (1 - kappa).square() - g1.square() - g2.square()


def _expand(part: Tensor, like: Tensor) -> Tensor:
    """`(B,)` to `(B, 1, ...)`, with the dimensions of `like`."""
    return part.reshape(-1, *[1] * (like.dim() - 1))


def _orientation(e1: Tensor, e2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Axis ratio, and cosine and sine of the angle of the long axis."""
    e = torch.hypot(e1, e2)
    angle = 0.5 * torch.atan2(e2, e1)
    return ((1 - e) / (1 + e)).clamp(max=_ROUNDEST), angle.cos(), angle.sin()


def _psi(along: Tensor, across: Tensor, q: Tensor) -> Tensor:
    return torch.sqrt(q * q * along * along + across * across).clamp(min=1e-6)


def brightness(x: Tensor, y: Tensor, galaxy: Galaxy) -> Tensor:
    """Surface brightness at x and y, `(B, ...)`, relative to that at the half-light radius."""
    x0, y0, radius, n, e1, e2 = (_expand(part, x) for part in galaxy)
    q, cos, sin = _orientation(e1, e2)
    along, across = cos * (x - x0) + sin * (y - y0), cos * (y - y0) - sin * (x - x0)
    r = torch.sqrt(q * along * along + across * across / q).clamp(min=1e-6) / radius
    b = 2 * n - 1 / 3 + 4 / (405 * n) + 46 / (25515 * n * n)  # Ciotti and Bertin 1999
    return torch.exp(-b * (r ** (1 / n) - 1))


def positions(telescope: Telescope, device: torch.device | str = "cpu", rays: int = 1) -> tuple[Tensor, Tensor]:
    """x and y `(1, n, n)` of all rays in arcsec, with `rays` along each side of a pixel; 1 for pixel centres."""
    count, step = telescope.pixels * rays, telescope.pixel / rays
    axis = (torch.arange(count, device=device) - (count - 1) / 2) * step
    return axis.expand(1, count, count), axis[:, None].expand(1, count, count)


def images(lens: Lens, galaxy: Galaxy, telescope: Telescope | None = None) -> Tensor:
    """Images without noise, `(B, pixels, pixels)`, rows along y; raises `InputError` for invalid parameters."""
    lens.check()
    galaxy.check()
    return trace_images(lens, galaxy, telescope or Telescope())


def trace_images(lens: Lens, galaxy: Galaxy, telescope: Telescope) -> Tensor:
    """Like `images`, without the checks, which would make a GPU wait."""
    x, y = positions(telescope, lens.einstein.device, telescope.rays)
    ax, ay = deflection(x, y, lens)
    light = brightness(x - ax, y - ay, galaxy)
    return blur(F.avg_pool2d(light.unsqueeze(1), telescope.rays), telescope).squeeze(1)


def blur(image: Tensor, telescope: Telescope) -> Tensor:
    """Convolve `(B, 1, rows, columns)` with the point-spread function; it is dark beyond the edge."""
    width = telescope.psf / _FWHM / telescope.pixel  # in pixels
    if width == 0:
        return image
    reach = math.ceil(4 * width)
    steps = torch.arange(-reach, reach + 1, device=image.device)
    kernel = (-0.5 * (steps / width).square()).softmax(0).to(image.dtype)
    rows = F.conv2d(image, kernel.view(1, 1, 1, -1), padding=(0, reach))
    return F.conv2d(rows, kernel.view(1, 1, -1, 1), padding=(reach, 0))


@dataclass(frozen=True)
class Survey(Settings):
    """Distribution of lenses and galaxies: uniform in ranges, and over a disc for two-component quantities.

    Args:
        einstein: range of the Einstein radius, in arcsec.
        ellipticity: largest ellipticity e of a lens, for an axis ratio of (1 - e) / (1 + e).
        shear: largest external shear.
        offset: largest distance between galaxy and lens on the sky, in arcsec.
        radius: range of the half-light radius of a galaxy, in arcsec.
        sersic: range of the Sérsic index of a galaxy.
        flattening: largest ellipticity of a galaxy.
        signal: range of the signal-to-noise ratio of an image's brightest pixel.
    """

    einstein: tuple[float, ...] = (0.7, 1.7)
    ellipticity: float = 0.3
    shear: float = 0.1
    offset: float = 0.25
    radius: tuple[float, ...] = (0.08, 0.3)
    sersic: tuple[float, ...] = (0.5, 2.0)
    flattening: float = 0.4
    signal: tuple[float, ...] = (10.0, 60.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("einstein", 0.0), ("radius", 0.0), ("sersic", 0.36), ("signal", 0.0)):
            limits = getattr(self, name)
            if len(limits) != 2 or not least < limits[0] <= limits[1]:
                raise InputError(f"{name}: found {limits}, expected a range of two numbers above {least:g}")
        self._at_least(0, "offset")
        self._probability("ellipticity", "shear", "flattening")


def random_lenses(survey: Survey, count: int, device: torch.device | str = "cpu") -> tuple[Lens, Galaxy]:
    """Random lenses and galaxies of a survey."""
    uniform, disc = partial(_uniform, count=count, device=device), partial(_disc, count=count, device=device)
    lens = Lens(uniform(survey.einstein), *disc(survey.ellipticity), *disc(survey.shear))
    position, shape = disc(survey.offset), disc(survey.flattening)
    return lens, Galaxy(*position, uniform(survey.radius), uniform(survey.sersic), *shape)


def simulate_images(
    survey: Survey, telescope: Telescope, count: int, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Images with noise of standard deviation 1, `(count, 1, pixels, pixels)`, and `TARGETS` `(count, 5)`."""
    lens, galaxy = random_lenses(survey, count, device)
    clean = trace_images(lens, galaxy, telescope)
    signal = _uniform(survey.signal, count, device)[:, None, None] / clean.amax((1, 2), keepdim=True)
    return (signal * clean + torch.randn_like(clean)).unsqueeze(1), torch.stack(lens, 1)


def _uniform(limits: Sequence[float], count: int, device: torch.device | str) -> Tensor:
    low, high = limits
    return low + (high - low) * torch.rand(count, device=device)


def _disc(radius: float, count: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
    distance, angle = radius * torch.rand(count, device=device).sqrt(), 2 * math.pi * torch.rand(count, device=device)
    return distance * angle.cos(), distance * angle.sin()


@lru_cache(maxsize=4)
def lens_source(
    survey: Survey | None = None, telescope: Telescope | None = None, train: int = 500, validation: int = 2000,
    test: int = 2000,
) -> Source:  # fmt: skip
    """Images of random lenses of a survey, in parts of so many samples.

    The part `train` only sets the scaling; training itself draws new samples at every step.
    """
    telescope = telescope or Telescope()
    simulate = partial(simulate_images, survey or Survey(), telescope)
    counts = train, validation, test
    x, y = fixed_samples(simulate, sum(counts), 1979, _CHUNK)
    origin, parts = -(telescope.pixels - 1) / 2 * telescope.pixel, consecutive_parts(*counts)
    axes = tuple(Axis(name, "arcsec", origin, telescope.pixel) for name in ("y", "x"))
    return Source("simulated lenses", x, y, axes, ("brightness",), (), TARGETS, parts, fresh=simulate)
