"""A predictor as an ONNX model, in one piece with what it says of itself, and nothing of the machine it was made on."""

import ast
import json
from collections import Counter
from typing import Any

import torch

from vitreous import __version__
from vitreous.data.extras import load_extra
from vitreous.errors import InputError
from vitreous.export.graph import names, program
from vitreous.export.quiet import quiet
from vitreous.export.session import ABOUT, VERSION
from vitreous.nn.config import ViTConfig
from vitreous.train.predictor import Predictor

_MOST = 2**31 - 2**20  # bytes: protobuf's limit, less what the graph itself takes
_OPSET = 20
_OPSET_FUSED = 23  # the first with attention as one operator, whose masks onnxruntime takes only with a row a query
_SCOPES = "pkg.torch.onnx.name_scopes"


def to_onnx(predictor: Predictor) -> bytes:
    """The model in float32, ready to be written or to be made int8."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        load_extra(package, "export", "or export with --format torch, in float32")
    size = sum(p.numel() * 4 for p in predictor.model.parameters())
    if size > _MOST:
        raise InputError(f"export: the weights take {size / 1e9:.1f} GB, but one ONNX file holds 2; use --format torch")
    config = predictor.model.config
    fused = isinstance(config, ViTConfig) and config.tokens in ("patch", "set")  # the others have masks
    with torch.no_grad(), quiet():
        found = torch.onnx.export(
            program(predictor), input_names=["x"], output_names=list(names(predictor.task)), dynamo=True,
            external_data=False, verbose=False, opset_version=_OPSET_FUSED if fused else _OPSET,
            custom_translation_table={torch.ops.aten.median.dim: _median},
        )  # fmt: skip
    assert found is not None
    model = found.model_proto
    _tidy(model)
    tell(model, predictor, "float32")
    content: bytes = model.SerializeToString()
    return content


def tell(model: Any, predictor: Predictor, precision: str) -> None:
    """Let the model say what goes in and what comes out."""
    about = predictor.about() | {
        "format": VERSION,
        "input": predictor.input,
        "shorter": predictor.shorter,
        "precision": precision,
    }
    del model.metadata_props[:]
    model.metadata_props.add(key=ABOUT, value=json.dumps(about))
    model.producer_name, model.producer_version = "vitreous", __version__


def _tidy(model: Any) -> None:
    """Name nodes after the part of the model that they compute, and sizes after what they count.

    torch notes the lines of source that made each node, with the places of the files: they are taken out.
    """
    graph, seen = model.graph, Counter[str]()
    for node in graph.node:
        known = {note.key: note.value for note in node.metadata_props}
        scopes = [scope for scope in ast.literal_eval(known.get(_SCOPES, "[]")) if scope.startswith("model")]
        name = f"{scopes[-1] if scopes else 'graph'}/{node.op_type}"
        seen[name] += 1
        node.name = name if seen[name] == 1 else f"{name}_{seen[name]}"
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.ClearField("metadata_props")
        value.ClearField("doc_string")
    sizes = [size for value in graph.input for size in value.type.tensor_type.shape.dim if size.dim_param]
    called = dict(zip([size.dim_param for size in sizes], ("batch", "count"), strict=False))
    for value in (*graph.input, *graph.output):
        for size in value.type.tensor_type.shape.dim:
            if size.dim_param:
                size.dim_param = called.get(size.dim_param, size.dim_param)
    for field in ("value_info", "doc_string", "metadata_props"):
        graph.ClearField(field)
    model.ClearField("doc_string")


def _median(x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
    """torch's median, the lower of the middle two, which its exporter does not know."""
    op = load_extra("onnxscript", "export").opset20
    count = x.shape[dim]
    values, places = op.TopK(x, op.Constant(value_ints=[(count + 1) // 2]), axis=dim, largest=0)
    last = op.Constant(value_ints=[-1]) if keepdim else op.Constant(value_int=-1)
    return op.Gather(values, last, axis=dim), op.Gather(places, last, axis=dim)
