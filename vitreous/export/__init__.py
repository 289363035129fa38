"""Export of runs to one file: ONNX in float32 or int8, or safetensors with weights, model and task.

`vt.load` reads these files; an ONNX file is used without torch. A module is imported on first use of one of its names,
because only those who write a file need torch's exporter.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitreous.export.files import Exported as Exported
    from vitreous.export.files import compare_scores as compare_scores
    from vitreous.export.files import export_run as export_run
    from vitreous.export.int8 import to_int8 as to_int8
    from vitreous.export.onnx_file import export_program as export_program
    from vitreous.export.onnx_file import to_onnx as to_onnx

_HOMES = {
    "Exported": "files",
    "compare_scores": "files",
    "export_program": "onnx_file",
    "export_run": "files",
    "to_int8": "int8",
    "to_onnx": "onnx_file",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"vitreous.export.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'vitreous.export' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
