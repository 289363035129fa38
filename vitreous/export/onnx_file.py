"""A predictor as an ONNX model, with a description of its input and output in the metadata."""

import ast
import json
from collections import Counter
from typing import Any

import torch

from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.core.version import __version__
from vitreous.export.graph import export_program, output_names
from vitreous.export.quiet import quiet
from vitreous.nn.config import ViTConfig
from vitreous.run.onnx import ABOUT, VERSION
from vitreous.run.predictor import Predictor

MAX_BYTES = 2**31 - 2**20
"""Weights that fit into one file: protobuf's limit minus the size of the graph."""
_OPSET = 20
_OPSET_FUSED = 23  # the first with an attention operator; onnxruntime needs its masks to have a row per query
_SCOPES = "pkg.torch.onnx.name_scopes"


def to_onnx(predictor: Predictor, max_bytes: int = MAX_BYTES) -> bytes:
    """The model as the content of an ONNX file in float32; `InputError` if its weights exceed `max_bytes`."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        load_extra(package, "export", "or export with --format torch, in float32")
    size = sum(p.numel() * 4 for p in predictor.model.parameters())
    if size > max_bytes:
        raise InputError(f"export: the weights take {size / 1e9:.1f} GB, but one ONNX file holds 2; use --format torch")
    config = predictor.model.config
    fused = isinstance(config, ViTConfig) and config.tokens in ("patch", "set")  # other tokens have masks
    with torch.no_grad(), quiet():
        exported = torch.onnx.export(
            export_program(predictor), input_names=["x"], output_names=list(output_names(predictor)), dynamo=True,
            external_data=False, verbose=False, opset_version=_OPSET_FUSED if fused else _OPSET,
            custom_translation_table={torch.ops.aten.median.dim: _median},
        )  # fmt: skip
    assert exported is not None
    model = exported.model_proto
    _clean(model)
    add_metadata(model, predictor, "float32")
    content: bytes = model.SerializeToString()
    return content


def add_metadata(model: Any, predictor: Predictor, precision: str) -> None:
    """Store the description of input and output in the model."""
    metadata = predictor.about() | {
        "format": VERSION,
        "input": predictor.input,
        "shorter": predictor.shorter,
        "precision": precision,
    }
    del model.metadata_props[:]
    model.metadata_props.add(key=ABOUT, value=json.dumps(metadata))
    model.producer_name, model.producer_version = "vitreous", __version__


def _clean(model: Any) -> None:
    """Name nodes after the module that they belong to, and name the free dimensions.

    The source lines and file paths that torch stores with each node are removed.
    """
    graph, counts = model.graph, Counter[str]()
    for node in graph.node:
        metadata = {entry.key: entry.value for entry in node.metadata_props}
        scopes = [scope for scope in ast.literal_eval(metadata.get(_SCOPES, "[]")) if scope.startswith("model")]
        name = f"{scopes[-1] if scopes else 'graph'}/{node.op_type}"
        counts[name] += 1
        node.name = name if counts[name] == 1 else f"{name}_{counts[name]}"
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.ClearField("metadata_props")
        value.ClearField("doc_string")
    sizes = [size for value in graph.input for size in value.type.tensor_type.shape.dim if size.dim_param]
    names = dict(zip([size.dim_param for size in sizes], ("batch", "count"), strict=False))
    for value in (*graph.input, *graph.output):
        for size in value.type.tensor_type.shape.dim:
            if size.dim_param:
                size.dim_param = names.get(size.dim_param, size.dim_param)
    for field in ("value_info", "doc_string", "metadata_props"):
        graph.ClearField(field)
    model.ClearField("doc_string")


def _median(x: Any, dim: int, keepdim: bool = False) -> tuple[Any, Any]:
    """torch's median (the lower of the middle two), which its exporter does not support."""
    op = load_extra("onnxscript", "export").opset20
    count = x.shape[dim]
    values, places = op.TopK(x, op.Constant(value_ints=[(count + 1) // 2]), axis=dim, largest=0)
    last = op.Constant(value_ints=[-1]) if keepdim else op.Constant(value_int=-1)
    return op.Gather(values, last, axis=dim), op.Gather(places, last, axis=dim)
