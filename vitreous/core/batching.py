"""Batching: `split_into_batches` cuts a sequence, `Batcher` groups concurrent requests in a thread of its own.

A model processes a batch of 64 samples in far less than 64 times the time of one sample.
"""

import heapq
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, Generic, Protocol, Self, TypeVar

Sample = TypeVar("Sample")
Answer = TypeVar("Answer")
Items = TypeVar("Items", bound="_Sliceable")

BATCH_SIZE = 256
"""Default number of samples in a batch when all samples are available at once."""


class FullError(Exception):
    """The queue is full."""


class ClosedError(Exception):
    """The batcher is closed and accepts no more samples."""


class _Sliceable(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> Any: ...


def split_into_batches(items: Items, size: int = BATCH_SIZE) -> Iterator[Items]:
    """Consecutive slices of at most `size` items.

    >>> list(split_into_batches("abcde", 2))
    ['ab', 'cd', 'e']
    """
    return (items[start : start + size] for start in range(0, len(items), size))


class FairOrder:
    """Places in a queue that several owners share: an owner with many items does not delay those of the others.

    The n-th waiting item of an owner comes after at most n items of every other owner.
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, int] = {}  # turn of the latest item of each owner
        self._turn, self._numbers = 0, count()

    def next_place(self, owner: Hashable) -> tuple[int, int]:
        """Return the place of a new item."""
        turn = self._last[owner] = max(self._last.get(owner, -1) + 1, self._turn)
        return turn, next(self._numbers)

    def leave(self, place: tuple[int, int]) -> None:
        """Note that the item at this place no longer waits."""
        if place[0] > self._turn:
            self._turn = place[0]
            self._last = {owner: turn for owner, turn in self._last.items() if turn >= self._turn}


@dataclass(order=True)
class _Request(Generic[Sample, Answer]):
    place: tuple[int, int]
    owner: Hashable = field(compare=False)
    sample: Sample = field(compare=False)
    future: "Future[Answer]" = field(default_factory=Future, compare=False)
    submitted: float = field(default_factory=time.monotonic, compare=False)


class Batcher(Generic[Sample, Answer]):
    """Collects single samples and computes those of the same kind in batches.

    A future that is cancelled before its batch starts is dropped. An exception in a batch reaches all samples of that
    batch, so check each sample before you submit it.

    Args:
        compute: takes a kind and samples of that kind, returns one answer per sample; runs in one thread.
        size: maximum number of samples in a batch.
        wait: milliseconds that the first sample of a batch waits for others.
        limit: maximum number of waiting samples; more are refused, unless their owner has none that wait.
        on_batch: called with the size of each batch.
    """

    def __init__(
        self,
        compute: Callable[[Hashable, Sequence[Sample]], Sequence[Answer]],
        size: int = 64,
        wait: float = 2.0,
        limit: int = 1024,
        on_batch: Callable[[int], None] = lambda size: None,
    ) -> None:
        self.compute, self.size, self.wait, self.limit, self.on_batch = compute, size, wait / 1000, limit, on_batch
        self._queues: dict[Hashable, list[_Request[Sample, Answer]]] = {}  # heaps
        self._order = FairOrder()
        self._changed, self._closed = threading.Condition(), False
        self._thread = threading.Thread(target=self._run, name="batches", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """Number of waiting samples."""
        return sum(map(len, self._queues.copy().values()))

    def submit(self, sample: Sample, kind: Hashable = None, owner: Hashable = None) -> "Future[Answer]":
        """Queue one sample; raises `FullError` if the queue is full."""
        return self.submit_all([sample], kind, owner)[0]

    def submit_all(
        self, samples: Sequence[Sample], kind: Hashable = None, owner: Hashable = None
    ) -> "list[Future[Answer]]":
        """Queue several samples, all of them or none. Samples of several owners take turns."""
        with self._changed:
            if self._closed:
                raise ClosedError("closed")
            if len(self) + len(samples) > self.limit:
                self._drop_cancelled()
            waiting = chain.from_iterable(self._queues.values())
            if len(self) + len(samples) > self.limit and any(request.owner == owner for request in waiting):
                raise FullError(f"the queue is full: {len(self)} samples wait, the limit is {self.limit}")
            requests = [_Request[Sample, Answer](self._order.next_place(owner), owner, sample) for sample in samples]
            queue = self._queues.setdefault(kind, [])
            idle = not queue
            for request in requests:
                heapq.heappush(queue, request)
            if idle or len(queue) >= self.size:
                self._changed.notify()
        return [request.future for request in requests]

    def close(self, drain: bool = True) -> None:
        """Accept no more samples; compute the waiting ones, or cancel them if `drain` is False."""
        with self._changed:
            self._closed = True
            if not drain:
                for request in chain.from_iterable(self._queues.values()):
                    request.future.cancel()
            self._changed.notify()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close(drain=error[0] is None)

    def _drop_cancelled(self) -> None:
        active = {kind: [r for r in queue if not r.future.cancelled()] for kind, queue in self._queues.items()}
        self._queues = {kind: requests for kind, requests in active.items() if requests}
        for queue in self._queues.values():
            heapq.heapify(queue)

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            kind, requests = batch
            active = [request for request in requests if request.future.set_running_or_notify_cancel()]
            if active:
                self._answer(kind, active)

    def _next_batch(self) -> tuple[Hashable, list[_Request[Sample, Answer]]] | None:
        """Wait for a full batch, or until the oldest sample has waited long enough; None once closed and empty."""
        with self._changed:
            while not self._queues:
                if self._closed:
                    return None
                self._changed.wait()
            kind, queue = min(self._queues.items(), key=lambda item: item[1][0])
            deadline = queue[0].submitted + self.wait
            while len(queue) < self.size and not self._closed and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
                queue = self._queues.get(kind, [])
            requests = [heapq.heappop(queue) for _ in range(min(self.size, len(queue)))]
            if requests:
                self._order.leave(requests[-1].place)
            if not queue:
                self._queues.pop(kind, None)
            return kind, requests

    def _answer(self, kind: Hashable, requests: list[_Request[Sample, Answer]]) -> None:
        self.on_batch(len(requests))
        try:
            answers = self.compute(kind, [request.sample for request in requests])
            pairs = list(zip(requests, answers, strict=True))
        except BaseException as error:  # any exception must reach the callers, who would otherwise wait forever
            for request in requests:
                request.future.set_exception(error)
            return
        for request, answer in pairs:
            request.future.set_result(answer)
