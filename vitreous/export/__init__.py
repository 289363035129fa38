"""Export of runs to one file: ONNX in float32 or int8, or safetensors with weights, model and task.

`vt.load` reads these files; an ONNX file is used without torch.
"""

from vitreous.export.files import Exported, compare_scores, export_run
from vitreous.export.int8 import to_int8
from vitreous.export.onnx_file import export_program, to_onnx

__all__ = ["Exported", "compare_scores", "export_program", "export_run", "to_int8", "to_onnx"]
