"""Images of random strong lenses as a source: new ones at every training step, fixed ones to test on (S2.12)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from vitreous.core.errors import InputError
from vitreous.core.settings import Settings
from vitreous.data.simulated import fixed_samples
from vitreous.data.source import Axis, Source, Target, consecutive_parts
from vitreous.gallery.lensing.simulate import Galaxy, Lens, Telescope, trace_images

TARGETS = (
    Target("Einstein radius", "arcsec"), Target("ellipticity 1"), Target("ellipticity 2"), Target("shear 1"),
    Target("shear 2"),
)  # fmt: skip
"""Quantities to regress: the fields of `Lens`, in order."""

_CHUNK = 64  # lenses simulated at a time on a CPU


@dataclass(frozen=True)
class Survey(Settings):
    """Distribution of lenses and galaxies: uniform in ranges, and over a disc for two-component quantities."""

    einstein: tuple[float, ...] = (0.7, 1.7)
    """Range of the Einstein radius, in arcsec."""
    ellipticity: float = 0.3
    """Largest ellipticity e of a lens, for an axis ratio of (1 - e) / (1 + e)."""
    shear: float = 0.1
    """Largest external shear."""
    offset: float = 0.25
    """Largest distance between galaxy and lens on the sky, in arcsec."""
    radius: tuple[float, ...] = (0.08, 0.3)
    """Range of the half-light radius of a galaxy, in arcsec."""
    sersic: tuple[float, ...] = (0.5, 2.0)
    """Range of the Sérsic index of a galaxy."""
    flattening: float = 0.4
    """Largest ellipticity of a galaxy."""
    signal: tuple[float, ...] = (10.0, 60.0)
    """Range of the signal-to-noise ratio of an image's brightest pixel."""

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
    lens = Lens(
        _uniform(survey.einstein, count, device), *_disc(survey.ellipticity, count, device),
        *_disc(survey.shear, count, device),
    )  # fmt: skip
    position, shape = _disc(survey.offset, count, device), _disc(survey.flattening, count, device)
    return lens, Galaxy(
        *position, _uniform(survey.radius, count, device), _uniform(survey.sersic, count, device), *shape
    )


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
    """Images of random lenses.

    Args:
        survey: distribution of lenses and galaxies.
        telescope: geometry and resolution of the images.
        train: samples that set the scaling; training itself draws new ones at every step.
        validation, test: fixed samples.
    """
    survey, telescope = survey or Survey(), telescope or Telescope()
    counts = train, validation, test
    x, y = fixed_samples(lambda count: simulate_images(survey, telescope, count), sum(counts), 1979, _CHUNK)
    axes = tuple(
        Axis(name, "arcsec", -(telescope.pixels - 1) / 2 * telescope.pixel, telescope.pixel) for name in ("y", "x")
    )
    return Source(
        "simulated lenses", x, y, axes, ("brightness",), (), TARGETS, consecutive_parts(*counts),
        fresh=lambda count, device: simulate_images(survey, telescope, count, device),
    )  # fmt: skip
