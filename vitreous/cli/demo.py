"""`vitreous demo`: a first look at what the package does."""

from pathlib import Path


def demo(out: Path | None = None) -> None:
    """Train a transformer and a CNN on handwritten digits in about a minute, compare them, and draw the training.

    Args:
        out: folder for the runs, the figure and the report; a temporary one if not given.
    """
    from vitreous.cli.demonstration import run_demo

    run_demo(out)
