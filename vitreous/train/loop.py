"""The training loop. Nothing in it has to do with the model, the data or the task beyond calling them.

Randomness is a function of the seed, the step and the process, never of what came before; so a run that was killed and
resumed ends with the weights of one that was not.
"""

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from vitreous.errors import InputError
from vitreous.nn.record import unwrap
from vitreous.train import state
from vitreous.train.config import TrainConfig
from vitreous.train.optim import optimisers, rate
from vitreous.train.step import Average, Mixed, Step
from vitreous.train.stream import Batch, Stream, seed_of


class Watcher(Protocol):
    """Told of every step and evaluation: a progress bar, a log."""

    def step(self, step: int, numbers: dict[str, float]) -> None:
        """Called after each step; `numbers` is empty except where the loss was read."""

    def evaluation(self, step: int, numbers: dict[str, float]) -> None:
        """Called after each evaluation."""


class Loop:
    """Trains a model by gradient descent, evaluates it now and then, and keeps what is needed to go on.

    Args:
        model: what is trained; called on prepared samples.
        loss: of the model's outputs and the targets.
        stream: the batch of a step.
        prepare: raw batch to model input, augmentation included; runs on the device.
        evaluate: scores a model, called with the averaged weights in place; None if there is nothing to evaluate on.
        better: the score that decides which weights are best, and whether `min` or `max` is.
        folder: where the state goes.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[Tensor, Tensor], Tensor],
        stream: Stream,
        prepare: Callable[[Tensor, Tensor], Batch],
        evaluate: Callable[[Callable[[Tensor], Tensor]], dict[str, float]] | None,
        better: tuple[str, str],
        config: TrainConfig,
        accelerator: Accelerator,
        folder: Path,
        watchers: list[Watcher],
    ) -> None:
        self.stream, self.evaluate, self.better = stream, evaluate, better
        self.config, self.accelerator, self.folder, self.watchers = config, accelerator, folder, watchers
        sharded = config.shard and accelerator.num_processes > 1
        if sharded:
            shard(model.to(accelerator.device))
        made = optimisers(model, config.optimiser, config.lr, config.weight_decay, config.layer_decay)
        self.model = accelerator.prepare_model(model, device_placement=not sharded, evaluation_mode=sharded)
        self.optimisers = [accelerator.prepare_optimizer(optimiser) for optimiser in made]
        wanted = config.compile == "on" or (config.compile == "auto" and accelerator.device.type == "cuda")
        run = compiled(self.model, config) if wanted else self.model
        self.average = self._floats(copy=True) if config.ema else None
        average = None if self.average is None else Average(list(self.average.values()), self._live)
        self.mixed = Mixed(self.model, config.precision, accelerator.device)
        self.step = Step(self.model, run, loss, prepare, self.optimisers, average, config, accelerator)
        self.done, self.best, self.stale = 0, math.inf, 0
        self._total = torch.zeros((), device=accelerator.device)
        self._broken = torch.full((), config.steps, device=accelerator.device)
        self._counted = 0
        self.reached, self.before, self._started = 0.0, 0.0, time.monotonic()

    def resume(self) -> None:
        """Go back to the last saved state."""
        tensors, about = state.read(self.folder)
        asked = json.loads(json.dumps(self.config.to_dict()))
        for name, value in about["config"].items():
            if value != asked.get(name) and name != "compile":  # which changes how long it takes
                raise InputError(f"{self.folder}: was begun with {name} = {value!r}, not {asked.get(name)!r}")
        if self.average is not None:
            state.put(unwrap(self.model), tensors, "average/")
            for name, value in self._floats().items():
                self.average[name].copy_(value)
        state.scatter(tensors, about["numbers"], unwrap(self.model), self._plain())
        self.done, self.stale, self.before = about["done"], about["stale"], about.get("seconds", 0.0)
        self.best = math.inf if about["best"] is None else about["best"]

    def fit(self, improved: Callable[[dict[str, Any]], None]) -> None:
        """Train to the end; `improved` is called with every new best `weights`."""
        config = self.config
        self.model.train()
        try:
            while self._left() and not (config.patience and self.stale >= config.patience):
                self._step(self.done)
                self.done += 1
                if self.done % config.evaluate_every == 0 or self.done == config.steps:
                    self._look(improved)
            if self.done % config.evaluate_every and self.done < config.steps:
                self._look(improved)  # the time is up between two evaluations
        except KeyboardInterrupt:  # nothing is saved here: a step may be half done, and the last state is whole
            raise KeyboardInterrupt(f"stopped in step {self.done + 1} of {config.steps}; go on with --resume") from None

    def _left(self) -> bool:
        """Whether there is a step to do; `reached` is how far the training is, or further where the time is short."""
        if self.config.minutes:
            used = self._seconds() / 60 / self.config.minutes
            if self.accelerator.num_processes > 1:  # every process must stop at the same step
                used = float(broadcast(torch.tensor(used, device=self.accelerator.device)))
            self.reached = used * self.config.steps
        return self.done == 0 or max(self.done, self.reached) < self.config.steps

    def _seconds(self) -> float:
        return self.before + time.monotonic() - self._started

    def _step(self, step: int) -> None:
        config = self.config
        torch.manual_seed(seed_of(config.seed, step, self.accelerator.process_index))
        factor = rate(max(step, self.reached), config.steps, config.warmup)
        share = 1 - min(config.ema, (1 + step) / (10 + step))
        self._total += self.step(*self.stream(step), config.lr * factor, share)
        bad = torch.where(self._total.isfinite(), config.steps, step)
        self._broken = torch.minimum(self._broken, bad)
        self._counted += 1
        numbers = {}
        if self._counted >= max(1, config.evaluate_every // 10):
            numbers = {"loss": self._mean_loss(), "lr": config.lr * factor}
        for watcher in self.watchers:
            watcher.step(step + 1, numbers)

    def _mean_loss(self) -> float:
        """The mean since it was last asked for."""
        self._check_finite()
        mean = self.accelerator.reduce(self._total / self._counted, "mean").item()
        self._total.zero_()
        self._counted = 0
        return float(mean)

    def _check_finite(self) -> None:
        step = int(self._broken)
        if step < self.config.steps:
            saved = self.folder / state.LAST
            kept = f"the state before it is in {saved}" if saved.is_file() else "nothing was saved before it"
            raise InputError(f"the loss is no longer finite after step {step + 1}; {kept}; try a lower lr")

    def weights(self) -> dict[str, Any]:
        """The weights to keep, averaged if they are to be; whole, on the main process, and called by every one."""
        with self.averaged():
            return {name: value.clone() for name, value in state.weights(unwrap(self.model)).items()}

    def _look(self, improved: Callable[[dict[str, Any]], None]) -> None:
        """Evaluate, keep the best, and save the state."""
        self._check_finite()
        if self.evaluate is not None:
            with self.averaged():
                self.model.eval()
                numbers = self.evaluate(self.mixed)  # as it is: evaluating would be compiled apart
                name, sense = self.better
                score = numbers[name] if sense == "min" else -numbers[name]
                self.model.train()
            self.stale = 0 if score < self.best else self.stale + 1
            if score < self.best:
                self.best = score
                improved(self.weights())
            for watcher in self.watchers:
                watcher.evaluation(self.done, numbers)
        self._save()

    def _save(self) -> None:
        average = {} if self.average is None else self.weights()
        tensors, numbers = state.gather(unwrap(self.model), self._plain(), average)
        if self.accelerator.is_main_process:
            best = self.best if math.isfinite(self.best) else None
            about = {"done": self.done, "best": best, "stale": self.stale, "numbers": numbers}
            about["seconds"] = self._seconds()
            state.write(self.folder, tensors, about | {"config": self.config.to_dict()})
        self.accelerator.wait_for_everyone()

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The model with its averaged weights, if it has any, for as long as the block lasts."""
        if self.average is None:
            yield
            return
        live, kept = self._floats(), self._floats(copy=True)
        with torch.no_grad():
            try:
                for name, value in live.items():
                    value.copy_(self.average[name])
                yield
            finally:
                for name, value in live.items():
                    value.copy_(kept[name])

    def _floats(self, copy: bool = False) -> dict[str, Tensor]:
        """Weights and running statistics, of sharded ones this process's part; counters are left out."""
        values = self.accelerator.unwrap_model(self.model).state_dict()
        local = {n: v.to_local() if isinstance(v, DTensor) else v for n, v in values.items() if v.is_floating_point()}
        return {n: v.clone() if copy else v for n, v in local.items()}

    def _live(self) -> list[Tensor]:
        return list(self._floats().values())

    def _plain(self) -> list[torch.optim.Optimizer]:
        return [getattr(optimiser, "optimizer", optimiser) for optimiser in self.optimisers]


