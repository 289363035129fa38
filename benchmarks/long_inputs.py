"""Memory and time of one attention layer against the number of tokens: forward and backward, batch 1.

    python -m benchmarks.long_inputs                           # every kind on the CPU
    python -m benchmarks.long_inputs --only full --device cuda

Every cell is measured in a process of its own, after a little of the same on 450 tokens. Memory is the growth of the
peak over what there was just before the layer ran: resident memory of the process, or torch's allocator on a GPU. Time
is the median of three runs, or one that takes over 20 seconds. Exponents are fitted over the three longest inputs.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from vitreous.bench.fresh_process import ProcessDiedError, run_in_fresh_process
from vitreous.bench.memory import Peak, available_memory, is_out_of_memory, limit_memory
from vitreous.bench.tables import format_size, format_time
from vitreous.core.errors import check_choice
from vitreous.nn.attention import Attention
from vitreous.nn.attention.bias import Layout
from vitreous.nn.attention.latent import Latent
from vitreous.nn.attention.lsh import Lsh
from vitreous.nn.attention.sparse import Strided, Window

WIDTH, HEADS = 128, 4
TOKENS = (450, 1_800, 4_500, 18_000, 45_000)
MATERIALISED = 4_500  # tokens past which the matrices are not made: they would fill any machine
SLOW = 20.0  # seconds over which one run must do


class Materialised(nn.Module):
    """softmax(QKᵀ)V with all weights in memory: the path of our layer that records them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Attention(WIDTH, HEADS)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x, sink={})
        return out


def _line(tokens: int) -> Layout:
    return Layout(torch.arange(tokens)[:, None], (tokens,), 0)


KINDS: dict[str, Callable[[int], nn.Module]] = {
    "materialised": lambda tokens: Materialised(),
    "full": lambda tokens: Attention(WIDTH, HEADS),
    "window": lambda tokens: Window((32,), _line(tokens), WIDTH, HEADS),
    "strided": lambda tokens: Strided(0, _line(tokens), WIDTH, HEADS),
    "lsh": lambda tokens: Lsh(2, 0, _line(tokens), WIDTH, HEADS),
    "latent": lambda tokens: Latent(64, _line(tokens), WIDTH, HEADS),
}
"""From the number of tokens to a layer `(1, tokens, 128) -> (1, tokens, 128)`."""


@dataclass(frozen=True)
class Cell:
    """Seconds and bytes of one layer, or a word for why there are none."""

    seconds: float = 0.0
    bytes: int = 0
    why: str = ""


def once(layer: nn.Module, x: Tensor, gradient: Tensor) -> float:
    """Seconds of a forward and a backward."""
    layer.zero_grad()
    x.grad = None
    start = time.perf_counter()
    layer(x).backward(gradient)
    if x.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


def prepared(kind: str, tokens: int, device: str) -> tuple[nn.Module, Tensor, Tensor]:
    """The layer, its input and the gradient of its output."""
    x, gradient = torch.randn(2, 1, tokens, WIDTH, device=device).unbind(0)
    return KINDS[kind](tokens).to(device), x.requires_grad_(), gradient


def measure(kind: str, tokens: int, device: str) -> Cell:
    """In this process, which must be a fresh one."""
    torch.manual_seed(0)
    once(*prepared(kind, min(TOKENS), device))
    try:
        ready = prepared(kind, tokens, device)
        if device == "cpu":
            limit_memory(available_memory(device))
        peak = Peak(device)
        times = [once(*ready)]
        taken = peak.bytes()  # before the allocator's leftovers of this run count with the next
        while times[0] < SLOW and len(times) < 3:
            times.append(once(*ready))
    except (RuntimeError, MemoryError) as fault:
        if is_out_of_memory(fault):
            return Cell(why="out of memory")
        raise
    return Cell(statistics.median(times), taken)


def cell(kind: str, tokens: int, device: str, limit: float) -> Cell:
    """In a process of its own, which may take so many seconds."""
    if kind == "materialised" and tokens > MATERIALISED:
        needed = 3 * HEADS * tokens**2 * 4  # logits, weights and the gradient of one of them, in float32
        return Cell(why=f"needs {format_size(needed)}")
    try:
        return run_in_fresh_process(measure, kind, tokens, device, seconds=limit)
    except TimeoutError:
        return Cell(why=f"over {limit:g} s")
    except ProcessDiedError:
        return Cell(why="killed")


def exponent(values: Mapping[int, float]) -> str:
    """k of tokens^k, fitted on logarithmic axes over the three longest inputs that there are."""
    known = sorted((tokens, value) for tokens, value in values.items() if value > 0)[-3:]
    if len(known) < 3:
        return ""
    logs = np.log(np.array(known))
    return f"{np.polyfit(logs[:, 0], logs[:, 1], 1)[0]:.2f}"


def table(
    title: str, cells: Mapping[str, Mapping[int, Cell]], value: Callable[[Cell], float], show: Callable[[float], str]
) -> Table:
    """One row a kind, one column a length, the exponent at the end."""
    found = Table(title=title)
    found.add_column("attention")
    for heading in (*(f"{tokens:,} tokens" for tokens in next(iter(cells.values()))), "exponent"):
        found.add_column(heading, justify="right")
    for kind, row in cells.items():
        values = {tokens: value(each) for tokens, each in row.items()}
        told = [each.why or show(values[tokens]) for tokens, each in row.items()]
        found.add_row(kind, *told, exponent(values))
    return found


def main(
    device: Literal["cpu", "cuda"] = "cpu",
    only: tuple[str, ...] = (),
    tokens: tuple[int, ...] = TOKENS,
    limit: float = 600.0,
) -> None:
    """Print the tables of time and memory.

    Args:
        device: cpu or cuda.
        only: kinds of attention, all if none is named.
        tokens: lengths of the input.
        limit: seconds after which a cell is given up.
    """
    for kind in only:
        check_choice("only", kind, KINDS)
    cells: dict[str, dict[int, Cell]] = {}
    for kind in only or KINDS:
        cells[kind] = {}
        for count in tokens:
            found = cells[kind][count] = cell(kind, count, device, limit)
            told = found.why or f"{format_time(found.seconds)}, {format_size(found.bytes)}"
            print(f"{kind}, {count:,} tokens: {told}", flush=True)
    where = f"{device}, {torch.get_num_threads()} thread(s)" if device == "cpu" else device
    about = f"one layer of width {WIDTH}, {HEADS} heads, forward + backward, batch 1, {where}"
    screen = Console(width=140)
    screen.print(table(f"time: {about}", cells, lambda each: each.seconds, format_time))
    screen.print(table(f"peak memory: {about}", cells, lambda each: each.bytes, format_size))


if __name__ == "__main__":
    tyro.cli(main)
