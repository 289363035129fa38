"""Simulated measurements: the lines of crystals become powder patterns, in batches, on any device.

Lines are placed on fine grids, one for each of a few reference angles. Each grid is convolved with the profile at its
angle by the profile's analytic Fourier transform; between the reference angles, profiles are interpolated.
"""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

from vitreous.powder.bragg import bragg_angle
from vitreous.powder.lineshape import caglioti, slit_quadrature
from vitreous.powder.sim.crystals import Crystals, Device, Lines, random_crystals
from vitreous.powder.sim.effects import EFFECT_LIMITS, Effects, Range

_NODES = 6  # reference angles of the profile
_MAX_PHASE, _PHASE_STEPS = 256, 64  # radians: range of the table of slit averages, and its steps per radian
_FINE = 2  # grid points of the lines per point of the pattern
_SLIT_POINTS, _SLIT_DIGITS = 8, 7
_WIDTH_ANGLE = 30  # degrees of 2θ at which the width is given
_LARGEST_SINE = 0.99999
_compile = lru_cache(maxsize=4)(partial(torch.compile, dynamic=True))  # on a GPU: one pass over memory, not sixty


def random_patterns(system: str, count: int, effects: Effects, device: Device = "cpu") -> tuple[Tensor, Crystals]:
    """Measured patterns `(count, points)` of random crystals of a system, and the crystals."""
    crystals = random_crystals(system, count, effects.s_max, device)
    return measure(crystals.lines, effects), crystals


def lorentz_polarisation(two_theta: Tensor) -> Tensor:
    """(1 + cos² 2θ) / (sin² θ cos θ) for angles in degrees: unpolarised radiation, no monochromator."""
    theta = torch.deg2rad(two_theta) / 2
    return (1 + torch.cos(2 * theta).square()) / (theta.sin().square() * theta.cos())


def march_dollase(cos2: Tensor, r: Tensor) -> Tensor:
    """Factor of preferred orientation for cos² of the angle to the preferred direction."""
    return (r.square() * cos2 + (1 - cos2) / r).pow(-1.5)


def measure(lines: Lines, effects: Effects) -> Tensor:
    """Patterns `(B, points)`: counts or, without noise, intensities with a maximum of 1."""
    draws = draw_values(effects, lines.count, lines.s.device)
    if effects.impurity[1] > 0:
        lines = add_impurity(lines, draws["impurity"])
    return record(diffract(lines, effects, draws), effects, draws)


def draw_values(effects: Effects, count: int, device: torch.device) -> dict[str, Tensor]:
    """Random values `(count,)` of each effect but the noise, by name."""
    return {name: uniform(getattr(effects, name), count, device) for name in EFFECT_LIMITS if name != "counts"}


def diffract(lines: Lines, effects: Effects, draws: dict[str, Tensor]) -> Tensor:
    """The lines of each crystal with their profiles, `(B, points)`, in any unit."""
    area = lines.intensity
    if effects.texture != (1.0, 1.0):
        area = area * _texture(lines, draws["texture"])
    peaks = _peaks(lines, area, effects.wavelength, draws, torch.ones_like(draws["alpha2"]))
    if effects.alpha2[1] > 0:
        second = _peaks(lines, area, effects.wavelength2, draws, draws["alpha2"])
        peaks = tuple(torch.cat(pair) for pair in zip(peaks, second, strict=True))
    return _convolve(peaks, effects, draws, lines.count)


def record(pattern: Tensor, effects: Effects, draws: dict[str, Tensor]) -> Tensor:
    """Lines `(B, points)` with background and noise, as a detector records them; see `measure`."""
    count, device = len(pattern), pattern.device
    angles = effects.angles(device).float()
    measured = angles >= draws["start"][:, None]
    pattern = pattern / (pattern * measured).amax(dim=1, keepdim=True).clamp(min=1e-12)
    if effects.background[1] > 0:
        pattern = pattern + draws["background"][:, None] * _background(angles, effects, count)
    if effects.hump[1] > 0:
        centre, spread = uniform((15.0, 35.0), count, device), uniform((3.0, 8.0), count, device)
        shape = torch.exp(-0.5 * ((angles - centre[:, None]) / spread[:, None]).square())
        pattern = pattern + draws["hump"][:, None] * shape
    pattern = pattern * measured
    if effects.counts[1] == 0:
        return pattern
    highest = log_uniform((max(1.0, effects.counts[0]), effects.counts[1]), count, device)
    return torch.poisson(pattern.clamp(min=0) * highest[:, None])


