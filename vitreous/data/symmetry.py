"""What leaves a physical system the same: translations over its edges, turns and mirror images of its grid.

Exact: samples change places, and signs where the edge demands it; nothing is interpolated. Nothing here asks the device
for a value.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from vitreous.errors import InputError


def roll(x: Tensor, shift: Tensor, rule: str) -> Tensor:
    """Each grid moved over its edges by its own shift.

    Args:
        x: `(B, C, rows, columns)`.
        shift: `(B, 2)`, whole rows and columns, from 0 to below twice the side.
        rule: one of `ROLLS`.
    """
    rows, columns = x.shape[2:]
    row = torch.arange(rows, device=x.device)[:, None] + shift[:, 0, None, None]
    column = torch.arange(columns, device=x.device) + shift[:, 1, None, None]
    place, sign = ROLLS[rule](row, column, rows, columns)  # (B, rows, columns)
    moved = _taken(x, place)
    return moved if sign is None else moved * sign.unsqueeze(1).to(x.dtype)


def _periodic(row: Tensor, column: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor | None]:
    return row % rows * columns + column % columns, None


def _skewed(row: Tensor, column: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor | None]:
    return (row * columns + column) % (rows * columns), None


def _antiperiodic(row: Tensor, column: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor | None]:
    place, _ = _periodic(row, column, rows, columns)
    return place, 1 - 2 * ((row // rows + column // columns) % 2)


ROLLS: dict[str, Callable[[Tensor, Tensor, int, int], tuple[Tensor, Tensor | None]]] = {
    "periodic": _periodic, "skewed": _skewed, "antiperiodic": _antiperiodic
}  # fmt: skip
"""What follows after an edge: the other side | skewed: the next row, as in a book | the other side, of other sign."""

TURNS = {"half": ((0, False), (2, False)), "square": tuple((k, m) for k in range(4) for m in (False, True))}
"""Quarter turns, and whether mirrored, among which `turn` chooses: half turns | all that leave a square a square."""


def turn(x: Tensor, which: Tensor, kind: str) -> Tensor:
    """Each grid turned and mirrored in its own way.

    Args:
        x: `(B, C, rows, columns)`, as many rows as columns for `square`.
        which: `(B,)`, numbers of the entries of `TURNS[kind]`.
        kind: one of `TURNS`.
    """
    rows, columns = x.shape[2:]
    if kind == "square" and rows != columns:
        raise InputError(f"turn: found a grid of {rows} × {columns}, expected a square one for quarter turns")
    grid = torch.arange(rows * columns, device=x.device).view(rows, columns)
    ways = [torch.rot90(grid.T if mirrored else grid, quarter, (0, 1)) for quarter, mirrored in TURNS[kind]]
    return _taken(x, torch.stack(ways)[which])


def _taken(x: Tensor, place: Tensor) -> Tensor:
    """The samples of `(B, C, *grid)` at flat places `(B, *grid)`."""
    index = place.flatten(1).unsqueeze(1).expand(-1, x.shape[1], -1)
    return x.flatten(2).gather(2, index).view(x.shape)
