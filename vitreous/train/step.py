"""One training step: forward, loss, gradient, update, moving average; on a GPU recorded once and replayed.

A step of a small model is hundreds of kernels of a few microseconds each, less than the time to launch them one by one.
A CUDA graph launches them all at once.
"""

import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from vitreous.core.errors import first_line
from vitreous.train.device import pick_precision
from vitreous.train.job import Job
from vitreous.train.optimiser import FACTOR

_WARM_UP = 3  # steps before a graph is recorded: compilers and optimisers prepare themselves in them


class MovingAverage(NamedTuple):
    """A running average of a model's weights."""

    average: list[Tensor]
    live: Callable[[], dict[str, Tensor]]

    def follow(self, share: Tensor) -> None:
        """Move a share of the way to the live weights."""
        ahead = torch._foreach_sub(list(self.live().values()), self.average)
        torch._foreach_mul_(ahead, share)
        torch._foreach_add_(self.average, ahead)


class MixedPrecision:
    """A model that computes in the precision of the training and returns float32.

    A context manager around the call does it: accelerate's own wrapper is a new object for each model, so that each
    would be compiled again.
    """

    def __init__(self, model: nn.Module, precision: str, device: torch.device) -> None:
        self.model, self.device = model, device.type
        self.low = pick_precision(precision, device.type) != "float32"

    def __call__(self, x: Tensor) -> Tensor:
        with torch.autocast(self.device, torch.bfloat16, enabled=self.low):
            out: Tensor = self.model(x)
        return out.float()


class Step:
    """One step of training, called with raw samples and targets on the device; returns the loss.

    `forward` is the same model, perhaps compiled; the job has its loss, its preparation of batches and its settings.
    """

    def __init__(
        self,
        model: nn.Module,
        forward: nn.Module,
        job: Job,
        optimisers: list[Any],
        average: MovingAverage | None,
        accelerator: Accelerator,
    ) -> None:
        self.model, self.job, self.settings = model, job, job.settings
        self.forward = MixedPrecision(forward, self.settings.precision, accelerator.device)
        self.optimisers, self.average, self.accelerator = optimisers, average, accelerator
        self._average_share = torch.zeros((), device=accelerator.device)
        alone = accelerator.device.type == "cuda" and accelerator.num_processes == 1
        self._uses_graphs = alone and self.settings.compile != "off" and not self.settings.checkpointing
        self._steps_by_shape: Counter[torch.Size] = Counter()
        self._graphs: dict[torch.Size, _Graph] = {}

    def __call__(self, x: Tensor, y: Tensor, lr: float, average_share: float) -> Tensor:
        """Take a step with a learning rate; the average moves by a share of the way to the new weights."""
        self._average_share.fill_(average_share)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group_lr = lr * group.get(FACTOR, 1.0)
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(group_lr)
                else:
                    group["lr"] = group_lr
        if self._uses_graphs and self._steps_by_shape[x.shape] == _WARM_UP:
            self._record(x, y)
        self._steps_by_shape[x.shape] += 1
        return self._graphs.get(x.shape, self.compute)(x, y)

    def compute(self, x: Tensor, y: Tensor) -> Tensor:
        """The step itself, kernel by kernel; returns the loss."""
        settings, accelerator = self.settings, self.accelerator
        x, y = self.job.prepare(x, y)
        parts = list(zip(x.chunk(settings.accumulate), y.chunk(settings.accumulate), strict=True))
        total = torch.zeros((), device=accelerator.device)
        for i, (part, target) in enumerate(parts):
            waiting = i + 1 < len(parts) and accelerator.num_processes > 1
            with accelerator.no_sync(self.model) if waiting else nullcontext():
                loss = self.job.loss(self.forward(part), target) * (len(part) / len(x))
                accelerator.backward(loss)
            total += loss.detach()
        if settings.clip:
            accelerator.clip_grad_norm_(self.model.parameters(), settings.clip)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad()
        if self.average is not None:
            self.average.follow(self._average_share)
        return total

    def _record(self, x: Tensor, y: Tensor) -> None:
        """Record the step with batches of this shape as a CUDA graph, if possible."""
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                if not isinstance(group["lr"], Tensor):  # the same tensor for the graphs of all shapes
                    group["lr"] = torch.tensor(group["lr"], device=x.device)
                if "capturable" in group:
                    group["capturable"] = True
        try:
            self._graphs[x.shape] = _Graph(self.compute, x, y)
        except (RuntimeError, NotImplementedError) as fault:  # some operation reads a value back from the device
            self._uses_graphs = False
            message = f"steps are launched kernel by kernel, which may be slower ({first_line(fault)})"
            warnings.warn(message, stacklevel=2)


class _Graph:
    """A function of a batch, recorded once and replayed with others of its shape."""

    def __init__(self, compute: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> None:
        self.x, self.y = x.clone(), y.clone()
        self.graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):
            self.loss = compute(self.x, self.y)

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.loss
