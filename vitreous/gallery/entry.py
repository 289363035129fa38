"""What an entry of the gallery says about itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """One problem of physics.

    Args:
        recipe: what `vitreous train` calls it.
        title: what is looked at, e.g. `Ising spins`.
        question: what is asked of it, in a line.
        models: the recipe's models, ours first.
        draw: draws the physics and what the model found into a finished run's folder; returns the files.
        systems: the recipe's systems, the default first; none where it has no choice of them.
        needs: the extra to install, e.g. `jets`; empty if none.
    """

    recipe: str
    title: str
    question: str
    models: Sequence[str]
    draw: Callable[[Path], list[Path]]
    systems: Sequence[str] = ()
    needs: str = ""
