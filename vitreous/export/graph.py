"""A predictor as one torch module: raw samples in, physical quantities out."""

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from vitreous.export.quiet import quiet
from vitreous.run.predictor import Predictor


class Graph(nn.Module):
    """Scaling, model and task in one module; `output_names` names its outputs."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.model, self.scaling, self.task = predictor.model, predictor.scaling, predictor.task
        self.is_regression = bool(predictor.targets)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """`x`: raw samples `(B, channels, *grid)` as float32."""
        out = self.model(self.scaling(x))
        exact = out.double()  # as in the predictor
        if self.is_regression:
            return out, self.task.physical(exact), self.task.uncertainty(exact)
        return out, exact.softmax(-1)


def output_names(predictor: Predictor) -> tuple[str, ...]:
    """Names of the outputs of the graph: raw outputs `(B, K)`, then physical quantities."""
    return ("outputs", "values", "uncertainty") if predictor.targets else ("outputs", "probabilities")


def export_program(predictor: Predictor) -> ExportedProgram:
    """The graph as traced by `torch.export`, for any number of samples."""
    free = {0: Dim("batch")}
    if predictor.shorter:
        free[len(predictor.input)] = Dim("count", max=predictor.input[-1])
    example = torch.zeros(3, *predictor.input)
    with torch.no_grad(), quiet():
        return torch.export.export(Graph(predictor).eval(), (example,), dynamic_shapes=(free,))
