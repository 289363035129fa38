"""Work spread over processes that end with the one that started them."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from multiprocessing import active_children, get_context, parent_process
from threading import Thread
from typing import TypeVar

import torch

Item = TypeVar("Item")
Answer = TypeVar("Answer")

WAITING = 4
"""Items for each process that are in memory."""


def map_unordered(work: Callable[[Item], Answer], items: Iterable[Item], processes: int) -> Iterator[Answer]:
    """The answers of `work` to all items, each as soon as it is ready; items are taken as they are needed.

    An exception of `work` is raised when what was under way has ended; a signal, or the end of the iteration, ends the
    processes at once. A process that dies raises `BrokenProcessPool`.
    """
    others = set(active_children())
    running: set[Future[Answer]] = set()
    context = get_context("spawn")  # torch's threads do not survive a fork
    with ProcessPoolExecutor(processes, context, start_process) as pool:
        try:
            for item in items:
                with _signals_blocked():
                    running.add(pool.submit(work, item))
                if len(running) >= WAITING * processes:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from _answers(done)
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from _answers(done)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):  # nobody waits for the answers any more
            for process in set(active_children()) - others:
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _answers(done: Iterable[Future[Answer]]) -> Iterator[Answer]:
    """What is answered first, then exceptions."""
    return (each.result() for each in sorted(done, key=lambda each: each.exception() is not None))


def start_process() -> None:
    """One thread; only the first process answers to the keyboard; no process outlives it."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def core_count() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # a job of a cluster has a part of the machine
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """A process that starts inside the block never sees SIGINT, also before `start_process` runs in it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def end_on_sigterm() -> Iterator[None]:
    """Inside the block SIGTERM raises `SystemExit` with code 143, so that files are closed and processes end."""

    def end(*_: object) -> None:
        raise SystemExit(143)

    before = None
    with suppress(ValueError):  # not in the main thread, which alone receives signals
        before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
