"""Showers as sets of stations or as maps on the hexagonal grid (S2.8): what a network is given and asked."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.data.source import Axis, Source, Target, in_order
from vitreous.errors import check_choice
from vitreous.sim.drawn import drawn
from vitreous.sim.showers import SAMPLES, Array, Primaries, Seen, draw_primaries, observe

COORDINATES = ("x (stations)", "y (stations)", "start (µs)", "ln signal")
TARGETS = (Target("ln A"), Target("X_max", "g/cm²"))
LAYOUTS = ("set", "grid")
_CHUNK = 500  # showers at a time on a CPU
_SHOWN = tuple(f"sample {i}" for i in range(SAMPLES))


def known(seen: Seen, array: Array) -> tuple[Tensor, Tensor]:
    """Of each station that is read: its trace `(B, stations, SAMPLES)`, and `COORDINATES` `(B, stations, 4)`.

    Traces are in logarithms of the signal; places are relative to the station with the largest one, in units of the
    spacing, and times to when that one's trace begins.
    """
    total = seen.traces.sum(-1)
    hottest = total.argmax(1, keepdim=True)
    places = array.places().to(total.device) / array.spacing
    here = places - places[hottest]  # (B, stations, 2)
    start = (seen.start - seen.start.gather(1, hottest)) / 1000
    coords = torch.cat([here, torch.stack([start, total.clamp(min=1e-3).log()], dim=-1)], dim=-1)
    coords[..., :2] += 1e-6  # the hottest station is there, too
    return torch.log1p(seen.traces.clamp(min=0) * 10) / 2, coords * seen.read[..., None]


def as_set(seen: Seen, array: Array) -> Tensor:
    """Packed sets `(B, SAMPLES + 4, stations)`."""
    return torch.cat(known(seen, array), dim=-1).mT.contiguous()


def as_grid(seen: Seen, array: Array) -> Tensor:
    """Maps `(B, SAMPLES + 2, 2 rings + 1, 2 rings + 1)` in the axes of the grid: traces, start and signal."""
    traces, coords = known(seen, array)
    values = torch.cat([traces, coords[..., 2:]], dim=-1).mT
    side = 2 * array.rings + 1
    q, r = (array.axial() + array.rings).T.to(values.device)
    out = values.new_zeros(*values.shape[:2], side, side)
    out[:, :, q, r] = values
    return out


def answers(primaries: Primaries) -> Tensor:
    """What is asked, `(B, 2)`: `TARGETS`."""
    return torch.stack([primaries.nucleons.log(), primaries.depth], dim=1)


def showers(count: int, array: Array, layout: str, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """So many showers in a layout, and what is asked of them."""
    primaries = draw_primaries(count, array, device)
    return _MADE[layout](observe(primaries, array), array), answers(primaries)


_MADE = {"set": as_set, "grid": as_grid}


def shower_source(
    layout: str = "set", array: Array | None = None, train: int = 200, validation: int = 1500, test: int = 3000
) -> Source:
    """New showers at every step of a training, and fixed ones to validate and to test on, whatever the layout.

    What is fixed is kept in half precision, which is finer than any station and its clock.
    """
    check_choice("layout", layout, LAYOUTS)
    array = array or Array()

    def halved(count: int) -> tuple[Tensor, Tensor]:
        x, y = showers(count, array, layout)
        return x.half(), y

    x, y = drawn(halved, train + validation + test, 20248, _CHUNK)
    names = (*_SHOWN, *COORDINATES) if layout == "set" else (*_SHOWN, *COORDINATES[2:])
    axes = (Axis("station"),) if layout == "set" else (Axis("q", "stations"), Axis("r", "stations"))

    rows = in_order(train, validation, test)

    def fresh(count: int, device: torch.device) -> tuple[Tensor, Tensor]:
        return showers(count, array, layout, device)

    return Source(f"showers, {layout}", x, y, axes, names, (), TARGETS, rows, fresh=fresh)


def merit(estimate: NDArray[Any], truth: NDArray[Any]) -> float:
    """Of an estimate of ln A, how far protons and iron are apart: |μ₁ − μ₂| / √(σ₁² + σ₂²)."""
    light, heavy = (estimate[np.isclose(truth, np.log(a), atol=1e-3)] for a in (1, 56))
    return float(abs(light.mean() - heavy.mean()) / np.sqrt(light.var() + heavy.var()))
