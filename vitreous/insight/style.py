"""One style for every figure, readable in print."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_STYLE: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "savefig.dpi": 150}


@contextmanager
def figure(width: float, height: float) -> Iterator[Any]:
    """An empty figure of this size in inches, drawn without a display."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        yield Figure(figsize=(width, height), layout="constrained")
