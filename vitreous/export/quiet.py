"""The exporters' own chatter, kept off the terminal of those who export."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_LOGS = ("", "torch.onnx")  # onnxruntime's quantisation tells the root


@contextmanager
def quiet() -> Iterator[None]:
    """Without the notes of torch's and onnxruntime's exporters on themselves and on packages not needed here."""
    logs = [logging.getLogger(name) for name in _LOGS]
    levels = [log.level for log in logs]
    none = logging.NullHandler()  # or the first note would give the root a handler that stays
    logs[0].addHandler(none)
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        logs[0].removeHandler(none)
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)
