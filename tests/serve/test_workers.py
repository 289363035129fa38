"""Worker processes: no job affects another one."""

import asyncio
import gc
import os
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.serve.jobs import work
from vitreous.core.batching import FullError
from vitreous.core.errors import InputError
from vitreous.serve.errors import RequestError
from vitreous.serve.workers import WorkerPool


def run_with_pool(test: Callable[[WorkerPool], Awaitable[None]], count: int = 1, waiting: int = 4, **how: Any) -> None:
    async def run() -> None:
        workers = WorkerPool(work, count, waiting, memory=1500, **how)
        try:
            await test(workers)
        finally:
            workers.close()

    asyncio.run(run())


async def cancel(task: "asyncio.Future[Any]") -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_jobs_run_in_the_same_other_process() -> None:
    async def test(workers: WorkerPool) -> None:
        first, second = await workers.run("a", 30), await workers.run("b\n", 30)
        assert (first[1], second[1]) == (b"a", b"b\n")
        assert first[0] == second[0]

    run_with_pool(test)


@pytest.mark.parametrize(
    ("job", "error", "message"),
    [
        ("input error", InputError, "^file 0: is wrong$"),
        ("crash", InputError, "the content makes its reader fail"),
        ("memory", InputError, "more memory than the limit|makes its reader fail"),
        ("hang", TimeoutError, "^$"),
        ("bug", RuntimeError, "^KeyError in work$"),
    ],
)
def test_a_failed_job_raises_and_the_next_one_runs(job: str, error: type[Exception], message: str) -> None:
    async def test(workers: WorkerPool) -> None:
        await workers.run("warm", 30)
        started = time.monotonic()
        with pytest.raises(error, match=message):
            await workers.run(job, 1.0 if job == "hang" else 30.0)
        assert time.monotonic() - started < 20
        assert (await workers.run("next", 30))[1] == b"next"

    run_with_pool(test)


@pytest.mark.parametrize("finish", [False, True], ids=["at once", "after a moment"])
def test_a_cancelled_job_is_killed(finish: bool) -> None:
    async def test(workers: WorkerPool) -> None:
        await workers.run("warm", 30)
        started, task = time.monotonic(), asyncio.ensure_future(workers.run(30.0, 60))
        await asyncio.sleep(0.2)
        await cancel(task)
        assert (await workers.run("next", 30))[1] == b"next"
        assert time.monotonic() - started < 15

    run_with_pool(test, finish_cancelled=finish)


def test_a_short_cancelled_job_may_finish() -> None:
    async def test(workers: WorkerPool) -> None:
        before, _ = await workers.run("warm", 30)
        task = asyncio.ensure_future(workers.run(0.3, 30))
        await asyncio.sleep(0.1)
        await cancel(task)
        assert (await workers.run("next", 30))[0] == before  # the same process

    run_with_pool(test, finish_cancelled=True)


def test_the_error_of_a_cancelled_job_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test(workers: WorkerPool) -> None:
        await workers.run("warm", 30)
        task = asyncio.ensure_future(workers.run("input error", 30))
        for _ in range(3):  # until the process has the job
            await asyncio.sleep(0)
        await cancel(task)
        assert (await workers.run("next", 30))[1] == b"next"
        gc.collect()  # asyncio logs exceptions that nobody retrieved

    run_with_pool(test, finish_cancelled=True)
    assert not caplog.records


def test_the_number_of_waiting_jobs_is_limited() -> None:
    async def test(workers: WorkerPool) -> None:
        await workers.run("warm", 30)
        tasks = [asyncio.ensure_future(workers.run(0.3, 30)) for _ in range(3)]
        await asyncio.sleep(0.05)
        with pytest.raises(FullError):
            await workers.run("one too many", 30)
        assert len(await asyncio.gather(*tasks)) == 3
        await workers.run("room again", 30)

    run_with_pool(test, waiting=2)


def test_jobs_share_the_processes() -> None:
    async def test(workers: WorkerPool) -> None:
        await asyncio.gather(workers.run("warm", 60), workers.run("warm", 60))
        results = await asyncio.gather(*(workers.run(0.3, 30) for _ in range(4)))
        assert len({record["pid"] for record, _ in results}) == 2

    run_with_pool(test, count=2)


def test_a_killed_process_is_an_error_of_the_service_and_the_next_job_runs() -> None:
    async def test(workers: WorkerPool) -> None:
        record, _ = await workers.run("warm", 30)
        task = asyncio.ensure_future(workers.run(20.0, 30))
        await asyncio.sleep(0.2)
        os.kill(record["pid"], signal.SIGKILL)
        with pytest.raises(RequestError) as error:
            await task
        assert error.value.status == 503
        assert (await workers.run("next", 30))[1] == b"next"

    run_with_pool(test)


def test_a_process_that_was_killed_while_idle_is_started_again() -> None:
    async def test(workers: WorkerPool) -> None:
        record, _ = await workers.run("warm", 30)
        assert workers.revive()
        os.kill(record["pid"], signal.SIGKILL)
        while workers.revive():
            await asyncio.sleep(0.01)
        while not workers.revive():
            await asyncio.sleep(0.01)
        assert (await workers.run("next", 30))[0] != record

    run_with_pool(test)


def test_clients_take_turns() -> None:
    async def test(workers: WorkerPool) -> None:
        await workers.run("warm", 30)
        order = list[str]()

        async def run(client: str) -> None:
            await workers.run(0.05, 30, client)
            order.append(client)

        await asyncio.gather(*map(run, ["many"] * 4 + ["few"]))
        assert order == ["many", "few", "many", "many", "many"]

    run_with_pool(test)


def test_a_full_queue_still_takes_the_first_job_of_a_client() -> None:
    async def test(workers: WorkerPool) -> None:
        await workers.run("warm", 30)
        tasks = [asyncio.ensure_future(workers.run(0.2, 30, "many")) for _ in range(3)]
        await asyncio.sleep(0.05)
        with pytest.raises(FullError):
            await workers.run("one too many", 30, "many")
        assert (await workers.run("first", 30, "few"))[1] == b"first"
        await asyncio.gather(*tasks)

    run_with_pool(test, waiting=2)


def test_one_client_leaves_a_process_to_the_others() -> None:
    async def test(workers: WorkerPool) -> None:
        await asyncio.gather(workers.run("warm", 60, "a"), workers.run("warm", 60, "b"))
        hanging = [asyncio.ensure_future(workers.run("hang", 30, "many")) for _ in range(3)]
        await asyncio.sleep(0.05)
        assert (await workers.run("quick", 5, "few"))[1] == b"quick"
        for task in hanging:
            await cancel(task)

    run_with_pool(test, count=2, spare=1)
