"""An ONNX model with eight-bit weights and products between its first layer and its head, which stay in float32.

A transformer's linear layers are quantised dynamically: the range of what enters them is taken from each batch.
Convolutions are faster in int8 only if the ranges are known before (static): those of a CNN are taken from samples.
Weights have a scale for each channel, symmetric about zero. What this costs in accuracy, and why the first layer and
the head are left alone, is in docs/export.md.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitreous.atomic import scratch_folder
from vitreous.data.extras import load_extra
from vitreous.export.onnx_file import tell
from vitreous.export.quiet import quiet
from vitreous.nn.cnn import CNN
from vitreous.train.predictor import Predictor

CALIBRATION = 256
"""Samples that show a CNN its ranges."""
_BATCH = 32


def to_int8(content: bytes, predictor: Predictor, samples: NDArray[Any]) -> bytes:
    """The float32 ONNX model of a predictor, as int8.

    Args:
        content: what `to_onnx` made.
        predictor: what it was made from.
        samples: `(n, channels, *grid)`, raw, that the model was trained on.
    """
    onnx, quantization = load_extra("onnx", "export"), load_extra("onnxruntime.quantization", "export")
    model = onnx.load_model_from_string(content)
    shared = {"per_channel": True, "weight_type": quantization.QuantType.QInt8}
    with quiet(), scratch_folder() as folder:
        made = folder / "int8.onnx"
        if isinstance(predictor.model, CNN):
            reader = _reader(quantization.CalibrationDataReader, samples)
            inner = [node.name for node in model.graph.node if node.name.startswith("model.stages.")]
            shared |= {"activation_type": quantization.QuantType.QUInt8, "nodes_to_quantize": inner}
            quantization.quantize_static(model, made, reader, **shared)
        else:
            shared |= {"op_types_to_quantize": ["MatMul"], "nodes_to_quantize": _linear(model)}
            quantization.quantize_dynamic(model, made, **shared)
        model = onnx.load(made)
    tell(model, predictor, "int8")
    found: bytes = model.SerializeToString()
    return found


def _linear(model: Any) -> list[str]:
    """The linear layers inside the blocks; scores with weights of their own have one matrix a head, not one."""
    matrices = {weight.name for weight in model.graph.initializer if len(weight.dims) == 2}
    return [
        node.name
        for node in model.graph.node
        if node.op_type == "MatMul" and node.name.startswith("model.blocks.") and node.input[1] in matrices
    ]


def _reader(base: Any, samples: NDArray[Any]) -> Any:
    """The samples as onnxruntime wants to be given them."""

    def batches() -> Iterator[dict[str, NDArray[np.float32]]]:
        for start in range(0, len(samples), _BATCH):
            yield {"x": samples[start : start + _BATCH].astype(np.float32)}

    class Reader(base):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = batches()

        def get_next(self) -> dict[str, NDArray[np.float32]] | None:
            return next(self.left, None)

    return Reader()
