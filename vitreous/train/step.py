"""What is done with a batch: forward, loss, gradient, update, moving average; on a GPU recorded once and replayed.

A small model's step is hundreds of kernels that take a few microseconds each, which is less than it takes to launch
them one by one. A CUDA graph launches them all at once.
"""

import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from vitreous.train.config import TrainConfig
from vitreous.train.device import pick_precision
from vitreous.train.optim import FACTOR
from vitreous.train.stream import Batch

_FIRST = 3  # steps before a graph is recorded: compilers and optimisers prepare themselves in them


class Average(NamedTuple):
    """A running average of a model's weights."""

    average: list[Tensor]
    live: Callable[[], list[Tensor]]

    def follow(self, share: Tensor) -> None:
        """Move a share of the way to the live weights."""
        ahead = torch._foreach_sub(self.live(), self.average)
        torch._foreach_mul_(ahead, share)
        torch._foreach_add_(self.average, ahead)


class Mixed:
    """A model whose products are in the precision of a training, and whose answers are in float32.

    By a context about the call: accelerate's own, an object for each model, would have each compiled anew.
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

    Args:
        model: whose gradients are taken.
        run: the same, perhaps compiled.
        loss: of its outputs and the targets.
        prepare: raw batch to model input, augmentation included.
        optimisers: of the model's parameters.
        average: of its weights, or None.
    """

    def __init__(
        self,
        model: nn.Module,
        run: nn.Module,
        loss: Callable[[Tensor, Tensor], Tensor],
        prepare: Callable[[Tensor, Tensor], Batch],
        optimisers: list[Any],
        average: Average | None,
        config: TrainConfig,
        accelerator: Accelerator,
    ) -> None:
        self.model, self.loss, self.prepare = model, loss, prepare
        self.run = Mixed(run, config.precision, accelerator.device)
        self.optimisers, self.average, self.config, self.accelerator = optimisers, average, config, accelerator
        self._share = torch.zeros((), device=accelerator.device)
        alone = accelerator.device.type == "cuda" and accelerator.num_processes == 1
        self._graphs = alone and config.compile != "off" and not config.checkpointing
        self._done: Counter[torch.Size] = Counter()
        self._recorded: dict[torch.Size, _Graph] = {}

    def __call__(self, x: Tensor, y: Tensor, lr: float, share: float) -> Tensor:
        """Take a step with a learning rate; the average moves by a share."""
        self._share.fill_(share)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                own = lr * group.get(FACTOR, 1.0)
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(own)
                else:
                    group["lr"] = own
        if self._graphs and self._done[x.shape] == _FIRST:
            self._record(x, y)
        self._done[x.shape] += 1
        if x.shape in self._recorded:
            return self._recorded[x.shape](x, y)
        return self._take(x, y)

    def _take(self, x: Tensor, y: Tensor) -> Tensor:
        config, machine = self.config, self.accelerator
        x, y = self.prepare(x, y)
        parts = list(zip(x.chunk(config.accumulate), y.chunk(config.accumulate), strict=True))
        total = torch.zeros((), device=machine.device)
        for i, (part, target) in enumerate(parts):
            waiting = i + 1 < len(parts) and machine.num_processes > 1
            with machine.no_sync(self.model) if waiting else nullcontext():
                loss = self.loss(self.run(part), target) * (len(part) / len(x))
                machine.backward(loss)
            total += loss.detach()
        if config.clip:
            machine.clip_grad_norm_(self.model.parameters(), config.clip)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad()
        if self.average is not None:
            self.average.follow(self._share)
        return total

    def _record(self, x: Tensor, y: Tensor) -> None:
        """The step with batches of this shape as a CUDA graph, where it can be one."""
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                if not isinstance(group["lr"], Tensor):  # one and the same for the graphs of all shapes
                    group["lr"] = torch.tensor(group["lr"], device=x.device)
                if "capturable" in group:
                    group["capturable"] = True
        try:
            self._recorded[x.shape] = _Graph(self._take, x, y)
        except (RuntimeError, NotImplementedError) as fault:  # something in it asks the device for a value
            self._graphs = False
            reason = str(fault).partition("\n")[0]
            warnings.warn(f"steps are launched kernel by kernel, which may be slower ({reason})", stacklevel=2)


class _Graph:
    """A function of a batch, recorded once and replayed with others of its shape."""

    def __init__(self, take: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> None:
        self.x, self.y = x.clone(), y.clone()
        self.graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):
            self.loss = take(self.x, self.y)

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        self.x.copy_(x)
        self.y.copy_(y)
        self.graph.replay()
        return self.loss
