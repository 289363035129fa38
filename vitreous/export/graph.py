"""A predictor as one graph: raw samples in, physical quantities out."""

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from vitreous.export.quiet import quiet
from vitreous.train.predictor import Predictor
from vitreous.train.task import Regression, Task


class Graph(nn.Module):
    """Scaling, model and task in one module; `names` says what comes out."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.model, self.scaling, self.task = predictor.model, predictor.scaling, predictor.task

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """`x`: raw samples `(B, channels, *grid)` as float32."""
        out = self.model(self.scaling(x))
        exact = out.double()  # as a predictor has it
        if isinstance(self.task, Regression):
            return out, self.task.physical(exact), self.task.uncertainty(exact)
        return out, exact.softmax(-1)


def names(task: Task) -> tuple[str, ...]:
    """The outputs of the graph: those of the model, `(B, K)`, then physical quantities."""
    return ("outputs", "values", "uncertainty") if isinstance(task, Regression) else ("outputs", "probabilities")


def program(predictor: Predictor) -> ExportedProgram:
    """The graph as torch has traced it, for any number of samples."""
    free = {0: Dim("batch")}
    if predictor.shorter:
        free[len(predictor.input)] = Dim("count", max=predictor.input[-1])
    example = torch.zeros(3, *predictor.input)
    with torch.no_grad(), quiet():
        return torch.export.export(Graph(predictor).eval(), (example,), dynamic_shapes=(free,))
