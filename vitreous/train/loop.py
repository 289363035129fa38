"""The training loop. Nothing in it has to do with the model, the data or the task beyond calling the job.

Random numbers depend on the seed, the step and the process, never on earlier steps; so a run that is killed and resumed
ends with the same weights as one that was not.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from vitreous.core.errors import InputError, first_line
from vitreous.nn.execution import unwrap
from vitreous.train import checkpoint
from vitreous.train.batches import seed_of
from vitreous.train.config import TrainConfig
from vitreous.train.device import shard
from vitreous.train.fingerprint import check_same
from vitreous.train.job import Job
from vitreous.train.optimiser import create_optimisers, learning_rate_factor
from vitreous.train.step import MixedPrecision, MovingAverage, Step


class Watcher(Protocol):
    """Follows a training: a progress bar, a log."""

    def step(self, step: int, numbers: dict[str, float]) -> None:
        """Called after each step; `numbers` is empty except when the loss was read."""

    def evaluation(self, step: int, numbers: dict[str, float]) -> None:
        """Called after each evaluation."""


class Loop:
    """Trains the model of a job, after its `setup`, by gradient descent; saves checkpoints in the folder."""

    def __init__(
        self, job: Job, accelerator: Accelerator, folder: Path, fingerprint: Mapping[str, Any] | None = None
    ) -> None:
        self.job, self.settings, self.accelerator, self.folder = job, job.settings, accelerator, folder
        self.fingerprint = fingerprint or {}
        settings, model = job.settings, job.model
        sharded = settings.shard and accelerator.num_processes > 1
        if sharded:
            shard(model.to(accelerator.device))
        rates = settings.lr, settings.weight_decay, settings.layer_decay
        optimisers = create_optimisers(model, settings.optimiser, *rates)
        self.model = accelerator.prepare_model(model, device_placement=not sharded, evaluation_mode=sharded)
        self.optimisers = [accelerator.prepare_optimizer(optimiser) for optimiser in optimisers]
        compiles = settings.compile == "on" or (settings.compile == "auto" and accelerator.device.type == "cuda")
        forward = compile_model(self.model, settings) if compiles else self.model
        self.average = self._float_state(copy=True) if settings.ema else None
        average = None if self.average is None else MovingAverage(list(self.average.values()), self._float_state)
        self.evaluated = MixedPrecision(self.model, settings.precision, accelerator.device)
        self.take_step = Step(self.model, forward, job, self.optimisers, average, accelerator)
        self.watchers: Sequence[Watcher] = ()
        self.done, self.best_score, self.evaluations_without_gain = 0, math.inf, 0
        self._loss_sum, self._losses = torch.zeros((), device=accelerator.device), 0
        self._first_bad_step = torch.full((), settings.steps, device=accelerator.device)
        self.progress, self.before, self._started = 0.0, 0.0, time.monotonic()

    def resume(self) -> None:
        """Go back to the last checkpoint."""
        tensors, state = checkpoint.read(self.folder)
        check_same(self.folder, state["config"], self.settings.to_dict(), ("compile",))  # only changes the speed
        try:
            if self.average is not None:
                checkpoint.load_weights(unwrap(self.model), tensors, "average/")
                for name, value in self._float_state().items():
                    self.average[name].copy_(value)
            checkpoint.restore(tensors, state["numbers"], unwrap(self.model), self._plain_optimisers())
        except (RuntimeError, LookupError, TypeError, ValueError) as error:
            raise InputError(f"{self.folder / checkpoint.LAST}: is of another model ({first_line(error)})") from None
        self.done, self.evaluations_without_gain = state["done"], state["stale"]
        self.before = state.get("seconds", 0.0)
        self.best_score = math.inf if state["best"] is None else state["best"]

    def fit(self, save: Callable[[dict[str, Any]], None], watchers: Sequence[Watcher] = ()) -> None:
        """Train to the end; `save` is called with the weights of every new best evaluation."""
        settings, self.watchers = self.settings, watchers
        self.model.train()
        try:
            while self._steps_left():
                self.step(self.done)
                self.done += 1
                if self.done % settings.evaluate_every == 0 or self.done == settings.steps:
                    self.evaluate(save)
            if self.done % settings.evaluate_every and self.done < settings.steps:
                self.evaluate(save)  # the time is up between two evaluations
        except KeyboardInterrupt:  # nothing is saved here: a step may be half done, and the last checkpoint is whole
            message = f"stopped in step {self.done + 1} of {settings.steps}; continue with --resume"
            raise KeyboardInterrupt(message) from None

    def _steps_left(self) -> bool:
        """Whether there is a step to do; `progress` counts steps by the time used, if the time is limited."""
        if self.settings.minutes:
            used = self.seconds() / 60 / self.settings.minutes
            if self.accelerator.num_processes > 1:  # every process must stop at the same step
                used = float(broadcast(torch.tensor(used, device=self.accelerator.device)))
            self.progress = used * self.settings.steps
        if self.settings.patience and self.evaluations_without_gain >= self.settings.patience:
            return False
        return self.done == 0 or max(self.done, self.progress) < self.settings.steps

    def seconds(self) -> float:
        """Time used so far, over all parts of a resumed training."""
        return self.before + time.monotonic() - self._started

    def step(self, step: int) -> None:
        """Take one step."""
        settings = self.settings
        torch.manual_seed(seed_of(settings.seed, step, self.accelerator.process_index))
        lr = settings.lr * learning_rate_factor(max(step, self.progress), settings.steps, settings.warmup)
        average_share = 1 - min(settings.ema, (1 + step) / (10 + step))
        self._loss_sum += self.take_step(*self.job.batches(step), lr, average_share)
        bad_step = torch.where(self._loss_sum.isfinite(), settings.steps, step)
        self._first_bad_step = torch.minimum(self._first_bad_step, bad_step)
        self._losses += 1
        reads_loss = self._losses >= max(1, settings.evaluate_every // 10)
        numbers = {"loss": self._mean_loss(), "lr": lr} if reads_loss else {}
        for watcher in self.watchers:
            watcher.step(step + 1, numbers)

    def _mean_loss(self) -> float:
        """The mean loss since the last call."""
        self._check_finite()
        mean = self.accelerator.reduce(self._loss_sum / self._losses, "mean").item()
        self._loss_sum.zero_()
        self._losses = 0
        return float(mean)

    def _check_finite(self) -> None:
        step = int(self._first_bad_step)
        if step < self.settings.steps:
            last = self.folder / checkpoint.LAST
            state = f"the state before it is in {last}" if last.is_file() else "nothing was saved before it"
            raise InputError(f"the loss is no longer finite after step {step + 1}; {state}; try a lower lr")

    def weights(self) -> dict[str, Any]:
        """The averaged weights, or the live ones, whole, on the main process; every process must call it."""
        with self._average_in_place():
            return {name: value.clone() for name, value in checkpoint.gather_weights(unwrap(self.model)).items()}

    def evaluate(self, save: Callable[[dict[str, Any]], None]) -> None:
        """Evaluate, keep the best weights, and save a checkpoint."""
        self._check_finite()
        if self.job.validates:
            with self._average_in_place():
                self.model.eval()
                numbers = self.job.evaluate(self.evaluated)  # not compiled: that would be a second compilation
                name, sense = self.job.better
                score = numbers[name] if sense == "min" else -numbers[name]
                self.model.train()
            self.evaluations_without_gain = 0 if score < self.best_score else self.evaluations_without_gain + 1
            if score < self.best_score:
                self.best_score = score
                save(self.weights())
            for watcher in self.watchers:
                watcher.evaluation(self.done, numbers)
        self._save_checkpoint()

    def _save_checkpoint(self) -> None:
        average = {} if self.average is None else self.weights()
        tensors, numbers = checkpoint.gather(unwrap(self.model), self._plain_optimisers(), average)
        if self.accelerator.is_main_process:
            state = {
                "done": self.done, "best": self.best_score if math.isfinite(self.best_score) else None,
                "stale": self.evaluations_without_gain, "numbers": numbers, "seconds": self.seconds(),
                "config": self.settings.to_dict(), "fingerprint": self.fingerprint,
            }  # fmt: skip
            checkpoint.write(self.folder, tensors, state)
        self.accelerator.wait_for_everyone()

    @contextmanager
    def _average_in_place(self) -> Iterator[None]:
        """Inside the block the model has its averaged weights, if there are any."""
        if self.average is None:
            yield
            return
        live, backup = self._float_state(), self._float_state(copy=True)
        with torch.no_grad():
            try:
                for name, value in live.items():
                    value.copy_(self.average[name])
                yield
            finally:
                for name, value in live.items():
                    value.copy_(backup[name])

    def _float_state(self, copy: bool = False) -> dict[str, Tensor]:
        """Weights and running statistics (this process's part of sharded ones), without counters."""
        values = self.accelerator.unwrap_model(self.model).state_dict()
        local = {n: v.to_local() if isinstance(v, DTensor) else v for n, v in values.items() if v.is_floating_point()}
        return {n: v.clone() if copy else v for n, v in local.items()}

    def _plain_optimisers(self) -> list[torch.optim.Optimizer]:
        """The optimisers without accelerate's wrapper."""
        return [getattr(optimiser, "optimizer", optimiser) for optimiser in self.optimisers]


_last_compiled = ""


def compile_model(model: nn.Module, settings: TrainConfig) -> nn.Module:
    """A model that is compiled at its first call, or that uses the code compiled for an equal one before it.

    Code compiled for other models is dropped first, with everything else that the process has compiled. Otherwise torch
    would compile the next model for any batch size, which is slower, and after eight models none at all.
    """
    global _last_compiled
    configs = [str(part.config) for part in model.modules() if hasattr(part, "config")]
    how = settings.batch, settings.accumulate, settings.precision, settings.stream, settings.checkpointing
    signature = f"{model} {configs} {how}"
    if signature != _last_compiled:
        torch.compiler.reset()
    _last_compiled = signature
    compiled: nn.Module = torch.compile(model)  # type: ignore[assignment]
    return compiled
