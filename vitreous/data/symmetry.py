"""Symmetry operations on grids: translations with boundary conditions, rotations and reflections.

They are exact: values move and may change sign, without interpolation. No operation waits for the device.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from vitreous.core.errors import InputError


def roll(x: Tensor, shift: Tensor, rule: str) -> Tensor:
    """Translate each grid by its own shift, with a boundary condition.

    Args:
        x: `(B, C, rows, columns)`.
        shift: `(B, 2)`, rows and columns, integers from 0 to below twice the side.
        rule: one of `ROLLS`.
    """
    rows, columns = x.shape[2:]
    row = torch.arange(rows, device=x.device)[:, None] + shift[:, 0, None, None]
    column = torch.arange(columns, device=x.device) + shift[:, 1, None, None]
    source, sign = ROLLS[rule](row, column, rows, columns)  # (B, rows, columns)
    moved = _gather(x, source)
    return moved if sign is None else moved * sign.unsqueeze(1).to(x.dtype)


def _periodic(row: Tensor, column: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor | None]:
    return row % rows * columns + column % columns, None


def _skewed(row: Tensor, column: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor | None]:
    return (row * columns + column) % (rows * columns), None


def _antiperiodic(row: Tensor, column: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor | None]:
    source, _ = _periodic(row, column, rows, columns)
    return source, 1 - 2 * ((row // rows + column // columns) % 2)


ROLLS: dict[str, Callable[[Tensor, Tensor, int, int], tuple[Tensor, Tensor | None]]] = {
    "periodic": _periodic, "skewed": _skewed, "antiperiodic": _antiperiodic
}  # fmt: skip
"""Boundary conditions: periodic | skewed: a row continues in the next row | antiperiodic: the sign changes."""

TURNS = {
    "half": ((0, False), (2, False)),
    "square": tuple((quarter, mirror) for quarter in range(4) for mirror in (False, True)),
}
"""Operations of each group, as quarter turns and reflection: half turns | all symmetries of a square."""


def turn(x: Tensor, which: Tensor, kind: str) -> Tensor:
    """Rotate and reflect each grid by its own operation.

    Args:
        x: `(B, C, rows, columns)`, square grids for `square`.
        which: `(B,)`, indices into `TURNS[kind]`.
        kind: one of `TURNS`.
    """
    rows, columns = x.shape[2:]
    if kind == "square" and rows != columns:
        raise InputError(f"turn: found a grid of {rows} × {columns}, expected a square one for quarter turns")
    grid = torch.arange(rows * columns, device=x.device).view(rows, columns)
    sources = [torch.rot90(grid.T if mirrored else grid, quarter, (0, 1)) for quarter, mirrored in TURNS[kind]]
    return _gather(x, torch.stack(sources)[which])


def _gather(x: Tensor, source: Tensor) -> Tensor:
    """Values of `x` `(B, C, *grid)` at the flat indices `source` `(B, *grid)`."""
    index = source.flatten(1).unsqueeze(1).expand(-1, x.shape[1], -1)
    return x.flatten(2).gather(2, index).view(x.shape)