_compiled = ""


def compiled(model: nn.Module, config: TrainConfig) -> nn.Module:
    """A model that is compiled at its first call, or runs what was compiled for the last one of its make.

    What was compiled for others is forgotten: torch would make the next for batches of any size, which is slower, and
    after eight of them none. It forgets all that the process has compiled, which is then made again when it is called.
    """
    global _compiled
    settings = [str(part.config) for part in model.modules() if hasattr(part, "config")]
    how = config.batch, config.accumulate, config.precision, config.stream, config.checkpointing
    make = f"{model} {settings} {how}"
    if make != _compiled:
        torch.compiler.reset()
    _compiled = make
    found: nn.Module = torch.compile(model)  # type: ignore[assignment]
    return found


def shard(model: nn.Module) -> None:
    """Share weights, gradients and optimiser states among the processes, block by block (FSDP2).

    By torch itself: accelerate's plugin, which calls the same function, does not know processes without a GPU.
    """
    for block in getattr(model, "blocks", ()):
        fully_shard(block)
    fully_shard(model)


class Log:
    """`metrics.jsonl`: a line for every loss that was read and every evaluation."""

    def __init__(self, path: Path, done: int = 0) -> None:
        self.path, self.start = path, time.monotonic()
        kept = [line for line in _lines(path) if line["step"] <= done] if done else []
        path.write_text("".join(json.dumps(line) + "\n" for line in kept))

    def step(self, step: int, numbers: dict[str, float]) -> None:
        """A line, where the loss was read."""
        if numbers:
            self._write({"step": step, **numbers})

    def evaluation(self, step: int, numbers: dict[str, float]) -> None:
        """A line of all scores."""
        self._write({"step": step, "validation": numbers})

    def _write(self, line: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(line | {"seconds": round(time.monotonic() - self.start, 3)}) + "\n")


def _lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a log; one that a kill cut short is dropped."""
    lines = []
    for text in path.read_text().splitlines() if path.is_file() else []:
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    return lines
