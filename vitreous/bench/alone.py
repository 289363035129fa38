"""Run a function in a process of its own, which shares neither memory nor caches with this one."""

from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

T = TypeVar("T")


class DiedError(RuntimeError):
    """The process ended without an answer: killed, as a rule for want of memory."""


def alone(function: Callable[..., T], *args: Any, seconds: float | None = None) -> T:
    """`function(*args)` in a fresh process; `TimeoutError` if that takes longer than `seconds`.

    Function, arguments and answer must be picklable; an exception is raised here again.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(theirs, function, args))
    process.start()
    theirs.close()
    try:
        if not ours.poll(seconds):
            raise TimeoutError(f"no answer within {seconds:g} s")
        answer, fault = ours.recv()
        process.join(10)
    except EOFError:
        process.join(10)
        raise DiedError(f"the process ended with exit code {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
    if fault is not None:
        raise fault
    found: T = answer
    return found


def _answer(to: Connection, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    with suppress(KeyboardInterrupt):  # which the parent hears too, and tells
        try:
            to.send((function(*args), None))
        except Exception as fault:
            to.send((None, fault))
