"""Batching: `split_into_batches` cuts a sequence, `Batcher` groups concurrent requests in a thread of its own.

A model processes a batch of 64 samples in far less than 64 times the time of one sample.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain
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


@dataclass
class _Request(Generic[Sample, Answer]):
    sample: Sample
    future: "Future[Answer]" = field(default_factory=Future)
    submitted: float = field(default_factory=time.monotonic)


class Batcher(Generic[Sample, Answer]):
    """Collects single samples and computes those of the same kind in batches.

    A future that is cancelled before its batch starts is dropped. An exception in a batch reaches all samples of that
    batch, so check each sample before you submit it.

    Args:
        compute: takes a kind and samples of that kind, returns one answer per sample; runs in one thread.
        size: maximum number of samples in a batch.
        wait: milliseconds that the first sample of a batch waits for others.
        limit: maximum number of waiting samples; more are refused.
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
        self._queues: dict[Hashable, deque[_Request[Sample, Answer]]] = {}
        self._changed, self._closed = threading.Condition(), False
        self._thread = threading.Thread(target=self._run, name="batches", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """Number of waiting samples."""
        return sum(map(len, self._queues.copy().values()))

    def submit(self, sample: Sample, kind: Hashable = None) -> "Future[Answer]":
        """Queue one sample; raises `FullError` if the queue is full."""
        return self.submit_all([sample], kind)[0]

    def submit_all(self, samples: Sequence[Sample], kind: Hashable = None) -> "list[Future[Answer]]":
        """Queue several samples, all of them or none."""
        requests = [_Request[Sample, Answer](sample) for sample in samples]
        with self._changed:
            if self._closed:
                raise ClosedError("closed")
            if len(self) + len(requests) > self.limit:
                self._drop_cancelled()
            if len(self) + len(requests) > self.limit:
                raise FullError(f"the queue is full: {len(self)} samples wait, the limit is {self.limit}")
            queue = self._queues.setdefault(kind, deque())
            idle = not queue
            queue.extend(requests)
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
        self._queues = {kind: deque(requests) for kind, requests in active.items() if requests}

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
            kind, queue = min(self._queues.items(), key=lambda item: item[1][0].submitted)
            deadline = queue[0].submitted + self.wait
            while len(queue) < self.size and not self._closed and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
                queue = self._queues.get(kind, deque())
            requests = [queue.popleft() for _ in range(min(self.size, len(queue)))]
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
