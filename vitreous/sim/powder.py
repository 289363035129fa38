"""Powder patterns as an instrument measures them, in batches, on any device.

Lines are laid on fine grids, one for each of a few angles, and each grid is convolved with the profile of its angle by
the profile's analytic Fourier transform; between those angles the profiles are interpolated.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from vitreous.errors import InputError
from vitreous.settings import Settings
from vitreous.sim.crystals import Crystals, Lines, random_crystals

Range = tuple[float, ...]

_NODES = 6  # angles at which the profile is computed
_TURNED, _STEPS = 256, 64  # radians by which the slit turns a phase at most, and how finely they are tabulated
_FINE = 2  # grid points of the lines for one of the pattern
_AXIAL = (  # Gauss-Legendre points and weights on [0, 1]: where in the height of the slit
    (0.0198551, 0.1016668, 0.2372338, 0.4082827, 0.5917173, 0.7627662, 0.8983332, 0.9801449),
    (0.0506143, 0.1111905, 0.1568533, 0.1813419, 0.1813419, 0.1568533, 0.1111905, 0.0506143),
)


@dataclass(frozen=True)
class Effects(Settings):
    """What a measurement does to a pattern: each a range from which every pattern draws; equal ends fix it.

    The defaults are a laboratory diffractometer with copper radiation; `CLEAN` has everything off but the width.
    """

    two_theta: Range = (0.0, 90.0)
    """First and last angle of the grid, in degrees."""
    points: int = 4500
    """Points of the grid."""
    wavelength: float = 1.540598
    """In ångström; of Kα1 where there is a doublet."""
    wavelength2: float = 1.544426
    """Of Kα2, in ångström."""
    alpha2: Range = (0.0, 0.5)
    """Intensity of Kα2 relative to Kα1; 0 to 1, 0: monochromatic."""
    start: Range = (2.0, 8.0)
    """Angle below which nothing was measured, in degrees; 0 to 90."""
    zero: Range = (-0.04, 0.04)
    """Zero shift, in degrees; -0.5 to 0.5."""
    displacement: Range = (-0.03, 0.03)
    """Shift by a displaced sample at low angle, in degrees: it falls as cos θ; -0.5 to 0.5."""
    width: Range = (0.05, 0.15)
    """Full width at half maximum at 2θ = 30°, in degrees; 0.01 to 2."""
    slope: Range = (0.0, 0.3)
    """How Caglioti's width² grows with tan²θ, relative to its value at 30°; 0 to 0.5."""
    dip: Range = (-0.3, 0.0)
    """The same with tan θ: the width's minimum; -0.4 to 0."""
    mixing: Range = (0.1, 0.9)
    """Lorentzian share of the pseudo-Voigt profile; 0 to 1."""
    asymmetry: Range = (0.0, 0.02)
    """Axial divergence, half the slit's height over the radius: tails towards low angles; 0 to 0.05."""
    texture: Range = (0.7, 1.3)
    """March-Dollase parameter of preferred orientation; 0.2 to 5, 1: none."""
    background: Range = (0.0, 0.05)
    """Height of a sloping and curved background relative to the strongest line; 0 to 10."""
    hump: Range = (0.0, 0.03)
    """Height of an amorphous hump relative to the strongest line; 0 to 10."""
    impurity: Range = (0.0, 0.02)
    """Lines of another crystal, relative to the crystal's own; 0 to 1."""
    counts: Range = (3e3, 1e5)
    """Counts in the strongest line, drawn by their logarithm, with Poisson's noise; 0: no noise."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("two_theta", *_ALLOWED):
            if len(getattr(self, name)) != 2:
                found = " ".join(f"{value:g}" for value in getattr(self, name))
                raise InputError(f"{name}: found {found}, expected two numbers, the ends of a range")
        low, high = self.two_theta
        if not 0 <= low < high <= 180:
            raise InputError(f"two_theta: found {low:g} to {high:g}, expected an ascending range within 0 to 180°")
        self._at_least(50, "points")
        for name, (least, greatest) in _ALLOWED.items():
            first, last = getattr(self, name)
            if not least <= first <= last <= greatest:
                raise InputError(
                    f"{name}: found {first:g} to {last:g}, expected a range within {least:g} to {greatest:g}"
                )
        if 0 < self.counts[1] < 1:
            raise InputError(f"counts: found {self.counts[0]:g} to {self.counts[1]:g}, expected 0 or at least 1")
        for name in ("wavelength", "wavelength2"):
            if not 0.1 <= getattr(self, name) <= 10:
                raise InputError(f"{name}: found {getattr(self, name):g}, expected 0.1 to 10 Å")

    @property
    def s_max(self) -> float:
        """The largest 1/d that is measured, in 1/Å."""
        return 2 * math.sin(math.radians(self.two_theta[1] / 2)) / self.wavelength

    def angles(self, device: torch.device | str = "cpu") -> Tensor:
        """The grid `(points,)`, in degrees."""
        low, high = self.two_theta
        return low + (high - low) / self.points * torch.arange(self.points, dtype=torch.float64, device=device)


_ALLOWED: dict[str, Range] = {
    "alpha2": (0, 1), "start": (0, 90), "zero": (-0.5, 0.5), "displacement": (-0.5, 0.5), "width": (0.01, 2),
    "slope": (0, 0.5), "dip": (-0.4, 0), "mixing": (0, 1), "asymmetry": (0, 0.05), "texture": (0.2, 5),
    "background": (0, 10), "hump": (0, 10), "impurity": (0, 1), "counts": (0, 1e9),
}  # fmt: skip

_OFF: Range = (0.0, 0.0)
CLEAN = Effects(
    alpha2=_OFF, start=_OFF, zero=_OFF, displacement=_OFF, slope=_OFF, dip=_OFF, width=(0.08, 0.08), mixing=(0.5, 0.5),
    asymmetry=_OFF, texture=(1.0, 1.0), background=_OFF, hump=_OFF, impurity=_OFF, counts=_OFF,
)  # fmt: skip


def random_patterns(
    system: str, count: int, effects: Effects, device: torch.device | str = "cpu"
) -> tuple[Tensor, Crystals]:
    """Measured patterns `(count, points)` of random crystals of a system, and the crystals."""
    crystals = random_crystals(system, count, effects.s_max, device)
    return measure(crystals.lines, effects), crystals


def lorentz_polarisation(two_theta: Tensor) -> Tensor:
    """(1 + cos² 2θ) / (sin² θ cos θ) of angles in degrees: unpolarised radiation, no monochromator."""
    theta = torch.deg2rad(two_theta) / 2
    return (1 + torch.cos(2 * theta).square()) / (theta.sin().square() * theta.cos())


def march_dollase(cos2: Tensor, r: Tensor) -> Tensor:
    """The factor of preferred orientation for cos² of the angle to the preferred direction."""
    return (r.square() * cos2 + (1 - cos2) / r).pow(-1.5)


class _Peaks(NamedTuple):
    """Lines where the instrument sees them."""

    angle: Tensor  # (n,), 2θ in degrees
    area: Tensor  # (n,)
    owner: Tensor  # (n,)


def measure(lines: Lines, effects: Effects) -> Tensor:
    """Patterns `(B, points)`: counts, or, with no noise, intensities of which the strongest line is 1."""
    e, count, device = effects, lines.count, lines.s.device
    draw = {name: uniform(getattr(e, name), count, device) for name in _ALLOWED if name != "counts"}
    if e.impurity[1] > 0:
        lines = contaminated(lines, draw["impurity"])
    area = lines.intensity
    if e.texture != (1.0, 1.0):
        area = area * _texture(lines, draw["texture"])
    peaks = _peaks(lines, area, e.wavelength, draw, torch.ones_like(draw["alpha2"]))
    if e.alpha2[1] > 0:
        second = _peaks(lines, area, e.wavelength2, draw, draw["alpha2"])
        peaks = _Peaks(*(torch.cat(pair) for pair in zip(peaks, second, strict=True)))
    clean = _convolved(peaks, e, draw, count)
    angles = e.angles(device).float()
    seen = angles >= draw["start"][:, None]
    clean = clean / (clean * seen).amax(dim=1, keepdim=True).clamp(min=1e-12)
    if e.background[1] > 0:
        clean = clean + draw["background"][:, None] * _background(angles, e, count)
    if e.hump[1] > 0:
        centre, spread = uniform((15.0, 35.0), count, device), uniform((3.0, 8.0), count, device)
        shape = torch.exp(-0.5 * ((angles - centre[:, None]) / spread[:, None]).square())
        clean = clean + draw["hump"][:, None] * shape
    clean = clean * seen
    if e.counts[1] == 0:
        return clean
    top = uniform((math.log(max(1.0, e.counts[0])), math.log(e.counts[1])), count, device).exp()
    return torch.poisson(clean.clamp(min=0) * top[:, None])


def uniform(limits: Range, count: int, device: torch.device) -> Tensor:
    """`(count,)` numbers within the limits."""
    return torch.empty(count, device=device).uniform_(*limits)


def contaminated(lines: Lines, share: Tensor) -> Lines:
    """Each crystal with the lines of the next one, weaker: an impurity phase."""
    other = (lines.owner - 1) % lines.count
    strength = torch.zeros_like(share).scatter_reduce(0, lines.owner, lines.intensity, "amax", include_self=False)
    ratio = strength[other] / strength[lines.owner].clamp(min=1e-12)
    return Lines(
        torch.cat([lines.s, lines.s]),
        torch.cat([lines.intensity, lines.intensity * share[other] * ratio]),
        torch.cat([lines.owner, other]),
        torch.cat([lines.tilt, lines.tilt]),
        lines.directions,
        lines.count,
    )


def _texture(lines: Lines, r: Tensor) -> Tensor:
    """March-Dollase along one of the directions that the crystal allows, drawn for each pattern."""
    chosen = lines.directions[torch.randint(len(lines.directions), r.shape, device=r.device)]  # (B, 3)
    factors = march_dollase(lines.tilt.clamp(0, 1), r[lines.owner, None])
    return (factors * chosen[lines.owner]).sum(1)


def _peaks(lines: Lines, area: Tensor, wavelength: float, draw: dict[str, Tensor], share: Tensor) -> _Peaks:
    """Bragg's law, the shifts of the instrument, and the Lorentz-polarisation factor."""
    sine = lines.s * (wavelength / 2)
    seen = sine < 0.99999
    sine, area, owner = (
        (x[seen] for x in (sine, area, lines.owner)) if not bool(seen.all()) else (sine, area, lines.owner)
    )
    theta = torch.arcsin(sine)
    angle = torch.rad2deg(2 * theta)
    area = area * lorentz_polarisation(angle) * share[owner]
    return _Peaks(angle + draw["zero"][owner] + draw["displacement"][owner] * theta.cos(), area, owner)


