"""Random strong lenses as a source to train on: new ones at every step, fixed ones to validate and test on (S2.12)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from vitreous.data.source import Axis, Source, Target, in_order
from vitreous.errors import InputError
from vitreous.settings import Settings
from vitreous.sim.drawn import drawn
from vitreous.sim.lensing import Galaxy, Lens, Telescope, traced

TARGETS = (
    Target("Einstein radius", "arcsec"), Target("ellipticity 1"), Target("ellipticity 2"), Target("shear 1"),
    Target("shear 2"),
)  # fmt: skip
"""What is asked of an image: the entries of `Lens`, in their order."""

_CHUNK = 64  # lenses at a time on a CPU


@dataclass(frozen=True)
class Survey(Settings):
    """Which lenses are found: ranges are even, two-component quantities even over a disc."""

    einstein: tuple[float, ...] = (0.7, 1.7)
    """Least and largest Einstein radius, in arcsec."""
    ellipticity: float = 0.3
    """Largest of a lens: an axis ratio of (1 - this) / (1 + this)."""
    shear: float = 0.1
    """Largest external shear."""
    offset: float = 0.25
    """Largest distance of a galaxy from behind the lens, in arcsec."""
    radius: tuple[float, ...] = (0.08, 0.3)
    """Least and largest half-light radius of a galaxy, in arcsec."""
    sersic: tuple[float, ...] = (0.5, 2.0)
    """Least and largest Sérsic index of a galaxy."""
    flattening: float = 0.4
    """Largest ellipticity of a galaxy."""
    signal: tuple[float, ...] = (10.0, 60.0)
    """Least and largest brightness of an image's brightest pixel, in standard deviations of the noise."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("einstein", 0.0), ("radius", 0.0), ("sersic", 0.36), ("signal", 0.0)):
            found = getattr(self, name)
            if len(found) != 2 or not least < found[0] <= found[1]:
                raise InputError(f"{name}: found {found}, expected a range of two numbers above {least:g}")
        self._at_least(0, "offset")
        self._probability("ellipticity", "shear", "flattening")


def random_lenses(survey: Survey, count: int, device: torch.device | str = "cpu") -> tuple[Lens, Galaxy]:
    """So many lenses and galaxies of a survey."""
    lens = Lens(
        _even(survey.einstein, count, device), *_disc(survey.ellipticity, count, device),
        *_disc(survey.shear, count, device),
    )  # fmt: skip
    place, shape = _disc(survey.offset, count, device), _disc(survey.flattening, count, device)
    return lens, Galaxy(*place, _even(survey.radius, count, device), _even(survey.sersic, count, device), *shape)


def observed(
    survey: Survey, telescope: Telescope, count: int, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Images with noise of deviation 1, `(count, 1, pixels, pixels)`, and what is asked, `(count, len(TARGETS))`."""
    lens, galaxy = random_lenses(survey, count, device)
    clean = traced(lens, galaxy, telescope)
    signal = _even(survey.signal, count, device)[:, None, None] / clean.amax((1, 2), keepdim=True)
    return (signal * clean + torch.randn_like(clean)).unsqueeze(1), torch.stack(lens, 1)


def _even(limits: Sequence[float], count: int, device: torch.device | str) -> Tensor:
    low, high = limits
    return low + (high - low) * torch.rand(count, device=device)


def _disc(most: float, count: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
    size, angle = most * torch.rand(count, device=device).sqrt(), 2 * math.pi * torch.rand(count, device=device)
    return size * angle.cos(), size * angle.sin()


@lru_cache(maxsize=4)
def lens_source(
    survey: Survey | None = None, telescope: Telescope | None = None, train: int = 500, validation: int = 2000,
    test: int = 2000,
) -> Source:  # fmt: skip
    """Images of random lenses.

    Args:
        survey: which there are.
        telescope: how they are seen.
        train: samples that set the scales; training itself draws new ones at every step.
        validation, test: samples that stay the same.
    """
    survey, telescope = survey or Survey(), telescope or Telescope()
    counts = train, validation, test
    x, y = drawn(lambda some: observed(survey, telescope, some), sum(counts), 1979, _CHUNK)
    axes = tuple(
        Axis(name, "arcsec", -(telescope.pixels - 1) / 2 * telescope.pixel, telescope.pixel) for name in ("y", "x")
    )
    return Source(
        "simulated lenses", x, y, axes, ("brightness",), (), TARGETS, in_order(*counts),
        fresh=lambda count, device: observed(survey, telescope, count, device),
    )  # fmt: skip
