"""Light curves as a survey gives them (S2.11): irregular in time, one band at a time, with gaps, noise and a limit.

A curve is a packed set: an observation is an element, its time a coordinate, not an index.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.data.source import Axis, Source, Target, in_order
from vitreous.errors import InputError, check_choice
from vitreous.settings import Settings
from vitreous.sim.cosmology import check_redshift
from vitreous.sim.drawn import drawn
from vitreous.sim.supernovae import BANDS, CLASSES, Supernovae, flux, random_supernovae

ROWS = ("flux", "error", *BANDS, "days since detection")
"""Of an observation: flux and error as `scaled`, one 1 among the bands, and the one coordinate."""
SYSTEMS = ("class", "redshift")
_UNIT, _SIZE = 0.1, 4.0  # μJy at which the scale turns from linear to logarithmic; to numbers of order one
_DETECTED = 5.0  # in units of the error
_SEEN = 3  # detections without which a supernova is not found
_NEARER = 6  # places at which a supernova is tried
_BEFORE, _AFTER = 30.0, 130.0  # days about the first detection that belong to a curve
_LEAST = 2  # observations: one shows no course


@dataclass(frozen=True)
class Survey(Settings):
    """How often, how deep and how far is looked."""

    visits: int = 80
    """Most observations of a curve."""
    season: float = 160.0
    """Days."""
    cadence: float = 2.0
    """Mean days from one observation to the next, of all bands together."""
    gap: float = 20.0
    """Longest time without observations, in days; there are two such times of random length."""
    depth: tuple[float, ...] = (24.5, 24.3, 23.8, 23.2)
    """Magnitude in each band whose flux is five times its error."""
    weather: float = 0.3
    """Scatter of the depth, magnitudes."""
    calibration: float = 0.01
    """Error of every flux, as a share of it."""
    redshift: tuple[float, ...] = (0.05, 1.0)
    """Least and largest."""
    dust: float = 0.15
    """Mean extinction in a supernova's galaxy, magnitudes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least(1, "visits")
        self._at_least(0, "gap", "weather", "calibration", "dust")
        for name in ("season", "cadence"):
            if getattr(self, name) <= 0:
                raise InputError(f"{name}: found {getattr(self, name):g}, expected days, more than 0")
        if len(self.depth) != len(BANDS):
            raise InputError(f"depth: found {len(self.depth)} magnitudes, expected one for each of {', '.join(BANDS)}")
        for redshift in self.redshift:
            check_redshift("redshift", redshift)
        if len(self.redshift) != 2 or self.redshift[0] > self.redshift[1]:
            raise InputError(f"redshift: found {self.redshift}, expected two, the lesser first")


class Visits(NamedTuple):
    """When and how is observed, each `(B, visits)`."""

    days: Tensor
    """From the beginning of the season."""
    band: Tensor
    """Number of the band."""
    error: Tensor
    """μJy, of a flux of 0."""
    there: Tensor
    """Which of them take place."""


class Curves(NamedTuple):
    """What is observed of supernovae, and what they are."""

    x: Tensor
    """`(B, len(ROWS), visits)`."""
    kind: Tensor
    """`(B,)`: number of the class."""
    redshift: Tensor
    """`(B,)`."""
    supernovae: Supernovae
    rise: Tensor
    """`(B,)`: days from the first detection to the middle of the rise."""


def random_visits(survey: Survey, count: int, device: torch.device | str = "cpu") -> Visits:
    """Observations at random times in random bands, but for two gaps."""
    shape = count, survey.visits
    days = survey.cadence * torch.empty(shape, device=device).exponential_().cumsum(1)
    band = torch.randint(len(BANDS), shape, device=device)
    depth = torch.tensor(survey.depth, device=device)[band] + survey.weather * torch.randn(shape, device=device)
    begin, length = torch.rand(2, count, 2, 1, device=device)
    since = days.unsqueeze(1) - survey.season * begin  # (B, 2, visits)
    lost = ((since > 0) & (since < survey.gap * length)).any(1)
    error = microjansky(depth) / 5
    return Visits(days, band, error, ~lost & (days < survey.season))


def observed(survey: Survey, count: int, device: torch.device | str = "cpu") -> Curves:
    """Curves of as many supernovae of each kind.

    One that would not be detected three times is brought nearer: its redshift is drawn again below the one before, a
    few times at most.
    """
    s, visits = random_supernovae(count, survey.dust, device), random_visits(survey, count, device)
    start = survey.season * (0.1 + 0.6 * torch.rand(count, 1, device=device))
    wavelength = torch.tensor(list(BANDS.values()), device=device)[visits.band]
    least, largest = survey.redshift
    share = torch.rand(_NEARER, count, device=device).cumprod(0)
    tried = least + (largest - least) * share  # (tries, B)
    bright = flux(s, tried, visits.days - start, wavelength)  # (tries, B, visits)
    error = (visits.error.square() + (survey.calibration * bright).square()).sqrt()
    seen = ((bright > _DETECTED * error) & visits.there).sum(-1) >= _SEEN
    seen[-1] = True
    first = seen.int().argmax(0)[None]  # (1, B)
    bright, error = (part.gather(0, first.unsqueeze(-1).expand(-1, -1, survey.visits))[0] for part in (bright, error))
    measured = bright + error * torch.randn_like(bright)
    zero = detection(visits.days, measured, error, visits.there)
    x = packed(visits.days - zero, measured, error, visits.band, visits.there)
    return Curves(x, s.kind, tried.gather(0, first)[0], s, (start - zero)[:, 0])


