"""`load`: the predictor of a run folder or of an exported file; torch is imported only where it is needed."""

from os import PathLike
from pathlib import Path

from vitreous.core.errors import InputError
from vitreous.run.prediction import AnyPredictor

_SUFFIXES = (".onnx", ".safetensors")


def load(path: str | PathLike[str], device: str = "cpu") -> AnyPredictor:
    """The predictor of a run folder, or of a file that `vitreous export` has made of one.

    Args:
        path: the folder, or an `.onnx` or `.safetensors` file.
        device: where a run or a `.safetensors` file computes, e.g. `cuda`; an `.onnx` file does on the CPU.
    """
    path = Path(path)
    is_run = path.is_dir() or path.suffix not in _SUFFIXES
    if is_run and path.is_file():
        raise InputError(f"{path}: is neither a run folder nor a file of these: {', '.join(_SUFFIXES)}")
    if not is_run and not path.is_file():
        raise InputError(f"{path}: no such file")
    if is_run or path.suffix == ".safetensors":
        from vitreous.run import predictor

        return predictor.load(path, device) if is_run else predictor.load_file(path, device)
    if device != "cpu":
        raise InputError(f"device: found {device!r}, but {path} is an ONNX model, which computes on the cpu")
    from vitreous.run.onnx import load_onnx

    return load_onnx(path)
