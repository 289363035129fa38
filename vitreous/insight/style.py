"""The common style of all figures, and how they are saved."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vitreous.core.atomic import write_atomically
from vitreous.core.errors import check_choice

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure
else:
    Figure = Any  # matplotlib is imported by the first figure

_STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "savefig.dpi": 150,
    "text.parse_math": False,  # names may contain $; formulas enable it themselves
}


@contextmanager
def figure(width: float, height: float) -> Iterator[Figure]:
    """An empty figure in the common style; width and height in inches. No display is needed."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        yield Figure(figsize=(width, height), layout="constrained")


def check_format(path: Path) -> None:
    """Raise `InputError` unless the file type is .png, .pdf or .svg."""
    check_choice(f"{path}: file type", path.suffix.lower(), (".png", ".pdf", ".svg"))


def save(drawing: Figure, path: Path) -> None:
    """Write a figure atomically as .png, .pdf or .svg."""
    import matplotlib as mpl

    check_format(path)
    content = io.BytesIO()
    with mpl.rc_context(_STYLE):
        drawing.savefig(content, format=path.suffix[1:].lower())
    write_atomically(path, content.getvalue())


def to_pixels(image: NDArray[Any]) -> NDArray[np.float64]:
    """An image `(channels, rows, columns)` from 0 to 1: `(rows, columns, 3)` in colour, else `(rows, columns)`."""
    low, high = float(image.min()), float(image.max())
    values = (image.astype(np.float64) - low) / (high - low or 1.0)
    return np.moveaxis(values, 0, -1) if len(values) == 3 else values.mean(0)
