"""Run a function in a fresh process, which shares neither memory nor caches with this one."""

from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, TypeVar

T = TypeVar("T")


class ProcessDiedError(RuntimeError):
    """The process ended without a result; usually it was killed because memory ran out."""


def run_in_fresh_process(function: Callable[..., T], *args: Any, seconds: float | None = None) -> T:
    """Call `function(*args)` in a fresh process; `TimeoutError` after `seconds`.

    Function, arguments and result must be picklable. An exception is raised again in the caller.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send_result, args=(theirs, function, args))
    process.start()
    theirs.close()
    try:
        if not ours.poll(seconds):
            raise TimeoutError(f"no answer within {seconds:g} s")
        result: tuple[T, BaseException | None] = ours.recv()
        process.join(10)
    except EOFError:
        process.join(10)
        raise ProcessDiedError(f"the process ended with exit code {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
    value, fault = result
    if fault is not None:
        raise fault
    return value


def _send_result(to: Connection, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    with suppress(KeyboardInterrupt):  # the parent receives it too, and reports it
        try:
            to.send((function(*args), None))
        except Exception as fault:
            to.send((None, fault))