def _convolved(peaks: _Peaks, e: Effects, draw: dict[str, Tensor], count: int) -> Tensor:
    """Lines to profiles: `(B, points)`."""
    device = peaks.angle.device
    plan = _plan(e.two_theta, e.points, device)
    # Between which angles of known profile, and between which grid points, each line lies.
    node = torch.searchsorted(plan.nodes, peaks.angle, right=True).clamp(1, _NODES - 1) - 1
    part = ((peaks.angle - plan.nodes[node]) / (plan.nodes[node + 1] - plan.nodes[node])).clamp(0, 1)
    place = (peaks.angle - e.two_theta[0]) / plan.step
    inside = (place >= 0) & (place < plan.length - 1)
    low = place.clamp(0, plan.length - 2).long()
    offset = place - low
    area = torch.where(inside, peaks.area, 0.0)
    first = (peaks.owner * _NODES + node) * plan.length + low
    grid = torch.zeros(count * _NODES * plan.length, device=device)
    for shift, weight in (
        (0, (1 - part) * (1 - offset)), (1, (1 - part) * offset),
        (plan.length, part * (1 - offset)), (plan.length + 1, part * offset),
    ):  # fmt: skip
        grid.index_add_(0, first + shift, area * weight)
    spectrum = torch.fft.rfft(grid.view(count, _NODES, plan.length))[..., : len(plan.frequency)]
    apply: Callable[..., Tensor] = _compiled(_under_profiles) if device.type == "cuda" else _under_profiles
    settings = [draw[name] for name in ("width", "slope", "dip", "mixing", "asymmetry")]
    total = torch.view_as_complex(
        apply(torch.view_as_real(spectrum), plan.nodes, plan.frequency, plan.slit, *settings, e.asymmetry[1] > 0)
        * plan.correction[:, None]
    )
    pattern: Tensor = torch.fft.irfft(total, n=plan.length // _FINE)[:, : e.points]
    return pattern.clamp(min=0)


class _Plan(NamedTuple):
    step: float  # degrees between points of the fine grid
    length: int  # of the fine grid, padded so that tails do not come back at the other end
    nodes: Tensor  # (nodes,), degrees
    frequency: Tensor  # (F,), cycles a degree
    correction: Tensor  # (F,), undoes the linear laying of lines on the grid
    slit: Tensor  # (2, phases), cosine and sine, averaged over the height of the slit


@lru_cache(maxsize=16)
def _plan(two_theta: Range, points: int, device: torch.device) -> _Plan:
    low, high = two_theta
    step = (high - low) / points / _FINE
    length = 512 * math.ceil(points * _FINE * 1.12 / 512)
    first = max(low, 4.0)
    nodes = torch.logspace(math.log10(first), math.log10(max(high, first + 1)), _NODES, device=device)
    frequency = torch.fft.rfftfreq(length, step, device=device)[: length // _FINE // 2 + 1]
    height, weight = torch.tensor(_AXIAL, dtype=torch.float64)
    phase = torch.arange(_TURNED * _STEPS)[:, None] / _STEPS * height.square()
    slit = torch.stack([phase.cos() @ weight, phase.sin() @ weight]).float().to(device)
    return _Plan(step, length, nodes, frequency, 1 / torch.sinc(frequency * step).square(), slit)


@lru_cache(maxsize=4)
def _compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """On a GPU, in one pass over memory instead of sixty."""
    return torch.compile(function, dynamic=True)


def _under_profiles(
    spectrum: Tensor, nodes: Tensor, frequency: Tensor, slit: Tensor, width: Tensor, slope: Tensor, dip: Tensor,
    mixing: Tensor, asymmetry: Tensor, axial: bool,
) -> Tensor:  # fmt: skip
    """The lines' spectra `(B, nodes, F, 2)` times the profiles' Fourier transforms, summed over nodes: `(B, F, 2)`.

    Areas are 1, widths in degrees; the last axis holds real and imaginary parts.
    """
    theta = torch.deg2rad(nodes) / 2
    ratio = theta.tan() / math.tan(math.radians(15))
    square = 1 + slope[:, None] * (ratio.square() - 1) + dip[:, None] * (ratio - 1)
    fwhm = (width[:, None] * square.clamp(min=0.1).sqrt())[..., None]  # (B, nodes, 1)
    lorentz = torch.exp(-math.pi * fwhm * frequency)
    gauss = torch.exp(-((math.pi * fwhm * frequency).square()) / (4 * math.log(2)))
    share = mixing[:, None, None]
    shape = share * lorentz + (1 - share) * gauss
    real, imaginary = spectrum.unbind(-1)
    if axial:
        # A ray at height h of the slit is seen lower by h² cot(2θ) / 2.
        reach = torch.rad2deg(0.5 * asymmetry.square()[:, None] / torch.tan(2 * theta))[..., None]
        phase = 2 * math.pi * reach * frequency
        place = (phase.abs() * _STEPS).clamp(max=slit.shape[1] - 2)
        low = place.long()
        cosine, sine = torch.lerp(slit[:, low], slit[:, low + 1], place - low)
        sine = sine * phase.sign()
        real, imaginary = real * cosine - imaginary * sine, real * sine + imaginary * cosine
    return torch.stack([(real * shape).sum(1), (imaginary * shape).sum(1)], dim=-1)


def _background(angles: Tensor, e: Effects, count: int) -> Tensor:
    """A smooth curve between 0 and 1: a rise to low angles and a few slow waves."""
    unit = (angles - e.two_theta[0]) / (e.two_theta[1] - e.two_theta[0])
    rise = torch.exp(-unit / uniform((0.03, 0.3), count, angles.device)[:, None])
    waves = torch.zeros_like(rise)
    for k in (1, 2, 3):
        waves += uniform((-0.5, 0.5), count, angles.device)[:, None] / k * torch.cos(math.pi * k * unit)
    share = uniform((0.0, 1.0), count, angles.device)[:, None]
    curve: Tensor = share * rise + (1 - share) * (0.6 + waves).clamp(min=0)
    return curve / curve.amax(dim=1, keepdim=True).clamp(min=1e-6)
