"""Showers as sets of stations or as maps on the hexagonal grid (S2.8): inputs, targets and source."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.core.errors import check_choice
from vitreous.data.simulated import fixed_samples
from vitreous.data.source import Axis, Source, Target, consecutive_parts
from vitreous.gallery.showers.simulate import SAMPLES, Array, Primaries, Recording, draw_primaries, observe

COORDINATES = ("x (stations)", "y (stations)", "start (µs)", "ln signal")
TARGETS = (Target("ln A"), Target("X_max", "g/cm²"))
LAYOUTS = ("set", "grid")
_CHUNK = 500  # showers simulated at a time on a CPU
_SAMPLE_NAMES = tuple(f"sample {i}" for i in range(SAMPLES))


def station_features(recording: Recording, array: Array) -> tuple[Tensor, Tensor]:
    """Trace `(B, stations, SAMPLES)` and `COORDINATES` `(B, stations, 4)` of each station that is read.

    Traces are logarithms of the signal. Positions are relative to the station with the largest signal, in units of the
    spacing, and times relative to the start of its trace.
    """
    total = recording.traces.sum(-1)
    hottest = total.argmax(1, keepdim=True)
    positions = array.positions().to(total.device) / array.spacing
    relative = positions - positions[hottest]  # (B, stations, 2)
    start = (recording.start - recording.start.gather(1, hottest)) / 1000
    coords = torch.cat([relative, torch.stack([start, total.clamp(min=1e-3).log()], dim=-1)], dim=-1)
    coords[..., :2] += 1e-6  # an element of zeros would count as missing
    return torch.log1p(recording.traces.clamp(min=0) * 10) / 2, coords * recording.read[..., None]


def to_set(recording: Recording, array: Array) -> Tensor:
    """Packed sets `(B, SAMPLES + 4, stations)`."""
    return torch.cat(station_features(recording, array), dim=-1).mT.contiguous()


def to_grid(recording: Recording, array: Array) -> Tensor:
    """Maps `(B, SAMPLES + 2, 2 rings + 1, 2 rings + 1)` in axial coordinates: traces, start and signal."""
    traces, coords = station_features(recording, array)
    values = torch.cat([traces, coords[..., 2:]], dim=-1).mT
    side = 2 * array.rings + 1
    q, r = (array.axial() + array.rings).T.to(values.device)
    out = values.new_zeros(*values.shape[:2], side, side)
    out[:, :, q, r] = values
    return out


def target_values(primaries: Primaries) -> Tensor:
    """The values of `TARGETS`, `(B, 2)`."""
    return torch.stack([primaries.nucleons.log(), primaries.depth], dim=1)


def simulate_showers(
    count: int, array: Array, layout: str, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Showers in a layout, and the values of `TARGETS`."""
    primaries = draw_primaries(count, array, device)
    return _LAYOUTS[layout](observe(primaries, array), array), target_values(primaries)


_LAYOUTS = {"set": to_set, "grid": to_grid}


def shower_source(
    layout: str = "set", array: Array | None = None, train: int = 200, validation: int = 1500, test: int = 3000
) -> Source:
    """New showers at every training step, and fixed validation and test parts, the same for every layout.

    Fixed samples are stored in half precision, which is finer than the resolution of the stations.

    Args:
        layout: set | grid.
        array: the detector and the range of showers.
        train: samples that set the scaling; training itself draws new ones at every step.
        validation, test: fixed samples.
    """
    check_choice("layout", layout, LAYOUTS)
    array = array or Array()

    def simulate_half(count: int) -> tuple[Tensor, Tensor]:
        x, y = simulate_showers(count, array, layout)
        return x.half(), y

    x, y = fixed_samples(simulate_half, train + validation + test, 20248, _CHUNK)
    names = (*_SAMPLE_NAMES, *COORDINATES) if layout == "set" else (*_SAMPLE_NAMES, *COORDINATES[2:])
    axes = (Axis("station"),) if layout == "set" else (Axis("q", "stations"), Axis("r", "stations"))
    rows = consecutive_parts(train, validation, test)

    def fresh(count: int, device: torch.device) -> tuple[Tensor, Tensor]:
        return simulate_showers(count, array, layout, device)

    return Source(f"showers, {layout}", x, y, axes, names, (), TARGETS, rows, fresh=fresh)


def merit_factor(estimate: NDArray[Any], truth: NDArray[Any]) -> float:
    """Merit factor of an estimate of ln A, the separation of protons and iron: |μ₁ − μ₂| / √(σ₁² + σ₂²)."""
    light, heavy = (estimate[np.isclose(truth, np.log(a), atol=1e-3)] for a in (1, 56))
    return float(abs(light.mean() - heavy.mean()) / np.sqrt(light.var() + heavy.var()))
