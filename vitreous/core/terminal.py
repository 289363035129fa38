"""Terminal output: a console for tables and a progress bar."""

import sys
from collections.abc import Iterable
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


def console() -> "Console":
    """A console as wide as the terminal, or 120 columns wide if stdout is not a terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 120)
