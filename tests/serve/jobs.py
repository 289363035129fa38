"""Jobs that finish, crash, hang or use all memory; worker processes import them from here."""

import os
import time
from typing import Any

from vitreous.core.errors import InputError
from vitreous.serve.uploads import read_upload
from vitreous.serve.workers import JobResult


def _use_all_memory() -> None:
    blocks = []
    while True:
        blocks.append(bytearray(50_000_000))


def _crash() -> None:
    os._exit(11)


def _hang() -> None:
    while True:
        time.sleep(0.01)


def _raise_input_error() -> None:
    raise InputError("file 0: is wrong\nin two lines")


def _raise_bug() -> None:
    raise KeyError("secret")


JOBS = {
    "memory": _use_all_memory,
    "crash": _crash,
    "hang": _hang,
    "input error": _raise_input_error,
    "bug": _raise_bug,
}


def work(job: Any) -> tuple[dict[str, Any], bytes]:
    """Run a job by name, or sleep for a number of seconds; return the process id and the job's name."""
    if isinstance(job, float):
        time.sleep(job)
    elif job in JOBS:
        JOBS[job]()
    return {"pid": os.getpid()}, str(job).encode()


def read_or_hang(job: Any) -> JobResult:
    """Read an upload; hang if its first file says so."""
    file = job.files[0] if hasattr(job, "files") else job.file
    if b"hang" in file.content:
        _hang()
    return read_upload(job)
