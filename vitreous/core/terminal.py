"""Terminal output: a console for tables and a progress bar."""

import sys
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console

Item = TypeVar("Item")


def track(items: Iterable[Item], description: str, total: int | None = None) -> Iterable[Item]:
    """Iterate over the items with a progress bar on stderr; without a terminal there is no bar."""
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    return progress.track(items, description, total, console=console, transient=True, disable=not console.is_terminal)


def track_rate(items: Iterable[Item], description: str, total: int) -> Generator[Item, None, None]:
    """The same as `track` for long work: with the number that is finished, items per second, and the time left."""
    from rich import progress
    from rich.console import Console
    from rich.text import Text

    class Rate(progress.ProgressColumn):
        def render(self, task: progress.Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:.2g}/s" if speed < 10 else f"{speed:.0f}/s")

    console = Console(stderr=True)
    columns = (
        progress.TextColumn("{task.description}"), progress.BarColumn(), progress.MofNCompleteColumn(), Rate(),
        progress.TimeRemainingColumn(),
    )  # fmt: skip
    bar = progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    bar.speed_estimate_period = 300.0  # seconds
    with bar:
        yield from bar.track(items, total, description=description)


def console() -> "Console":
    """A console as wide as the terminal, or 120 columns wide if stdout is not a terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 120)
