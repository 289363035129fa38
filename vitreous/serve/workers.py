"""Processes that do what cannot be trusted to end: reading strangers' files, searching for cells.

One that takes too long is killed, one that takes too much memory gets none, one that crashes takes nothing along. What
comes back is JSON and bytes, never a pickle.
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

from vitreous.batching import ClosedError, FullError
from vitreous.errors import InputError, first_line

Told = tuple[dict[str, Any], bytes]
Function = Callable[[Any], Told]
_PATIENCE = 1.0  # seconds
_NUMBERS = itertools.count(1)
_MODULES: list[str] = []  # of all functions: a process that has imported them forks those that work


class Workers:
    """A number of such processes, and those who wait for one.

    Args:
        function: of a module's top level; given a job, tells what it found, or raises `InputError`.
        count: of processes.
        waiting: jobs that may wait; more are refused.
        memory: megabytes of address space of a process.
        patient: whether a job that nobody wants any more has a moment to end, as short ones will.
    """

    def __init__(self, function: Function, count: int, waiting: int, memory: int, patient: bool = False) -> None:
        self._idle: asyncio.Queue[_Worker] = asyncio.Queue()
        self._all = [_Worker(function, memory) for _ in range(count)]
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="workers")
        self._limit, self._patient, self.waiting = waiting, patient, 0
        for worker in self._all:
            self._idle.put_nowait(worker)

    async def run(self, job: Any, seconds: float) -> Told:
        """What a process tells about a job; `TimeoutError` where it takes longer."""
        if self._idle.empty() and self.waiting >= self._limit:
            raise FullError(f"{self.waiting} jobs wait already")
        self.waiting += 1
        try:
            worker = await self._idle.get()
        finally:
            self.waiting -= 1
        worker.job = number = next(_NUMBERS)
        loop = asyncio.get_running_loop()
        task = loop.run_in_executor(self._threads, worker.call, job, seconds)

        def over(done: "asyncio.Future[Told]") -> None:
            if not done.cancelled():
                done.exception()  # heard, where nobody waits any more: else it would be logged, with a client's data
            self._idle.put_nowait(worker)

        task.add_done_callback(over)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            loop.call_later(_PATIENCE * self._patient, loop.run_in_executor, None, worker.drop, number)
            raise

    def start(self) -> None:
        """Have the processes up before they are needed."""
        for worker in self._all:
            self._threads.submit(worker.start)

    def close(self) -> None:
        """End the processes."""
        for worker in self._all:
            worker.close()
        self._threads.shutdown(cancel_futures=True)


class _Worker:
    """One process and the job that it has: nobody else's is ever dropped."""

    def __init__(self, function: Function, memory: int) -> None:
        self._function, self._memory, self._closed = function, memory, False
        if function.__module__ not in _MODULES:
            _MODULES.append(function.__module__)
        self._lock, self._process = threading.Lock(), cast(Any, None)
        self._ours: Connection | None = None
        self.job = self._dropped = 0

    def start(self) -> None:
        """In a thread, for it may take a while: have the process up."""
        with self._lock:
            if self._closed:
                raise ClosedError("closed")
            if self._process is not None and self._process.is_alive():
                return
            context = get_context("forkserver")
            context.set_forkserver_preload(_MODULES)
            self._ours, theirs = context.Pipe()
            arguments = (theirs, self._function, self._memory * 1_000_000)
            self._process = context.Process(target=_work, args=arguments, daemon=True)
            self._process.start()
            theirs.close()

    def call(self, job: Any, seconds: float) -> Told:
        """In a thread: hand over the job and wait."""
        try:
            content = self._reply(job, seconds)
        except (EOFError, BrokenPipeError, ConnectionError):  # it is no more: dropped, or killed by what it was given
            self._kill()
            raise InputError("the content makes its reader fail") from None
        finally:
            with self._lock:
                self.job = 0
        head, _, payload = content.partition(b"\n")
        told = json.loads(head)
        if "error" in told:
            raise InputError(told["error"])
        if "fault" in told:
            raise RuntimeError(told["fault"])
        return told, payload

    def _reply(self, job: Any, seconds: float) -> bytes:
        self.start()
        assert self._ours is not None
        if self._dropped == self.job:
            raise EOFError
        self._ours.send(job)
        if not self._ours.poll(seconds):
            self._kill()
            raise TimeoutError
        return self._ours.recv_bytes()

    def drop(self, job: int) -> None:
        """Kill the process if it is still busy with this job."""
        with self._lock:
            if self.job == job:
                self._dropped = job
                self._end()

    def close(self) -> None:
        """End for good."""
        self._closed = True
        self._kill()

    def _kill(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()


def _work(connection: Connection, function: Function, memory: int) -> None:
    """In the process: one job after the other, until nobody is there any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the service that is told to stop
    with open(os.devnull, "wb") as nowhere:  # what libraries print may be of a client's data
        for stream in (1, 2):
            os.dup2(nowhere.fileno(), stream)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        connection.send_bytes(_told(function, job))


def _told(function: Function, job: Any) -> bytes:
    head: dict[str, Any]
    payload = b""
    try:
        head, payload = function(job)
    except InputError as fault:
        head = {"error": first_line(fault)}
    except MemoryError:
        head = {"error": "the content needs more memory than it may have"}
    except Exception as fault:
        head = {"fault": f"{type(fault).__name__} in {function.__name__}"}  # of the message nothing: it may hold data
    return json.dumps(head).encode() + b"\n" + payload
