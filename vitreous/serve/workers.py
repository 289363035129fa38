"""Worker processes for jobs that may hang, crash or need too much memory: reading uploads, searching for cells.

A job that exceeds its time is killed, a process has a memory limit, and a crash affects no other job. Results come back
as JSON and bytes, never as a pickle.
"""

import asyncio
import itertools
import json
import os
import resource
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, cast

from vitreous.core.batching import ClosedError, FullError
from vitreous.core.errors import InputError, first_line

JobResult = tuple[dict[str, Any], bytes]
"""A record that is sent as JSON, and a payload of bytes."""
JobFunction = Callable[[Any], JobResult]
_GRACE_SECONDS = 1.0  # that a cancelled job has to finish, if the pool finishes cancelled jobs
_job_numbers = itertools.count(1)
_preload: list[str] = []  # modules of all job functions; the fork server imports them once


class WorkerPool:
    """`count` worker processes and a queue of jobs.

    Args:
        function: top-level function that runs a job; it returns a result or raises `InputError`.
        max_waiting: jobs that may wait for a process; more raise `FullError`.
        memory: address space of a process, in megabytes.
        finish_cancelled: whether a cancelled job has a short time to finish before its process is killed.
    """

    def __init__(
        self, function: JobFunction, count: int, max_waiting: int, memory: int, finish_cancelled: bool = False
    ) -> None:
        self._idle: asyncio.Queue[_Worker] = asyncio.Queue()
        self._workers = [_Worker(function, memory) for _ in range(count)]
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="workers")
        self._max_waiting, self._grace = max_waiting, _GRACE_SECONDS * finish_cancelled
        self.waiting = 0
        for worker in self._workers:
            self._idle.put_nowait(worker)

    async def run(self, job: Any, seconds: float) -> JobResult:
        """Run a job in a process; `TimeoutError` if it takes longer than `seconds`."""
        if self._idle.empty() and self.waiting >= self._max_waiting:
            raise FullError(f"{self.waiting} jobs are waiting")
        self.waiting += 1
        try:
            worker = await self._idle.get()
        finally:
            self.waiting -= 1
        worker.job = number = next(_job_numbers)
        loop = asyncio.get_running_loop()
        task = loop.run_in_executor(self._threads, worker.call, job, seconds)

        def finish(done: "asyncio.Future[JobResult]") -> None:
            if not done.cancelled():
                done.exception()  # retrieve it: asyncio would log it otherwise, with data of a client
            self._idle.put_nowait(worker)

        task.add_done_callback(finish)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            loop.call_later(self._grace, loop.run_in_executor, None, worker.cancel, number)
            raise

    def start(self) -> None:
        """Start the processes before the first job."""
        for worker in self._workers:
            self._threads.submit(worker.start)

    def close(self) -> None:
        """Kill the processes."""
        for worker in self._workers:
            worker.close()
        self._threads.shutdown(cancel_futures=True)


class _Worker:
    """One process and the number of its current job, so that a late cancellation never hits another job."""

    def __init__(self, function: JobFunction, memory: int) -> None:
        self._function, self._memory, self._closed = function, memory, False
        if function.__module__ not in _preload:
            _preload.append(function.__module__)
        self._lock = threading.RLock()
        self._process = self._connection = cast(Any, None)
        self.job = self._cancelled_job = 0

    def start(self) -> None:
        """Start the process if it is not running. Takes a while: call it in a thread."""
        with self._lock:
            if self._closed:
                raise ClosedError("closed")
            if self._process is not None and self._process.is_alive():
                return
            context = get_context("forkserver")
            context.set_forkserver_preload(_preload)
            self._connection, remote = context.Pipe()
            arguments = (remote, self._function, self._memory * 1_000_000)
            self._process = context.Process(target=_serve_jobs, args=arguments, daemon=True)
            self._process.start()
            remote.close()

    def call(self, job: Any, seconds: float) -> JobResult:
        """Send a job to the process and wait for its result. Blocks: call it in a thread."""
        try:
            self.start()
            if self._cancelled_job == self.job:
                raise EOFError
            self._connection.send(job)
            if not self._connection.poll(seconds):
                self._kill()
                raise TimeoutError
            head, _, payload = self._connection.recv_bytes().partition(b"\n")
        except (EOFError, ConnectionError):  # the process ended: cancelled, or crashed by its input
            self._kill()
            raise InputError("the content makes its reader fail") from None
        finally:
            with self._lock:
                self.job = 0
        record = json.loads(head)
        if "input_error" in record:
            raise InputError(record["input_error"])
        if "bug" in record:
            raise RuntimeError(record["bug"])
        return record, payload

    def cancel(self, job: int) -> None:
        """Kill the process if it still runs this job."""
        with self._lock:
            if self.job == job:
                self._cancelled_job = job
                self._kill()

    def close(self) -> None:
        self._closed = True
        self._kill()

    def _kill(self) -> None:
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.join()


def _serve_jobs(connection: Connection, function: JobFunction, memory: int) -> None:
    """Run jobs in the worker process until the service closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the service handles it
    with open(os.devnull, "wb") as devnull:  # libraries may print data of a client
        for stream in (1, 2):
            os.dup2(devnull.fileno(), stream)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        connection.send_bytes(_run_job(function, job))


def _run_job(function: JobFunction, job: Any) -> bytes:
    record: dict[str, Any]
    payload = b""
    try:
        record, payload = function(job)
    except InputError as error:
        record = {"input_error": first_line(error)}
    except MemoryError:
        record = {"input_error": "the content needs more memory than the limit"}
    except Exception as error:
        record = {"bug": f"{type(error).__name__} in {function.__name__}"}  # without its message, which may hold data
    return json.dumps(record).encode() + b"\n" + payload
