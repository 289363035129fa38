"""Processes for what may go wrong: nothing that a job does outlives it or reaches another."""

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable

import pytest

from tests.serve.jobs import work
from vitreous.batching import FullError
from vitreous.errors import InputError
from vitreous.serve.workers import Workers


def trial(test: Callable[[Workers], Awaitable[None]], count: int = 1, waiting: int = 4, patient: bool = False) -> None:
    async def run() -> None:
        workers = Workers(work, count, waiting, memory=1500, patient=patient)
        try:
            await test(workers)
        finally:
            workers.close()

    asyncio.run(run())


def test_a_job_is_done_in_another_process() -> None:
    async def test(workers: Workers) -> None:
        first, second = await workers.run("a", 30), await workers.run("b\n", 30)
        assert (first[1], second[1]) == (b"a", b"b\n")
        assert first[0] == second[0]  # it is the same one

    trial(test)


@pytest.mark.parametrize(
    ("job", "fault", "reason"),
    [
        ("mistake", InputError, "^file 0: is wrong$"),
        ("crash", InputError, "the content makes its reader fail"),
        ("swell", InputError, "more memory than it may have|makes its reader fail"),
        ("hang", TimeoutError, "^$"),
        ("bug", RuntimeError, "^KeyError in work$"),
    ],
)
def test_what_goes_wrong_is_told_and_the_next_job_is_done(job: str, fault: type[Exception], reason: str) -> None:
    async def test(workers: Workers) -> None:
        await workers.run("warm", 30)
        started = time.monotonic()
        with pytest.raises(fault, match=reason):
            await workers.run(job, 1.0 if job == "hang" else 30.0)
        assert time.monotonic() - started < 20
        assert (await workers.run("next", 30))[1] == b"next"

    trial(test)


@pytest.mark.parametrize("patient", [False, True], ids=["at once", "after a moment"])
def test_a_cancelled_job_is_killed(patient: bool) -> None:
    async def test(workers: Workers) -> None:
        await workers.run("warm", 30)
        started, task = time.monotonic(), asyncio.ensure_future(workers.run(30.0, 60))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await workers.run("next", 30))[1] == b"next"
        assert time.monotonic() - started < 15

    trial(test, patient=patient)


def test_a_short_job_that_nobody_wants_is_finished_in_peace() -> None:
    async def test(workers: Workers) -> None:
        before, _ = await workers.run("warm", 30)
        task = asyncio.ensure_future(workers.run(0.3, 30))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await workers.run("next", 30))[0] == before  # the same process

    trial(test, patient=True)


def test_what_a_job_says_that_nobody_wants_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test(workers: Workers) -> None:
        await workers.run("warm", 30)
        task = asyncio.ensure_future(workers.run("mistake", 30))
        for _ in range(3):  # until it is with the process
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await workers.run("next", 30))[1] == b"next"
        gc.collect()  # when a future that nobody heard would complain

    trial(test, patient=True)
    assert not caplog.records


def test_no_more_wait_than_may() -> None:
    async def test(workers: Workers) -> None:
        await workers.run("warm", 30)
        tasks = [asyncio.ensure_future(workers.run(0.3, 30)) for _ in range(3)]
        await asyncio.sleep(0.05)
        with pytest.raises(FullError):
            await workers.run("one too many", 30)
        assert len(await asyncio.gather(*tasks)) == 3
        await workers.run("room again", 30)

    trial(test, waiting=2)


def test_jobs_share_the_processes() -> None:
    async def test(workers: Workers) -> None:
        await asyncio.gather(workers.run("warm", 60), workers.run("warm", 60))
        found = await asyncio.gather(*(workers.run(0.3, 30) for _ in range(4)))
        assert len({told["pid"] for told, _ in found}) == 2

    trial(test, count=2)
