"""From a predictor to the content of a file, compared with the predictor before it is written."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from vitreous.atomic import scratch_folder
from vitreous.errors import InputError, check_choice
from vitreous.export.int8 import to_int8
from vitreous.export.one_file import load_file, to_file
from vitreous.export.onnx_file import to_onnx
from vitreous.export.parity import TOLERANCE, differences
from vitreous.export.session import OnnxPredictor, open_onnx
from vitreous.train.predictor import Predictor

SUFFIXES = {"onnx": ".onnx", "torch": ".safetensors"}


@dataclass(frozen=True)
class Exported:
    """A model as the content of a file.

    Args:
        content: of the file.
        predictor: that answers by it.
        parity: for each size of a batch, its largest difference from the run.
    """

    content: bytes
    predictor: Predictor | OnnxPredictor
    parity: dict[int, float]


def check_file(out: Path, form: str) -> None:
    """Raise `InputError` unless the file can be meant for this format and has a folder to lie in."""
    check_choice("format", form, SUFFIXES)
    if out.suffix != SUFFIXES[form]:
        raise InputError(f"{out}: found {out.suffix or 'no ending'!r}, expected a file that ends in {SUFFIXES[form]}")
    if not out.parent.is_dir():
        raise InputError(f"{out}: cannot be written (there is no folder {out.parent})")
    if out.is_dir():
        raise InputError(f"{out}: cannot be written (it is a folder)")


def make(predictor: Predictor, form: str, samples: NDArray[Any]) -> Exported:
    """The predictor in a format, compared with itself on samples `(n, channels, *grid)`."""
    content = _WRITERS[form](predictor)
    again = _READERS[form](content)
    parity = differences(predictor, again, samples)
    for size, value in parity.items():
        if not value <= TOLERANCE:
            raise InputError(f"export: differs from the run by {value:.1e} at batch {size}, so nothing was written")
    return Exported(content, again, parity)


def make_int8(made: Exported, predictor: Predictor, samples: NDArray[Any], training: NDArray[Any]) -> Exported:
    """An ONNX export as int8; `training` are samples that show a CNN its ranges."""
    content = to_int8(made.content, predictor, training)
    again = open_onnx(content)
    return Exported(content, again, differences(predictor, again, samples))


def _read_file(content: bytes) -> Predictor:
    with scratch_folder() as folder:
        path = folder / "model.safetensors"
        path.write_bytes(content)
        return load_file(path)


_WRITERS: dict[str, Callable[[Predictor], bytes]] = {"onnx": to_onnx, "torch": to_file}
_READERS: dict[str, Callable[[bytes], Predictor | OnnxPredictor]] = {"onnx": open_onnx, "torch": _read_file}
