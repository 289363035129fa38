"""Silence the messages of torch's and onnxruntime's exporters."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = ("", "torch.onnx")  # onnxruntime's quantisation logs to the root


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress deprecation warnings and log messages below ERROR."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    handler = logging.NullHandler()  # without it the first message would add a handler to the root for good
    loggers[0].addHandler(handler)
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        loggers[0].removeHandler(handler)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
