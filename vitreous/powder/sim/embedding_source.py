"""Simulated references and measurements of mixtures, for a model that finds the crystals of a measurement.

A reference is the clean pattern of one crystal. A measurement has one to four crystals, each with a slightly changed
cell, as solid solutions and temperature change it, with texture and line widths of its own.
"""

from itertools import count as numbers_from

import torch
from torch import Tensor

from vitreous.data.simulated import fixed_samples
from vitreous.data.source import Source, Target, consecutive_parts
from vitreous.powder.grid import POINTS, Q_AXIS
from vitreous.powder.sim.crystals import Device, Lines
from vitreous.powder.sim.effects import CLEAN, Effects
from vitreous.powder.sim.measurement import diffract, draw_values, measure, record, uniform
from vitreous.powder.sim.source import equal_counts, to_q
from vitreous.powder.sim.space_groups import SYSTEMS
from vitreous.powder.sim.symmetry_source import crystals_of_atoms, shortened
from vitreous.run.embedding import Contents, encode_contents

MIXED = Effects(
    counts=(100.0, 1e5), width=(0.04, 0.4), background=(0.0, 0.4), hump=(0.0, 0.15), start=(2.0, 15.0),
    texture=(0.5, 1.6), zero=(-0.08, 0.08), displacement=(-0.08, 0.08), impurity=(0.0, 0.0),
)  # fmt: skip
"""Effects of the measurements."""
REFERENCE = Effects.from_dict(CLEAN.to_dict() | {"start": (5.0, 5.0)})
"""Effects of the references: none, from 5° of copper radiation on."""
MOST = 4
"""Crystals in a measurement, at most; `MOST` crystals make `MOST` measurements."""
LEAST_SHARE = 0.05
_NUMBERS = (0.4, 0.25, 0.2, 0.15)  # shares of measurements with one to four crystals
_INSTRUMENT = ("zero", "displacement", "alpha2", "slope", "dip", "asymmetry")  # the same for all crystals of a sample
_STRAIN, _SHAPE = 0.01, 0.005  # deviations of lengths, uniform up to these: of all alike, and along each axis
_INTENSITY = 0.2  # deviation of the logarithm of an intensity, for atoms unlike those of the reference
_AREA_FROM = 5.0  # degrees: shares are of the intensity from here on
_CHUNK = 256


def embedding_samples(count: int, device: Device = "cpu", effects: Effects = MIXED) -> tuple[Tensor, Tensor]:
    """References and measurements on the grid in q `(count, 1, POINTS)` and their contents `(count, 1 + 2 · MOST)`.

    `MOST` references are followed by as many measurements of these crystals, and so on.
    """
    blocks = -(-count // (2 * MOST))
    total = blocks * MOST
    device = torch.device(device)
    place = torch.randperm(total, device=device)
    instruments = draw_values(effects, blocks, device)
    references = torch.zeros(total, 1, POINTS, device=device)
    components = torch.zeros(total, effects.points, device=device)
    for system, part in zip(SYSTEMS, place.split(equal_counts(total)), strict=True):
        if len(part):
            lines = crystals_of_atoms(system, len(part), effects.s_max, device).lines
            references[part] = to_q(measure(lines, REFERENCE), REFERENCE)
            draws = draw_values(effects, len(part), device)
            draws |= {name: instruments[name][part // MOST] for name in _INSTRUMENT}
            components[part] = diffract(changed(lines), effects, draws)
    area = (components * (effects.angles(device) >= _AREA_FROM)).sum(1, keepdim=True)
    components = components / area.clamp(min=1e-12)
    shares = random_shares(blocks, device)  # (blocks, MOST, MOST)
    mixed = (shares @ components.view(blocks, MOST, -1)).flatten(0, 1)
    measured = shortened(to_q(record(mixed, effects, draw_values(effects, total, device)), effects))
    x = torch.cat([part.view(blocks, MOST, 1, POINTS) for part in (references, measured)], dim=1)
    return x.flatten(0, 1)[:count], _labels(shares)[:count]


def changed(lines: Lines) -> Lines:
    """Crystals with slightly other cells of the same symmetry, and slightly other intensities."""
    axes = uniform((-_SHAPE, _SHAPE), lines.count * len(lines.directions), lines.s.device)
    along = (lines.tilt @ lines.directions.T) * axes.view(lines.count, -1)[lines.owner]  # (n, k)
    strain = uniform((-_STRAIN, _STRAIN), lines.count, lines.s.device)[lines.owner] + along.sum(1)
    intensity = lines.intensity * torch.exp(_INTENSITY * torch.randn_like(lines.s))
    return Lines(lines.s * (1 - strain), intensity, lines.owner, lines.tilt, lines.directions, lines.count)


def random_shares(blocks: int, device: Device = "cpu") -> Tensor:
    """Shares `(blocks, MOST, MOST)` of the crystals (last axis) of a block in its measurements.

    Measurement i always has crystal i.
    """
    count = blocks * MOST
    number = 1 + torch.multinomial(torch.tensor(_NUMBERS, device=device), count, replacement=True)[:, None]
    order = torch.rand(blocks, MOST, MOST, device=device)
    order.diagonal(dim1=1, dim2=2).fill_(-1)
    present = order.view(count, MOST).argsort(1).argsort(1) < number
    weight = torch.where(present, -torch.rand(count, MOST, device=device).clamp(min=1e-6).log(), 0.0)
    weight = weight / weight.sum(1, keepdim=True).clamp(min=1e-6)
    share = torch.where(present, LEAST_SHARE + (1 - LEAST_SHARE * number) * weight, 0.0)
    return (share / share.sum(1, keepdim=True)).view(blocks, MOST, MOST)


def _labels(shares: Tensor) -> Tensor:
    """Labels `(blocks · 2 · MOST, 1 + 2 · MOST)` of references and measurements."""
    blocks, device = len(shares), shares.device
    things = torch.arange(blocks * MOST, device=device).view(blocks, 1, MOST).expand(-1, MOST, -1)
    own = torch.full_like(things, -1)
    own[..., 0] = things[:, 0]
    measured = torch.where(shares > 0, things, -1)
    reference = torch.zeros(blocks, 2 * MOST, device=device)
    reference[:, :MOST] = 1
    both = (torch.cat(pair, dim=1).flatten(0, 1) for pair in ((own, measured), (torch.zeros_like(shares), shares)))
    return encode_contents(Contents(reference.flatten(), *both))


def embedding_source(train: int = 64, validation: int = 2048) -> Source:
    """References and measurements, half each; training draws new ones."""
    first = numbers_from(0, _CHUNK)

    def chunk(count: int) -> tuple[Tensor, Tensor]:
        x, y = embedding_samples(count)
        things = y[:, 1 : 1 + MOST]
        y[:, 1 : 1 + MOST] = torch.where(things >= 0, things + next(first), things)
        return x, y

    x, y = fixed_samples(chunk, train + validation, 20251, _CHUNK)
    names = ["reference", *(f"crystal {i}" for i in range(MOST)), *(f"share {i}" for i in range(MOST))]
    return Source(
        "simulated mixtures of crystals", x, y, (Q_AXIS,), ("intensity",), (), tuple(map(Target, names)),
        consecutive_parts(train, validation), allow_constant=True, fresh=embedding_samples,
    )  # fmt: skip
