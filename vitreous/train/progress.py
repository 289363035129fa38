"""Watchers of a training: a progress bar, the log `metrics.jsonl`, and TensorBoard."""

import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from vitreous.core.atomic import write_atomically
from vitreous.core.errors import InputError
from vitreous.core.extras import load_extra
from vitreous.core.json_text import parse_json
from vitreous.run.folder import check_types


class Bar:
    """A bar in `progress`, a context manager, with loss, score and rate; without a terminal, a line per evaluation."""

    def __init__(self, name: str, steps: int, batch: int, done: int = 0, shown: bool = True) -> None:
        self.console = Console(stderr=True)
        self.batch, self.loss, self.score = batch, "", ""
        times = TextColumn("{task.fields[status]}"), TimeElapsedColumn(), TimeRemainingColumn()
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *times
        hidden = not shown or not self.console.is_terminal
        self.progress = Progress(*columns, console=self.console, transient=True, disable=hidden)
        self.task = self.progress.add_task(name, total=steps, completed=done, status="")

    def step(self, step: int, numbers: dict[str, float]) -> None:
        if numbers:
            self.loss = f"loss {numbers['loss']:.4g}"
        speed = self.progress.tasks[0].speed
        rate = f"{speed * self.batch:,.0f}/s" if speed else ""
        self.progress.update(self.task, completed=step, status=f"{self.loss}  {self.score}  {rate}")

    def evaluation(self, step: int, numbers: dict[str, float]) -> None:
        self.score = "  ".join(f"{name} {numbers[name]:.4g}" for name in ("accuracy", "rmse", "r2") if name in numbers)
        if not self.console.is_terminal:
            self.console.print(f"step {step}: {self.loss}  validation {self.score}", highlight=False)


class TensorBoard:
    """Writes the same numbers for TensorBoard."""

    def __init__(self, folder: str) -> None:
        load_extra("tensorboard", "tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(folder)

    def step(self, step: int, numbers: dict[str, float]) -> None:
        self._write("train", step, numbers)

    def evaluation(self, step: int, numbers: dict[str, float]) -> None:
        self._write("validation", step, numbers)

    def _write(self, part: str, step: int, numbers: dict[str, float]) -> None:
        for name, value in numbers.items():
            self.writer.add_scalar(f"{part}/{name}", value, step)


class Log:
    """Writes `metrics.jsonl`: a line for every loss that was read and every evaluation."""

    def __init__(self, path: Path, done: int = 0) -> None:
        self.path, self.start = path, time.monotonic()
        lines = [line for line in _lines(path) if line["step"] <= done] if done else []
        write_atomically(path, "".join(json.dumps(line) + "\n" for line in lines).encode())

    def step(self, step: int, numbers: dict[str, float]) -> None:
        if numbers:
            self._write({"step": step, **numbers})

    def evaluation(self, step: int, numbers: dict[str, float]) -> None:
        self._write({"step": step, "validation": numbers})

    def _write(self, line: dict[str, Any]) -> None:
        text = json.dumps(line | {"seconds": round(time.monotonic() - self.start, 3)}) + "\n"
        try:
            with self.path.open("a") as file:
                file.write(text)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror})") from None


def _lines(path: Path) -> list[dict[str, Any]]:
    """The complete lines of a log; one that was cut short by a kill is dropped."""
    lines = []
    for text in path.read_bytes().splitlines() if path.is_file() else []:
        try:
            line = parse_json(text)
            check_types(line, {"step": int})
        except InputError:
            break
        lines.append(line)
    return lines
