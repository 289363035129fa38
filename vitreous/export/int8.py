"""Quantise an ONNX model to int8, except for its first layer and its head, which stay in float32.

Linear layers of a transformer are quantised dynamically: the range of their input is measured in each batch.
Convolutions are faster in int8 only with fixed ranges (static quantisation), which are measured on training samples.
Weights have one symmetric scale per channel. docs/export.md gives the loss of accuracy and the reasons.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.core.atomic import scratch_folder
from vitreous.core.batching import split_into_batches
from vitreous.core.extras import load_extra
from vitreous.export.onnx_file import quiet, to_bytes
from vitreous.run.predictor import Predictor

CALIBRATION = 256
"""Number of training samples for the ranges of a CNN."""
_BATCH = 32


def to_int8(content: bytes, predictor: Predictor, samples: NDArray[Any]) -> bytes:
    """Quantise the ONNX model that `to_onnx` wrote; only CNNs use the training samples `(n, channels, *grid)`."""
    onnx, quantization = load_extra("onnx", "export"), load_extra("onnxruntime.quantization", "export")
    model = onnx.load_model_from_string(content)
    shared = {"per_channel": True, "weight_type": quantization.QuantType.QInt8}
    with quiet(), scratch_folder() as folder:
        path = folder / "int8.onnx"
        convolutions = [node.name for node in model.graph.node if node.name.startswith("model.stages.")]
        if convolutions:
            reader = _reader(quantization.CalibrationDataReader, samples)
            shared |= {"activation_type": quantization.QuantType.QUInt8, "nodes_to_quantize": convolutions}
            quantization.quantize_static(model, path, reader, **shared)
        else:
            shared |= {"op_types_to_quantize": ["MatMul"], "nodes_to_quantize": _linear(model)}
            quantization.quantize_dynamic(model, path, **shared)
        model = onnx.load(path)
    return to_bytes(model, predictor, "int8")


def _linear(model: Any) -> list[str]:
    """Names of the linear layers in the blocks. Scores with weights of their own have three-dimensional weights."""
    matrices = {weight.name for weight in model.graph.initializer if len(weight.dims) == 2}
    products = (node for node in model.graph.node if node.op_type == "MatMul" and node.input[1] in matrices)
    return [node.name for node in products if node.name.startswith("model.blocks.")]


def _reader(base: Any, samples: NDArray[Any]) -> Any:
    """A `CalibrationDataReader` of onnxruntime over the samples."""
    batches = ({"x": batch.astype(np.float32)} for batch in split_into_batches(samples, _BATCH))

    class Reader(base):  # type: ignore[misc]
        def get_next(self) -> dict[str, NDArray[np.float32]] | None:
            return next(batches, None)

    return Reader()
