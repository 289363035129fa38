"""Jobs that end, crash, hang or swell: processes import them from here."""

import os
import time
from typing import Any

from vitreous.errors import InputError


def _swell() -> None:
    held = []
    while True:
        held.append(bytearray(50_000_000))


def _crash() -> None:
    os._exit(11)


def _hang() -> None:
    while True:
        time.sleep(0.01)


def _mistake() -> None:
    raise InputError("file 0: is wrong\nin two lines")


def _bug() -> None:
    raise KeyError("secret")


JOBS = {"swell": _swell, "crash": _crash, "hang": _hang, "mistake": _mistake, "bug": _bug}


def work(job: Any) -> tuple[dict[str, Any], bytes]:
    """Do what is asked; the process' number and the job's name otherwise."""
    if isinstance(job, float):
        time.sleep(job)
    elif job in JOBS:
        JOBS[job]()
    return {"pid": os.getpid()}, str(job).encode()