def uniform(limits: Range, count: int, device: torch.device) -> Tensor:
    """`(count,)` random numbers within the limits."""
    return torch.empty(count, device=device).uniform_(*limits)


def log_uniform(limits: Range, count: int, device: torch.device) -> Tensor:
    """`(count,)` random numbers within positive limits, uniform in their logarithm."""
    return uniform((math.log(limits[0]), math.log(limits[1])), count, device).exp()


def add_impurity(lines: Lines, share: Tensor) -> Lines:
    """Each crystal with the lines of the next one at a share `(B,)` of its intensity: an impurity phase."""
    other = (lines.owner - 1) % lines.count
    strength = torch.zeros_like(share).scatter_reduce(0, lines.owner, lines.intensity, "amax", include_self=False)
    ratio = strength[other] / strength[lines.owner].clamp(min=1e-12)
    return lines.joined(lines.s, lines.intensity * share[other] * ratio, other, lines.tilt)


def _texture(lines: Lines, r: Tensor) -> Tensor:
    """March-Dollase factors along a random preferred direction of each crystal."""
    chosen = lines.directions[torch.randint(len(lines.directions), r.shape, device=r.device)]  # (B, 3)
    factors = march_dollase(lines.tilt.clamp(0, 1), r[lines.owner, None])
    return (factors * chosen[lines.owner]).sum(1)


def _peaks(
    lines: Lines, area: Tensor, wavelength: float, draws: dict[str, Tensor], share: Tensor
) -> tuple[Tensor, ...]:
    """Observed angles (Bragg's law and shifts of the instrument), areas (Lorentz-polarisation factor) and crystals."""
    reached = lines.s * (wavelength / 2) < _LARGEST_SINE
    s, owner = lines.s, lines.owner
    if not bool(reached.all()):
        s, area, owner = s[reached], area[reached], owner[reached]
    theta = bragg_angle(s, wavelength)
    angle = torch.rad2deg(2 * theta)
    area = area * lorentz_polarisation(angle) * share[owner]
    return angle + draws["zero"][owner] + draws["displacement"][owner] * theta.cos(), area, owner


