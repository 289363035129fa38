"""Worker processes for jobs that may hang, crash or need too much memory: reading uploads, searching for cells.

A job that exceeds its time is killed, a process has a memory limit, and a crash affects no other job. Clients take
turns. Results come back as JSON and bytes, never as a pickle.
"""

import asyncio
import heapq
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

from vitreous.core.batching import ClosedError, FairOrder, FullError
from vitreous.core.errors import InputError, first_line
from vitreous.serve.errors import RETRY_AFTER, RequestError

JobResult = tuple[dict[str, Any], bytes]
"""A record that is sent as JSON, and a payload of bytes."""
JobFunction = Callable[[Any], JobResult]
_GRACE_SECONDS = 1.0  # that a cancelled job has to finish, if the pool finishes cancelled jobs
_OUTSIDE_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)  # end a process that its job has not crashed
_job_numbers = itertools.count(1)
_preload: list[str] = []  # modules of all job functions; the fork server imports them once


class WorkerPool:
    """`count` worker processes and a queue of jobs, in which clients take turns.

    Args:
        function: top-level function that runs a job; it returns a result or raises `InputError`.
        max_waiting: jobs that may wait for a process; more raise `FullError`, unless their client has none that wait.
        memory: address space of a process, in megabytes.
        finish_cancelled: whether a cancelled job has a short time to finish before its process is killed.
        spare: number of processes that one client leaves to the others; it may always use one.
    """

    def __init__(
        self,
        function: JobFunction,
        count: int,
        max_waiting: int,
        memory: int,
        finish_cancelled: bool = False,
        spare: int = 0,
    ) -> None:
        self._workers = [_Worker(function, memory) for _ in range(count)]
        self._idle, self._order = list(self._workers), FairOrder()
        self._queue: list[tuple[tuple[int, int], str, asyncio.Future[_Worker]]] = []  # a heap
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="workers")
        self._max_waiting, self._grace = max_waiting, _GRACE_SECONDS * finish_cancelled
        self._per_client = max(1, count - spare)

    @property
    def waiting(self) -> int:
        """Number of jobs that wait for a process."""
        return len(self._queue)

    def revive(self) -> bool:
        """Return whether all processes run; start those that do not."""
        ended = [worker for worker in self._workers if not worker.alive]
        for worker in ended:
            if not worker.closed:
                self._threads.submit(worker.start)
        return not ended

    async def run(self, job: Any, seconds: float, client: str = "") -> JobResult:
        """Run a job in a process; `TimeoutError` if it takes longer than `seconds`."""
        worker = await self._next_worker(client)
        worker.job = number = next(_job_numbers)
        loop = asyncio.get_running_loop()
        task = loop.run_in_executor(self._threads, worker.call, job, seconds)

        def finish(done: "asyncio.Future[JobResult]") -> None:
            if not done.cancelled():
                done.exception()  # retrieve it: asyncio would log it otherwise, with data of a client
            self._release(worker)

        task.add_done_callback(finish)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            loop.call_later(self._grace, loop.run_in_executor, None, worker.cancel, number)
            raise

    async def _next_worker(self, client: str) -> "_Worker":
        """Wait for the client's turn."""
        full = self.waiting >= self._max_waiting and not self._may_start(client)
        if full and (not self._max_waiting or any(name == client for _, name, _ in self._queue)):
            raise FullError(f"{self.waiting} jobs are waiting")
        future: asyncio.Future[_Worker] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._queue, (self._order.next_place(client), client, future))
        self._dispatch()
        try:
            return await future
        except asyncio.CancelledError:
            self._queue = [entry for entry in self._queue if entry[2] is not future]
            heapq.heapify(self._queue)
            if not future.cancelled():
                self._release(future.result())
            raise

    def _may_start(self, client: str) -> bool:
        """Return whether a process is idle and the client does not use all others."""
        return bool(self._idle) and sum(worker.client == client for worker in self._workers) < self._per_client

    def _dispatch(self) -> None:
        """Give idle processes to waiting jobs whose turn it is."""
        blocked = []
        while self._idle and self._queue:
            place, client, future = entry = heapq.heappop(self._queue)
            if not self._may_start(client):
                blocked.append(entry)
            elif not future.done():
                self._order.leave(place)
                worker = self._idle.pop(0)
                worker.client = client
                future.set_result(worker)
        for entry in blocked:
            heapq.heappush(self._queue, entry)

    def _release(self, worker: "_Worker") -> None:
        worker.client = None
        self.revive()
        self._idle.append(worker)
        self._dispatch()

    def close(self) -> None:
        """Kill the processes."""
        for worker in self._workers:
            worker.close()
        self._threads.shutdown(cancel_futures=True)


class _Worker:
    """One process and the number of its current job, so that a late cancellation never hits another job."""

    def __init__(self, function: JobFunction, memory: int) -> None:
        self._function, self._memory, self.closed = function, memory, False
        if function.__module__ not in _preload:
            _preload.append(function.__module__)
        self._lock = threading.RLock()
        self._process = self._connection = cast(Any, None)
        self.job = self._cancelled_job = 0
        self.client: str | None = None  # whose job it runs

    @property
    def alive(self) -> bool:
        """Whether the process runs; also False while it is started or killed."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return self._process is not None and self._process.is_alive()
        finally:
            self._lock.release()

    def start(self) -> None:
        """Start the process if it is not running. Takes a while: call it in a thread."""
        with self._lock:
            if self.closed:
                raise ClosedError("closed")
            if self.alive:
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
                raise _ended_error()
            self._connection.send(job)
            if not self._connection.poll(seconds):
                self._kill()
                raise TimeoutError
            head, _, payload = self._connection.recv_bytes().partition(b"\n")
        except TimeoutError:
            raise
        except (EOFError, OSError):
            raise self._reason_of_end() from None
        finally:
            with self._lock:
                self.job = 0
        record = json.loads(head)
        if "input_error" in record:
            raise InputError(record["input_error"])
        if "bug" in record:
            raise RuntimeError(record["bug"])
        return record, payload

    def _reason_of_end(self) -> Exception:
        """Return the error of a job whose process has ended: its input crashed it, or somebody killed it."""
        with self._lock:
            self._process.join(1)  # it may still be ending
            code = self._process.exitcode
            self._kill()
        crashed = code is not None and -code not in _OUTSIDE_SIGNALS
        return InputError("the content makes its reader fail") if crashed else _ended_error()

    def cancel(self, job: int) -> None:
        """Kill the process if it still runs this job."""
        with self._lock:
            if self.job == job:
                self._cancelled_job = job
                self._kill()

    def close(self) -> None:
        self.closed = True
        self._kill()

    def _kill(self) -> None:
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.join()


def _ended_error() -> RequestError:
    return RequestError(503, "the process that did the work was ended; try again", RETRY_AFTER)


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
