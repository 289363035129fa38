"""Light curves from a survey (S2.11): irregular in time, one band at a time, with gaps, noise and a detection limit.

A curve is a packed set: an observation is an element, and its time is a coordinate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.core.errors import InputError, check_choice
from vitreous.core.settings import Settings
from vitreous.data.simulated import fixed_samples
from vitreous.data.source import Axis, Source, Target, consecutive_parts
from vitreous.gallery.light_curves.simulate import BANDS, CLASSES, Supernovae, flux, random_supernovae

ROWS = ("flux", "error", *BANDS, "days since detection")
"""Rows of an observation: flux and error after `scale_flux`, one-hot bands, and the time as coordinate."""
SYSTEMS = ("class", "redshift")
_SOFTENING = 0.1  # μJy at which the flux scale turns from linear to logarithmic
_DIVISOR = 4.0  # brings scaled fluxes to order one
_THRESHOLD = 5.0  # flux of a detection, in units of its error
_DETECTIONS = 3  # required of a supernova
_TRIALS = 6  # redshifts tried for a supernova
_BEFORE, _AFTER = 30.0, 130.0  # days around the first detection that a curve covers
_FEWEST = 2  # observations of a curve


@dataclass(frozen=True)
class Survey(Settings):
    """Cadence, depth and range of a survey.

    Args:
        visits: largest number of observations of a curve.
        season: length in days.
        cadence: mean days between observations, all bands together.
        gap: longest gap in days; a season has two gaps of random length.
        depth: five-sigma limiting magnitude in each band.
        weather: scatter of the depth, in magnitudes.
        calibration: relative error added to every flux.
        redshift: range of redshifts.
        dust: mean extinction by the host galaxy, in magnitudes.
    """

    visits: int = 80
    season: float = 160.0
    cadence: float = 2.0
    gap: float = 20.0
    depth: tuple[float, ...] = (24.5, 24.3, 23.8, 23.2)
    weather: float = 0.3
    calibration: float = 0.01
    redshift: tuple[float, ...] = (0.05, 1.0)
    dust: float = 0.15

    def __post_init__(self) -> None:
        super().__post_init__()
        self._at_least(1, "visits")
        self._at_least(0, "gap", "weather", "calibration", "dust")
        for name in ("season", "cadence"):
            if getattr(self, name) <= 0:
                raise InputError(f"{name}: found {getattr(self, name):g}, expected more than 0 days")
        if len(self.depth) != len(BANDS):
            raise InputError(f"depth: found {len(self.depth)} magnitudes, expected one for each of {', '.join(BANDS)}")
        for redshift in self.redshift:
            if redshift <= 0:
                raise InputError(f"redshift: found {redshift:g}, expected a redshift above 0")
        if len(self.redshift) != 2 or self.redshift[0] > self.redshift[1]:
            raise InputError(f"redshift: found {self.redshift}, expected two, the smaller first")


class Visits(NamedTuple):
    """Schedule of observations, each `(B, visits)`."""

    days: Tensor  # from the start of the season
    band: Tensor  # its number
    error: Tensor  # of zero flux, in μJy
    valid: Tensor  # which observations take place


class Curves(NamedTuple):
    """Simulated light curves and their true parameters."""

    x: Tensor  # (B, len(ROWS), visits)
    kind: Tensor  # (B,): class number
    redshift: Tensor  # (B,)
    supernovae: Supernovae
    rise: Tensor  # (B,): days from the first detection to the middle of the rise


def random_visits(survey: Survey, count: int, device: torch.device | str = "cpu") -> Visits:
    """Observations at random times in random bands, with two gaps."""
    shape = count, survey.visits
    days = survey.cadence * torch.empty(shape, device=device).exponential_().cumsum(1)
    band = torch.randint(len(BANDS), shape, device=device)
    depth = torch.tensor(survey.depth, device=device)[band] + survey.weather * torch.randn(shape, device=device)
    start, length = torch.rand(2, count, 2, 1, device=device)
    since_gap = days.unsqueeze(1) - survey.season * start  # (B, 2, visits)
    lost = ((since_gap > 0) & (since_gap < survey.gap * length)).any(1)
    return Visits(days, band, microjansky(depth) / 5, ~lost & (days < survey.season))


def simulate_curves(survey: Survey, count: int, device: torch.device | str = "cpu") -> Curves:
    """Light curves of supernovae of each kind in turn.

    The redshift of a supernova with fewer than three detections is drawn again below the last one, up to five times.
    """
    s, visits = random_supernovae(count, survey.dust, device), random_visits(survey, count, device)
    start = survey.season * (0.1 + 0.6 * torch.rand(count, 1, device=device))
    wavelength = torch.tensor(list(BANDS.values()), device=device)[visits.band]
    least, largest = survey.redshift
    redshifts = least + (largest - least) * torch.rand(_TRIALS, count, device=device).cumprod(0)  # (trials, B)
    brightness = flux(s, redshifts, visits.days - start, wavelength)  # (trials, B, visits)
    error = (visits.error.square() + (survey.calibration * brightness).square()).sqrt()
    detected = ((brightness > _THRESHOLD * error) & visits.valid).sum(-1) >= _DETECTIONS
    detected[-1] = True
    first = detected.int().argmax(0)[None]  # (1, B)
    index = first.unsqueeze(-1).expand(-1, -1, survey.visits)
    brightness, error = (part.gather(0, index)[0] for part in (brightness, error))
    measured = brightness + error * torch.randn_like(brightness)
    zero = first_detection(visits.days, measured, error, visits.valid)
    x = pack_observations(visits.days - zero, measured, error, visits.band, visits.valid)
    return Curves(x, s.kind, redshifts.gather(0, first)[0], s, (start - zero)[:, 0])


def microjansky(magnitude: Tensor) -> Tensor:
    """Flux in μJy of an AB magnitude."""
    return 10 ** (-0.4 * (magnitude - 23.9))


def scale_flux(value: Tensor) -> Tensor:
    """Scale a flux or error in μJy to order one: linear around zero, logarithmic for bright sources."""
    return torch.asinh(value / _SOFTENING) / _DIVISOR


def unscale_flux(value: Tensor) -> Tensor:
    """The inverse of `scale_flux`, in μJy."""
    return _SOFTENING * torch.sinh(_DIVISOR * value)


def first_detection(days: Tensor, flux: Tensor, error: Tensor, valid: Tensor) -> Tensor:
    """Day of the first detection `(B, 1)` or, without one, of the largest flux over error. Arguments are `(B, n)`."""
    ratio = (flux / error).masked_fill(~valid, -torch.inf)
    first = days.masked_fill(ratio < _THRESHOLD, torch.inf).amin(1, keepdim=True)
    return torch.where(first.isfinite(), first, days.gather(1, ratio.argmax(1, keepdim=True)))


def pack_observations(days: Tensor, flux: Tensor, error: Tensor, band: Tensor, valid: Tensor) -> Tensor:
    """Observations, each `(B, n)`, as sets `(B, len(ROWS), n)`; zeros for invalid or too early or late ones."""
    valid = valid & (days >= -_BEFORE) & (days <= _AFTER)
    bands = torch.nn.functional.one_hot(band, len(BANDS)).movedim(-1, 1)  # (B, bands, n)
    rows = torch.cat([torch.stack([scale_flux(flux), scale_flux(error)], 1), bands, days.unsqueeze(1)], dim=1)
    return torch.where(valid.unsqueeze(1), rows, 0.0)


def pack_curve(
    days: Sequence[float], flux: Sequence[float], error: Sequence[float], band: Sequence[str], visits: int = 80
) -> NDArray[np.float32]:
    """Pack the observations of one light curve into a sample `(len(ROWS), visits)` for a model.

    Args:
        days: observer-frame times, from any origin.
        flux, error: with standard errors, in μJy.
        band: one of `BANDS` for each observation.
        visits: number of observations that the model takes, `Survey.visits`.
    """
    if not len(days) == len(flux) == len(error) == len(band):
        counts = f"{len(days)} of days, {len(flux)} of flux, {len(error)} of error, {len(band)} of band"
        raise InputError(f"curve: found {counts}, expected the same number of each")
    if len(days) < _FEWEST:
        raise InputError(f"curve: found {len(days)} observations, expected at least {_FEWEST}")
    for each in band:
        check_choice("band", each, BANDS)
    try:
        numbers = torch.tensor([list(days), list(flux), list(error)], dtype=torch.float64)
    except (TypeError, ValueError):
        raise InputError("curve: found days, fluxes or errors that are not numbers, expected numbers") from None
    if not numbers.isfinite().all() or not (numbers[2] > 0).all():
        raise InputError("curve: found a number that is not finite or an error not above 0; leave such points out")
    times, fluxes, errors = (row[None] for row in numbers)
    valid = torch.ones_like(times, dtype=torch.bool)
    times = times - first_detection(times, fluxes, errors, valid)
    bands = torch.tensor([[list(BANDS).index(each) for each in band]])
    x = pack_observations(times, fluxes, errors, bands, valid)[0]
    x = x[:, (x != 0).any(0)]
    if not _FEWEST <= x.shape[1] <= visits:
        span = f"from {_BEFORE:g} days before the first detection to {_AFTER:g} after it"
        raise InputError(f"curve: found {x.shape[1]} observations {span}, expected {_FEWEST} to {visits}")
    return torch.nn.functional.pad(x, (0, visits - x.shape[1])).float().numpy()


def curves_source(
    system: str = "class", survey: Survey | None = None, train: int = 1024, validation: int = 4000, test: int = 4000
) -> Source:
    """Light curves with their class or redshift, by the `system`, in parts of so many samples.

    The part `train` only sets the scaling; training itself draws new samples at every step.
    """
    check_choice("system", system, SYSTEMS)
    survey = survey or Survey()

    def simulate(count: int, device: torch.device | str) -> tuple[Tensor, Tensor]:
        curves = simulate_curves(survey, count, device)
        return curves.x, curves.kind if system == "class" else curves.redshift.unsqueeze(1)

    x, y = fixed_samples(lambda count: simulate(count, "cpu"), train + validation + test, seed=0)
    classes, targets = (CLASSES, ()) if system == "class" else ((), (Target("redshift"),))
    axes, parts = (Axis("observation"),), consecutive_parts(train, validation, test)
    return Source("simulated light curves", x, y, axes, ROWS, classes, targets, parts, fresh=simulate)
