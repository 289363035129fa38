"""`load`: the predictor of a run folder or of an exported file; torch is imported only where it is needed."""

from collections.abc import Callable
from os import PathLike
from pathlib import Path

from vitreous.core.errors import InputError
from vitreous.run.prediction import AnyPredictor


def load(path: str | PathLike[str], device: str = "cpu") -> AnyPredictor:
    """The predictor of a run folder, or of a file that `vitreous export` has made of one.

    Args:
        path: the folder, or an `.onnx` or `.safetensors` file.
        device: where a run or a `.safetensors` file computes, e.g. `cuda`; an `.onnx` file does on the CPU.
    """
    path = Path(path)
    if path.is_dir() or path.suffix not in _FILES:
        if path.is_file():
            raise InputError(f"{path}: is neither a run folder nor a file of these: {', '.join(_FILES)}")
        return _run(path, device)
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    return _FILES[path.suffix](path, device)


def _run(path: Path, device: str) -> AnyPredictor:
    from vitreous.run.predictor import load as load_run

    return load_run(path, device)


def _onnx(path: Path, device: str) -> AnyPredictor:
    from vitreous.run.onnx import load_onnx

    if device != "cpu":
        raise InputError(f"device: found {device!r}, but {path} is an ONNX model, which computes on the cpu")
    return load_onnx(path)


def _one_file(path: Path, device: str) -> AnyPredictor:
    from vitreous.run.one_file import load_file

    return load_file(path, device)


_FILES: dict[str, Callable[[Path, str], AnyPredictor]] = {".onnx": _onnx, ".safetensors": _one_file}
