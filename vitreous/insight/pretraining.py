"""What a pre-training made of a few samples: what they are, what the encoder saw, and what came of it."""

from typing import TYPE_CHECKING, Any

from torch import Tensor

from vitreous.insight.style import figure
from vitreous.nn.pretraining import Panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TITLES = {
    "masked": ("sample", "visible", "reconstructed"),
    "denoise": ("sample", "damaged", "restored"),
    "contrast": ("sample", "a view", "another view"),
}


def pretraining_figure(panels: Panels, method: str) -> "Figure":
    """A row for each sample: the first channel of spectra and images, the middle of volumes, or a table of tokens."""
    count = len(panels[0])
    with figure(7.5, 1.6 * count + 0.4) as drawing:
        for row, axes in zip(range(count), drawing.subplots(count, 3, squeeze=False), strict=True):
            shown = [_flat(panel[row]) for panel in panels]
            low, high = float(shown[0].min()), float(shown[0].max())
            for place, values, title in zip(axes, shown, _TITLES[method], strict=True):
                _draw(place, values, low, high)
                if row == 0:
                    place.set_title(title, loc="left", fontsize=8)
    return drawing


def _flat(sample: Tensor) -> Any:
    """`(C, *grid)` or `(N, shown)` to a line or an image."""
    grid = sample if sample.dim() == 2 and sample.shape[0] > 1 else sample[0]
    return (grid[grid.shape[0] // 2] if grid.dim() == 3 else grid).float().cpu().numpy()


def _draw(axes: Any, values: Any, low: float, high: float) -> None:
    margin = 0.1 * (high - low) + 1e-6
    if values.ndim == 1:
        axes.plot(values, lw=0.8)
        axes.set_ylim(low - margin, high + margin)
        return
    axes.set_facecolor("lightsteelblue")  # of what is hidden
    axes.imshow(values, cmap="Greys", vmin=low, vmax=high, interpolation="nearest", aspect="auto")
    axes.set(xticks=[], yticks=[])
