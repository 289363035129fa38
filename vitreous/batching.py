"""Many small requests as few large batches: a model answers 64 samples in far less than 64 times the time of one.

`Batcher` groups what waits, in a thread of its own; `grouped` cuts what is there already. Nothing here needs torch.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

Sample = TypeVar("Sample")
Answer = TypeVar("Answer")
Items = TypeVar("Items", bound="_Cuttable")

TOGETHER = 256
"""Samples that are read and computed together where all are at hand."""


class FullError(Exception):
    """As much is waiting as may wait."""


class ClosedError(Exception):
    """Nothing is taken any more."""


class _Cuttable(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> Any: ...


def grouped(items: Items, most: int = TOGETHER) -> Iterator[Items]:
    """The items in their order, at most so many at a time.

    >>> list(grouped("abcde", 2))
    ['ab', 'cd', 'e']
    """
    return (items[start : start + most] for start in range(0, len(items), most))


@dataclass
class _Waiting(Generic[Sample, Answer]):
    sample: Sample
    future: "Future[Answer]" = field(default_factory=Future)
    since: float = field(default_factory=time.monotonic)


class Batcher(Generic[Sample, Answer]):
    """Answers samples of one kind together, as many as wait.

    A future that is cancelled before its turn is dropped. What a batch raises reaches its own samples and no others; so
    check a sample before it is submitted.

    Args:
        compute: given a kind and samples of that kind, one answer for each; called in one thread.
        most: samples of a batch.
        wait: milliseconds that the first sample of a batch waits for others.
        waiting: samples that may wait; more are refused.
        watch: told the size of each batch.
    """

    def __init__(
        self,
        compute: Callable[[Hashable, Sequence[Sample]], Sequence[Answer]],
        most: int = 64,
        wait: float = 2.0,
        waiting: int = 1024,
        watch: Callable[[int], None] = lambda size: None,
    ) -> None:
        self.compute, self.most, self.wait, self.limit, self.watch = compute, most, wait / 1000, waiting, watch
        self._queues: dict[Hashable, deque[_Waiting[Sample, Answer]]] = {}
        self._changed, self._closed = threading.Condition(), False
        self._thread = threading.Thread(target=self._run, name="batches", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        """How many samples wait."""
        return sum(map(len, self._queues.copy().values()))

    def submit(self, sample: Sample, kind: Hashable = None) -> "Future[Answer]":
        """The answer to come; `FullError` if too many wait."""
        (future,) = self.submit_all([sample], kind)
        return future

    def submit_all(self, samples: Sequence[Sample], kind: Hashable = None) -> "list[Future[Answer]]":
        """The answers to come of several samples; all of them are taken or none."""
        new = [_Waiting[Sample, Answer](sample) for sample in samples]
        with self._changed:
            if self._closed:
                raise ClosedError("closed")
            if len(self) + len(new) > self.limit:
                self._forget()
            if len(self) + len(new) > self.limit:
                raise FullError(f"{len(self)} samples wait already, {self.limit} may")
            queue = self._queues.setdefault(kind, deque())
            idle = not queue
            queue.extend(new)
            if idle or len(queue) >= self.most:
                self._changed.notify()
        return [each.future for each in new]

    def close(self, drain: bool = True) -> None:
        """Take nothing more; answer what waits, or with `drain` False cancel it."""
        with self._changed:
            self._closed = True
            if not drain:
                for queue in self._queues.values():
                    for each in queue:
                        each.future.cancel()
            self._changed.notify()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self.close(drain=fault[0] is None)

    def _forget(self) -> None:
        """Drop what was cancelled."""
        for kind, queue in list(self._queues.items()):
            self._queues[kind] = deque(each for each in queue if not each.future.cancelled())
            if not self._queues[kind]:
                del self._queues[kind]

    def _run(self) -> None:
        while (found := self._next()) is not None:
            kind, taken = found
            group = [each for each in taken if each.future.set_running_or_notify_cancel()]
            if group:
                self._answer(kind, group)

    def _next(self) -> tuple[Hashable, list[_Waiting[Sample, Answer]]] | None:
        """The kind that has waited longest, and up to `most` of it, once there are so many or the wait is over."""
        with self._changed:
            while not self._queues:
                if self._closed:
                    return None
                self._changed.wait()
            kind, queue = min(self._queues.items(), key=lambda item: item[1][0].since)
            until = queue[0].since + self.wait
            while len(queue) < self.most and not self._closed and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
                queue = self._queues.get(kind, deque())
            taken = [queue.popleft() for _ in range(min(self.most, len(queue)))]
            if not queue:
                self._queues.pop(kind, None)
            return kind, taken

    def _answer(self, kind: Hashable, group: list[_Waiting[Sample, Answer]]) -> None:
        self.watch(len(group))
        try:
            answers = self.compute(kind, [each.sample for each in group])
            pairs = list(zip(group, answers, strict=True))
        except BaseException as fault:  # whatever it is, those who wait must hear of it
            for each in group:
                each.future.set_exception(fault)
            return
        for each, answer in pairs:
            each.future.set_result(answer)