def microjansky(magnitude: Tensor) -> Tensor:
    """Flux of an AB magnitude, in μJy."""
    return 10 ** (-0.4 * (magnitude - 23.9))


def scaled(value: Tensor) -> Tensor:
    """A flux or an error in μJy as a number of order one: linear about zero, logarithmic where it is bright."""
    return torch.asinh(value / _UNIT) / _SIZE


def unscaled(value: Tensor) -> Tensor:
    """The inverse, in μJy."""
    return _UNIT * torch.sinh(_SIZE * value)


def detection(days: Tensor, flux: Tensor, error: Tensor, there: Tensor) -> Tensor:
    """When each curve was first detected, `(B, 1)`; where it never was, when it was nearest to it. All `(B, n)`."""
    ratio = (flux / error).masked_fill(~there, -torch.inf)
    first = days.masked_fill(ratio < _DETECTED, torch.inf).amin(1, keepdim=True)
    return torch.where(first.isfinite(), first, days.gather(1, ratio.argmax(1, keepdim=True)))


def packed(days: Tensor, flux: Tensor, error: Tensor, band: Tensor, there: Tensor) -> Tensor:
    """Observations, each `(B, n)`, as sets `(B, len(ROWS), n)`; zeros where there is none, or too far in time."""
    there = there & (days >= -_BEFORE) & (days <= _AFTER)
    bands = torch.nn.functional.one_hot(band, len(BANDS)).movedim(-1, 1)  # (B, bands, n)
    rows = torch.cat([torch.stack([scaled(flux), scaled(error)], 1), bands, days.unsqueeze(1)], dim=1)
    return torch.where(there.unsqueeze(1), rows, 0.0)


def curve(
    days: Sequence[float], flux: Sequence[float], error: Sequence[float], band: Sequence[str], most: int = 80
) -> NDArray[np.float32]:
    """One's own observations as a sample `(len(ROWS), most)` of the model.

    Args:
        days: when, from any beginning, as observed.
        flux: in μJy.
        error: its standard deviation, in μJy.
        band: of each, one of `BANDS`.
        most: observations that the model takes, `Survey.visits`.
    """
    counts = {"days": len(days), "flux": len(flux), "error": len(error), "band": len(band)}
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise InputError(f"curve: found {found}, expected as many of each")
    if counts["days"] < _LEAST:
        raise InputError(f"curve: found {counts['days']} observations, expected at least {_LEAST}")
    for each in band:
        check_choice("band", each, BANDS)
    try:
        numbers = torch.tensor([list(days), list(flux), list(error)], dtype=torch.float64)
    except (TypeError, ValueError):
        raise InputError("curve: found days, fluxes or errors that are no numbers") from None
    if not numbers.isfinite().all() or not (numbers[2] > 0).all():
        raise InputError("curve: found a number that is not finite, or an error not above 0; leave such points out")
    when, bright, sigma = (row[None] for row in numbers)
    there = torch.ones_like(when, dtype=torch.bool)
    zero = detection(when, bright, sigma, there)
    x = packed(when - zero, bright, sigma, torch.tensor([[list(BANDS).index(each) for each in band]]), there)[0]
    x = x[:, (x != 0).any(0)]
    if not _LEAST <= x.shape[1] <= most:
        raise InputError(
            f"curve: found {x.shape[1]} observations from {_BEFORE:g} days before the first detection to {_AFTER:g} "
            f"after it, expected {_LEAST} to {most}"
        )
    return torch.nn.functional.pad(x, (0, most - x.shape[1])).float().numpy()


def curves_source(
    system: str = "class",
    survey: Survey | None = None,
    train: int = 1024,
    validation: int = 4000,
    test: int = 4000,
    seed: int = 0,
) -> Source:
    """Light curves, with what is asked about them.

    Args:
        system: class | redshift.
        survey: which gives them.
        train: samples that set the scales; training itself draws new ones at every step.
        validation, test: samples that stay the same.
        seed: of those.
    """
    check_choice("system", system, SYSTEMS)
    survey = survey or Survey()

    def simulated(count: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
        found = observed(survey, count, device)
        return found.x, found.kind if system == "class" else found.redshift.unsqueeze(1)

    x, y = drawn(lambda some: simulated(some, "cpu"), train + validation + test, seed)
    classes, targets = (CLASSES, ()) if system == "class" else ((), (Target("redshift"),))
    return Source(
        "simulated light curves", x, y, (Axis("observation"),), ROWS, classes, targets,
        in_order(train, validation, test), fresh=simulated,
    )  # fmt: skip
