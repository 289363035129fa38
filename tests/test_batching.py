"""Batches: grouped by kind, bounded, in order, and nobody's fault but one's own."""

import threading
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import CancelledError, wait

import pytest

from vitreous.batching import Batcher, ClosedError, FullError


class Gate:
    """A computation that doubles numbers, once it is let; it keeps the batches that it was given."""

    def __init__(self) -> None:
        self.open, self.entered = threading.Event(), threading.Event()
        self.batches: list[tuple[Hashable, list[int]]] = []

    def __call__(self, kind: Hashable, samples: Sequence[int]) -> list[int]:
        self.batches.append((kind, list(samples)))
        self.entered.set()
        assert self.open.wait(10)
        if -1 in samples:
            raise ValueError("a bad batch")
        return [2 * sample for sample in samples]


@pytest.fixture
def gate() -> Iterator[Gate]:
    found = Gate()
    yield found
    found.open.set()


def busy(gate: Gate, **settings: float) -> Batcher[int, int]:
    """A batcher that is computing one sample, of kind `first`, until the gate opens."""
    batcher = Batcher[int, int](gate, **settings)  # type: ignore[arg-type]
    batcher.submit(0, "first")
    assert gate.entered.wait(10)
    return batcher


def test_every_sample_gets_its_own_answer(gate: Gate) -> None:
    gate.open.set()
    with Batcher[int, int](gate, most=7) as batcher:
        futures = [batcher.submit(number) for number in range(1000)]
        assert [future.result(10) for future in futures] == [2 * number for number in range(1000)]
    assert sum(len(samples) for _, samples in gate.batches) == 1000
    assert max(len(samples) for _, samples in gate.batches) <= 7


def test_what_waits_together_is_computed_together_by_kind(gate: Gate) -> None:
    with busy(gate, most=3) as batcher:
        for number in range(1, 5):
            batcher.submit(number, "a")
            batcher.submit(10 * number, "b")
        gate.open.set()
    assert gate.batches[1:] == [("a", [1, 2, 3]), ("b", [10, 20, 30]), ("a", [4]), ("b", [40])]


def test_a_lone_sample_waits_no_longer_than_it_is_told(gate: Gate) -> None:
    gate.open.set()
    with Batcher[int, int](gate, most=64, wait=20) as batcher:
        assert batcher.submit(4).result(2) == 8


def test_more_than_may_wait_is_refused_whole_and_room_returns(gate: Gate) -> None:
    with busy(gate, waiting=4) as batcher:
        kept = batcher.submit_all([1, 2, 3])
        with pytest.raises(FullError, match="3 samples wait already, 4 may"):
            batcher.submit_all([4, 5])
        assert len(batcher) == 3
        gate.open.set()
        assert [future.result(10) for future in kept] == [2, 4, 6]
        assert batcher.submit(6).result(10) == 12


def test_cancelled_samples_are_neither_computed_nor_in_the_way(gate: Gate) -> None:
    with busy(gate, waiting=2) as batcher:
        gone = batcher.submit_all([1, 2])
        assert all(future.cancel() for future in gone)
        kept = batcher.submit_all([3, 4])
        gate.open.set()
        assert [future.result(10) for future in kept] == [6, 8]
    assert all(samples in ([0], [3, 4]) for _, samples in gate.batches)


def test_what_a_batch_raises_reaches_its_own_samples_alone(gate: Gate) -> None:
    with busy(gate) as batcher:
        bad, good = batcher.submit_all([-1, 1], "bad"), batcher.submit_all([2, 3], "good")
        gate.open.set()
        for future in bad:
            with pytest.raises(ValueError, match="a bad batch"):
                future.result(10)
        assert [future.result(10) for future in good] == [4, 6]


def test_a_computation_that_loses_an_answer_is_a_fault_of_its_batch() -> None:
    with Batcher[int, int](lambda kind, samples: []) as batcher, pytest.raises(ValueError, match="zip"):
        batcher.submit(1).result(10)


def test_closing_answers_what_waits(gate: Gate) -> None:
    batcher = busy(gate)
    futures = batcher.submit_all(range(100))
    threading.Timer(0.05, gate.open.set).start()
    batcher.close()
    assert [future.result(0) for future in futures] == [2 * number for number in range(100)]
    with pytest.raises(ClosedError):
        batcher.submit(1)


def test_closing_without_draining_cancels_what_waits(gate: Gate) -> None:
    batcher = busy(gate)
    futures = batcher.submit_all([1, 2])
    threading.Timer(0.05, gate.open.set).start()
    batcher.close(drain=False)
    wait(futures, 10)
    with pytest.raises(CancelledError):
        futures[0].result(0)
    assert [samples for _, samples in gate.batches] == [[0]]
