"""A bar of what is done on the terminal, for work that takes a while."""

from collections.abc import Iterable
from typing import TypeVar

from rich import progress
from rich.console import Console

Item = TypeVar("Item")


def track(items: Iterable[Item], what: str, total: int | None = None) -> Iterable[Item]:
    """The items one by one, with a bar of those that are done; quiet where there is no terminal."""
    console = Console(stderr=True)
    return progress.track(items, what, total, console=console, transient=True, disable=not console.is_terminal)
