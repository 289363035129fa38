"""`vitreous compare`: one table of several runs."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


def compare(runs: Annotated[tuple[Path, ...], Positional, arg(metavar="RUN...")]) -> None:
    """Print one table of several runs: size, time and scores on their test parts.

    Args:
        runs: folders of finished runs.
    """
    from vitreous.cli.output import print_results
    from vitreous.core.errors import InputError

    if not runs:
        raise InputError("compare: found no runs, expected folders of finished runs")
    print_results(runs)
