"""Batches by step number: a batch depends on the seed and the step alone."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vitreous.data.source import Source

Batch = tuple[Tensor, Tensor]
Batches = Callable[[int], Batch]
"""Raw samples `(B, C, *grid)` and targets `(B, K)` of a step, on the device."""


class Encodes(Protocol):  # a task: labels to the floats `(n, K)` that a model is trained on
    def encode(self, y: NDArray[Any] | Tensor) -> Tensor: ...


_SIMULATED_SAMPLES = 16384  # simulated at once, to keep a GPU busy
_SIMULATED_BYTES = 80 << 20  # of them, at most
_SEED_OFFSET = 1 << 20  # added to the seed: samples and the loop use different random numbers
RESIDENT_BYTES = 4 << 30
"""Largest size of samples that stay on the device; larger data are read again."""


def seed_of(seed: int, step: int, rank: int) -> int:
    """A seed for a step and a process, well mixed (the finaliser of splitmix64)."""
    z = ((seed * 1_000_003 + rank) << 32) + step
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return (z ^ (z >> 31)) % 2**63


class SimulatedBatches:
    """New samples at every step, from a source that simulates them; on a GPU for several steps at once.

    On a GPU they are simulated on a side stream while the training uses the samples before them. `batch` counts the
    samples of all `world` processes; `rank` is this one.
    """

    def __init__(
        self, source: Source, task: Encodes, batch: int, seed: int, device: torch.device, rank: int = 0, world: int = 1
    ) -> None:
        self.source, self.task, self.share, self.device = source, task, batch // world, device
        self.seed, self.rank = seed, rank
        together = min(_SIMULATED_SAMPLES, _SIMULATED_BYTES // (4 * int(np.prod(source.input))))
        self.ahead = max(1, together // self.share) if device.type == "cuda" else 1
        self._blocks: dict[int, Batch] = {}
        self._side = torch.cuda.Stream(device) if self.ahead > 1 else None

    def __call__(self, step: int) -> Batch:
        block, place = divmod(step, self.ahead)
        if block not in self._blocks:
            self._blocks = {block: self._draw(block)}
        elif place == 0 and self._side is not None:
            self._wait_for(block, self._side)
        if place == self.ahead // 2 and self._side is not None:
            with torch.cuda.stream(self._side):
                self._blocks[block + 1] = self._draw(block + 1)
        rows = slice(place * self.share, (place + 1) * self.share)
        samples, targets = self._blocks[block]
        return samples[rows], targets[rows]

    def _wait_for(self, block: int, side: torch.cuda.Stream) -> None:
        """Wait for the samples that were simulated on the side stream, and drop those before them."""
        self._blocks = {block: self._blocks[block]}
        here = torch.cuda.current_stream(self.device)
        here.wait_stream(side)
        for part in self._blocks[block]:
            part.record_stream(here)

    def _draw(self, block: int) -> Batch:
        assert self.source.fresh is not None
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(seed_of(self.seed + _SEED_OFFSET, block, self.rank))
            samples, values = self.source.fresh(self.share * self.ahead, self.device)
        return samples, self.task.encode(values)


class StoredBatches:
    """Shuffled rows of a source, each once an epoch, in batches of one size that run on across epochs.

    `batch` counts the samples of all processes; each takes its own part. Sources that fit stay on the device; larger
    ones are read one step ahead by a thread.
    """

    def __init__(
        self,
        source: Source,
        rows: NDArray[np.intp],
        task: Encodes,
        batch: int,
        seed: int,
        device: torch.device,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        assert source.y is not None
        self.source, self.rows, self.batch, self.seed, self.device = source, np.sort(rows), batch, seed, device
        self.rank, self.world = rank, world
        self.targets = task.encode(source.y[self.rows]).to(device)
        size = len(rows) * int(np.prod(source.input)) * source.x.dtype.itemsize
        self.samples = torch.as_tensor(source.x[self.rows]).to(device) if size <= RESIDENT_BYTES else None
        self._order: tuple[int, NDArray[np.intp]] | None = None
        self._reader = ThreadPoolExecutor(1)
        self._ahead: tuple[int, Future[Tensor]] | None = None

    def __call__(self, step: int) -> Batch:
        places = self._places(step)
        index = torch.as_tensor(places, device=self.device)
        if self.samples is not None:
            return self.samples[index], self.targets[index]
        if self._ahead is None or self._ahead[0] != step:
            self._ahead = step, self._reader.submit(self._read, places)
        samples = self._ahead[1].result()
        self._ahead = step + 1, self._reader.submit(self._read, self._places(step + 1))
        return samples.to(self.device, non_blocking=True), self.targets[index]

    def _places(self, step: int) -> NDArray[np.intp]:
        """Places in `rows` of the samples that this process takes at a step."""
        share = self.batch // self.world
        start = step * self.batch + self.rank * share
        numbers = np.arange(start, start + share)
        epochs = numbers // len(self.rows)
        places = np.empty(share, dtype=np.intp)
        for epoch in np.unique(epochs):
            here = epochs == epoch
            places[here] = self._permutation(int(epoch))[numbers[here] % len(self.rows)]
        return places

    def _permutation(self, epoch: int) -> NDArray[np.intp]:
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, np.random.default_rng((self.seed, epoch)).permutation(len(self.rows))
        return self._order[1]

    def _read(self, places: NDArray[np.intp]) -> Tensor:
        rows, back = np.unique(self.rows[places], return_inverse=True)  # in the order of the file
        return torch.from_numpy(self.source.x[rows][back])
