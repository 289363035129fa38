"""`Batcher` groups samples by kind, keeps their order, limits its queue and isolates errors."""

import threading
from collections.abc import Hashable, Iterator, Sequence
from concurrent.futures import CancelledError, wait

import pytest

from vitreous.core.batching import Batcher, ClosedError, FullError


class Gate:
    """A computation that doubles numbers once the gate is open, and records its batches."""

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
    closed = Gate()
    yield closed
    closed.open.set()


def busy(gate: Gate, **settings: float) -> Batcher[int, int]:
    """A batcher that computes one sample, of kind `first`, until the gate opens."""
    batcher = Batcher[int, int](gate, **settings)  # type: ignore[arg-type]
    batcher.submit(0, "first")
    assert gate.entered.wait(10)
    return batcher


def test_every_sample_gets_its_own_answer(gate: Gate) -> None:
    gate.open.set()
    with Batcher[int, int](gate, size=7) as batcher:
        futures = [batcher.submit(number) for number in range(1000)]
        assert [future.result(10) for future in futures] == [2 * number for number in range(1000)]
    assert sum(len(samples) for _, samples in gate.batches) == 1000
    assert max(len(samples) for _, samples in gate.batches) <= 7


def test_waiting_samples_of_one_kind_are_computed_in_one_batch(gate: Gate) -> None:
    with busy(gate, size=3) as batcher:
        for number in range(1, 5):
            batcher.submit(number, "a")
            batcher.submit(10 * number, "b")
        gate.open.set()
    assert gate.batches[1:] == [("a", [1, 2, 3]), ("b", [10, 20, 30]), ("a", [4]), ("b", [40])]


def test_a_single_sample_waits_no_longer_than_the_limit(gate: Gate) -> None:
    gate.open.set()
    with Batcher[int, int](gate, size=64, wait=20) as batcher:
        assert batcher.submit(4).result(2) == 8


def test_a_full_queue_refuses_samples_until_there_is_room(gate: Gate) -> None:
    with busy(gate, limit=4) as batcher:
        accepted = batcher.submit_all([1, 2, 3])
        with pytest.raises(FullError, match="the queue is full: 3 samples wait, the limit is 4"):
            batcher.submit_all([4, 5])
        assert len(batcher) == 3
        gate.open.set()
        assert [future.result(10) for future in accepted] == [2, 4, 6]
        assert batcher.submit(6).result(10) == 12


def test_owners_take_turns(gate: Gate) -> None:
    with busy(gate, size=3) as batcher:
        batcher.submit_all([1, 2, 3, 4, 5, 6], owner="many")
        batcher.submit_all([10, 20], owner="few")
        gate.open.set()
    assert [samples for _, samples in gate.batches[1:]] == [[1, 10, 2], [20, 3, 4], [5, 6]]


def test_many_kinds_of_one_owner_do_not_delay_another(gate: Gate) -> None:
    with busy(gate, size=3) as batcher:
        for kind in "abcd":
            batcher.submit(1, kind, "many")
        batcher.submit(2, "e", "few")
        gate.open.set()
    assert [kind for kind, _ in gate.batches[1:]] == ["a", "e", "b", "c", "d"]


def test_a_full_queue_still_takes_the_first_samples_of_an_owner(gate: Gate) -> None:
    with busy(gate, limit=2) as batcher:
        batcher.submit_all([1, 2], owner="many")
        accepted = batcher.submit(3, owner="few")
        for owner in ("many", "few"):
            with pytest.raises(FullError):
                batcher.submit(4, owner=owner)
        gate.open.set()
        assert accepted.result(10) == 6


def test_cancelled_samples_are_not_computed_and_leave_the_queue(gate: Gate) -> None:
    with busy(gate, limit=2) as batcher:
        cancelled = batcher.submit_all([1, 2])
        assert all(future.cancel() for future in cancelled)
        accepted = batcher.submit_all([3, 4])
        gate.open.set()
        assert [future.result(10) for future in accepted] == [6, 8]
    assert all(samples in ([0], [3, 4]) for _, samples in gate.batches)


def test_an_exception_reaches_the_samples_of_its_own_batch_only(gate: Gate) -> None:
    with busy(gate) as batcher:
        bad, good = batcher.submit_all([-1, 1], "bad"), batcher.submit_all([2, 3], "good")
        gate.open.set()
        for future in bad:
            with pytest.raises(ValueError, match="a bad batch"):
                future.result(10)
        assert [future.result(10) for future in good] == [4, 6]


def test_a_missing_answer_is_an_error_of_its_batch() -> None:
    with Batcher[int, int](lambda kind, samples: []) as batcher, pytest.raises(ValueError, match="zip"):
        batcher.submit(1).result(10)


def test_closing_computes_waiting_samples(gate: Gate) -> None:
    batcher = busy(gate)
    futures = batcher.submit_all(range(100))
    threading.Timer(0.05, gate.open.set).start()
    batcher.close()
    assert [future.result(0) for future in futures] == [2 * number for number in range(100)]
    with pytest.raises(ClosedError):
        batcher.submit(1)


def test_closing_without_draining_cancels_waiting_samples(gate: Gate) -> None:
    batcher = busy(gate)
    futures = batcher.submit_all([1, 2])
    threading.Timer(0.05, gate.open.set).start()
    batcher.close(drain=False)
    wait(futures, 10)
    with pytest.raises(CancelledError):
        futures[0].result(0)
    assert [samples for _, samples in gate.batches] == [[0]]
