"""A predictor as one torch program or ONNX model: raw samples in, physical quantities out.

The ONNX model has a description of its input and output in the metadata.
"""

import ast
import json
import logging
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from vitreous.core.checksums import NO_CHECKSUM, add_checksum
from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.core.version import __version__
from vitreous.run.answers import with_features
from vitreous.run.onnx import ABOUT, VERSION
from vitreous.run.predictor import Predictor
from vitreous.run.task import Regression

MAX_BYTES = 2**31 - 2**20
"""Weights that fit into one file: protobuf's limit minus the size of the graph."""
_OPSET = 20
_OPSET_FUSED = 23  # the first with an attention operator; onnxruntime needs its masks to have a row per query
_SCOPES = "pkg.torch.onnx.name_scopes"
_LOGGERS = ("", "torch.onnx")  # onnxruntime's quantisation logs to the root
_QUANTITIES = ["outputs", "values", "uncertainty"]  # outputs of a graph: raw ones, then quantities
_PROBABILITIES = ["outputs", "probabilities"]


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress deprecation warnings of exporters and log messages below ERROR."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    handler = logging.NullHandler()  # without it the first message would add a handler to the root for good
    with ExitStack() as undo, warnings.catch_warnings():
        loggers[0].addHandler(handler)
        undo.callback(loggers[0].removeHandler, handler)
        for logger in loggers:
            undo.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.ERROR)
        for category in (FutureWarning, DeprecationWarning):
            warnings.simplefilter("ignore", category)
        yield


class _Graph(nn.Module):
    """Scaling, model and task in one module; `embeds` adds the input of the model's head to its outputs."""

    def __init__(self, predictor: Predictor, embeds: bool) -> None:
        super().__init__()
        self.model, self.scaling, self.task = predictor.model, predictor.scaling, predictor.task
        self.embeds = embeds

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """`x`: raw samples `(B, channels, *grid)` as float32."""
        model = with_features(self.model) if self.embeds else self.model
        out, *embedding = model(self.scaling(x)).tensor_split([self.task.outputs][: self.embeds], dim=1)
        exact = out.double()  # as in the predictor
        if isinstance(self.task, Regression):
            return out, self.task.physical(exact), self.task.uncertainty(exact), *embedding
        return out, exact.softmax(-1), *embedding


def export_program(predictor: Predictor, embeds: bool = False) -> ExportedProgram:
    """The predictor as a program of `torch.export`, for any number of samples; `embeds` adds an output."""
    free = {0: Dim("batch")}
    if predictor.shorter:
        free[len(predictor.input)] = Dim("count", max=predictor.input[-1])
    example = torch.zeros(3, *predictor.input)
    with torch.no_grad(), quiet():
        return torch.export.export(_Graph(predictor, embeds).eval(), (example,), dynamic_shapes=(free,))


def to_onnx(predictor: Predictor, max_bytes: int = MAX_BYTES) -> bytes:
    """The model as the content of an ONNX file in float32; `InputError` if its weights exceed `max_bytes`."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        load_extra(package, "export", "or export with --format torch, in float32")
    size = sum(p.numel() * 4 for p in predictor.model.parameters())
    if size > max_bytes:
        raise InputError(f"export: the weights take {size / 1e9:.1f} GB, but one ONNX file holds 2; use --format torch")
    config = predictor.model.config
    names, embeds = _QUANTITIES if predictor.targets else _PROBABILITIES, predictor.familiarity is not None
    fused = config.tokenizer is not None and not config.tokenizer.has_mask
    with torch.no_grad(), quiet():
        exported = torch.onnx.export(
            export_program(predictor, embeds), input_names=["x"], dynamo=True, external_data=False, verbose=False,
            output_names=[*names, "embedding"] if embeds else names,
            opset_version=_OPSET_FUSED if fused else _OPSET,
            custom_translation_table={torch.ops.aten.median.dim: _median},
        )  # fmt: skip
    assert exported is not None
    model = exported.model_proto
    _clean(model)
    return to_bytes(model, predictor, "float32")


def to_bytes(model: Any, predictor: Predictor, precision: str) -> bytes:
    """Content of the file of a model, with the description of input and output and a checksum in its metadata."""
    metadata = predictor.about() | {"format": VERSION, "input": predictor.input, "shorter": predictor.shorter}
    metadata |= {"precision": precision, "checksum": NO_CHECKSUM}
    del model.metadata_props[:]
    model.metadata_props.add(key=ABOUT, value=json.dumps(metadata))
    model.producer_name, model.producer_version = "vitreous", __version__
    return add_checksum(model.SerializeToString())


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
    for value in (*graph.node, *graph.input, *graph.output, *graph.initializer):
        value.ClearField("metadata_props")
        value.ClearField("doc_string")
    sizes = [size for value in graph.input for size in value.type.tensor_type.shape.dim if size.dim_param]
    names = dict(zip([size.dim_param for size in sizes], ("batch", "count"), strict=False))
    for value in graph.output:
        sizes += [size for size in value.type.tensor_type.shape.dim if size.dim_param]
    for size in sizes:
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