def _convolve(peaks: tuple[Tensor, ...], effects: Effects, draws: dict[str, Tensor], count: int) -> Tensor:
    """Patterns `(B, points)` of lines with their profiles."""
    angle, area, owner = peaks  # each (n,)
    device = angle.device
    grids = _grids(effects.two_theta, effects.points, device)
    # Each line is shared among two reference angles and two grid points.
    node = torch.searchsorted(grids.nodes, angle, right=True).clamp(1, _NODES - 1) - 1
    part = ((angle - grids.nodes[node]) / (grids.nodes[node + 1] - grids.nodes[node])).clamp(0, 1)
    place = (angle - effects.two_theta[0]) / grids.step
    inside = (place >= 0) & (place < grids.length - 1)
    low = place.clamp(0, grids.length - 2).long()
    offset = place - low
    area = torch.where(inside, area, 0.0)
    first = (owner * _NODES + node) * grids.length + low
    grid = torch.zeros(count * _NODES * grids.length, device=device)
    for shift, weight in (
        (0, (1 - part) * (1 - offset)), (1, (1 - part) * offset),
        (grids.length, part * (1 - offset)), (grids.length + 1, part * offset),
    ):  # fmt: skip
        grid.index_add_(0, first + shift, area * weight)
    spectrum = torch.fft.rfft(grid.view(count, _NODES, grids.length))[..., : len(grids.frequency)]
    apply: Callable[..., Tensor] = _compile(_apply_profiles) if device.type == "cuda" else _apply_profiles
    settings = [draws[name] for name in ("width", "slope", "dip", "mixing", "asymmetry")]
    axial = effects.asymmetry[1] > 0
    total = torch.view_as_complex(
        apply(torch.view_as_real(spectrum), grids.nodes, grids.frequency, grids.slit, *settings, axial)
        * grids.correction[:, None]
    )
    pattern: Tensor = torch.fft.irfft(total, n=grids.length // _FINE)[:, : effects.points]
    return pattern.clamp(min=0)


class _Grids(NamedTuple):
    """Constants of the convolution."""

    step: float  # degrees between points of the fine grid
    length: int  # of the fine grid, padded so that tails do not wrap around
    nodes: Tensor  # (nodes,), reference angles in degrees
    frequency: Tensor  # (F,), cycles per degree
    correction: Tensor  # (F,), undoes the linear interpolation of lines on the grid
    slit: Tensor  # (2, phases), cosine and sine, averaged over the height of the slit


@lru_cache(maxsize=16)
def _grids(two_theta: Range, points: int, device: torch.device) -> _Grids:
    low, high = two_theta
    step = (high - low) / points / _FINE
    length = 512 * math.ceil(points * _FINE * 1.12 / 512)
    first = max(low, 4.0)
    nodes = torch.logspace(math.log10(first), math.log10(max(high, first + 1)), _NODES, device=device)
    frequency = torch.fft.rfftfreq(length, step, device=device)[: length // _FINE // 2 + 1]
    height, weight = (torch.as_tensor(part) for part in slit_quadrature(_SLIT_POINTS, _SLIT_DIGITS))
    phase = torch.arange(_MAX_PHASE * _PHASE_STEPS)[:, None] / _PHASE_STEPS * height.square()
    slit = torch.stack([phase.cos() @ weight, phase.sin() @ weight]).float().to(device)
    return _Grids(step, length, nodes, frequency, 1 / torch.sinc(frequency * step).square(), slit)


def _apply_profiles(
    spectrum: Tensor, nodes: Tensor, frequency: Tensor, slit: Tensor, width: Tensor, slope: Tensor, dip: Tensor,
    mixing: Tensor, asymmetry: Tensor, axial: bool,
) -> Tensor:  # fmt: skip
    """Spectra of the lines `(B, nodes, F, 2)` times Fourier transforms of the profiles, summed over nodes: `(B, F, 2)`.

    Profiles have area 1 and widths in degrees; the last axis holds real and imaginary parts.
    """
    theta = torch.deg2rad(nodes) / 2
    ratio = theta.tan() / math.tan(math.radians(_WIDTH_ANGLE / 2))
    square = caglioti(ratio, slope[:, None], dip[:, None])
    fwhm = (width[:, None] * square.clamp(min=0.1).sqrt())[..., None]  # (B, nodes, 1)
    lorentz = torch.exp(-math.pi * fwhm * frequency)
    gauss = torch.exp(-((math.pi * fwhm * frequency).square()) / (4 * math.log(2)))
    share = mixing[:, None, None]
    shape = share * lorentz + (1 - share) * gauss
    real, imaginary = spectrum.unbind(-1)
    if axial:
        # A ray at height h of the slit is observed lower by h² cot(2θ) / 2.
        reach = torch.rad2deg(0.5 * asymmetry.square()[:, None] / torch.tan(2 * theta))[..., None]
        phase = 2 * math.pi * reach * frequency
        place = (phase.abs() * _PHASE_STEPS).clamp(max=slit.shape[1] - 2)
        low = place.long()
        cosine, sine = torch.lerp(slit[:, low], slit[:, low + 1], place - low)
        sine = sine * phase.sign()
        real, imaginary = real * cosine - imaginary * sine, real * sine + imaginary * cosine
    return torch.stack([(real * shape).sum(1), (imaginary * shape).sum(1)], dim=-1)


def _background(angles: Tensor, effects: Effects, count: int) -> Tensor:
    """A smooth curve between 0 and 1: a rise to low angles and a few slow waves."""
    unit = (angles - effects.two_theta[0]) / (effects.two_theta[1] - effects.two_theta[0])
    rise = torch.exp(-unit / uniform((0.03, 0.3), count, angles.device)[:, None])
    waves = torch.zeros_like(rise)
    for k in (1, 2, 3):
        waves += uniform((-0.5, 0.5), count, angles.device)[:, None] / k * torch.cos(math.pi * k * unit)
    share = uniform((0.0, 1.0), count, angles.device)[:, None]
    curve: Tensor = share * rise + (1 - share) * (0.6 + waves).clamp(min=0)
    return curve / curve.amax(dim=1, keepdim=True).clamp(min=1e-6)
