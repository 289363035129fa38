"""A bar on the terminal: what is done of a training and the time left, its loss and its rate."""

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from vitreous.data.extras import load_extra


class Bar:
    """Watches a loop and draws it; quiet where there is no terminal, but for a line an evaluation."""

    def __init__(self, name: str, steps: int, batch: int, done: int = 0) -> None:
        self.console = Console(stderr=True)
        self.batch, self.loss, self.score = batch, "", ""
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )
        self.task = self.progress.add_task(name, total=steps, completed=done, told="")

    def step(self, step: int, numbers: dict[str, float]) -> None:
        """Move the bar."""
        if numbers:
            self.loss = f"loss {numbers['loss']:.4g}"
        speed = self.progress.tasks[0].speed
        rate = f"{speed * self.batch:,.0f}/s" if speed else ""
        self.progress.update(self.task, completed=step, told=f"{self.loss}  {self.score}  {rate}")

    def evaluation(self, step: int, numbers: dict[str, float]) -> None:
        """Show the scores."""
        self.score = "  ".join(f"{name} {numbers[name]:.4g}" for name in ("accuracy", "rmse", "r2") if name in numbers)
        if not self.console.is_terminal:
            self.console.print(f"step {step}: {self.loss}  validation {self.score}", highlight=False)

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *fault: object) -> None:
        self.progress.stop()


class TensorBoard:
    """Writes the same numbers for TensorBoard."""

    def __init__(self, folder: str) -> None:
        load_extra("tensorboard", "tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(folder)

    def step(self, step: int, numbers: dict[str, float]) -> None:
        """Scalars of the training."""
        for name, value in numbers.items():
            self.writer.add_scalar(f"train/{name}", value, step)

    def evaluation(self, step: int, numbers: dict[str, float]) -> None:
        """Scalars of the validation."""
        for name, value in numbers.items():
            self.writer.add_scalar(f"validation/{name}", value, step)
