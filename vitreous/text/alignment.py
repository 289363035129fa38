"""Alignment maps: which words of the source each word of a translation rests on (S2.1)."""

from typing import TYPE_CHECKING

from vitreous.insight.explanation import Explanation
from vitreous.insight.style import figure
from vitreous.text.translator import Alignment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CELL = 0.32  # inches of a word


def explain_translation(found: Alignment, name: str = "") -> Explanation:
    """The map of one translation, and the word that each of its words rests on most."""
    text = " ".join(word for word in found.target[:-1])
    pairs = [
        f"{target} ← {found.source[row.argmax()]} ({row.max():.0%})"
        for target, row in zip(found.target[:-1], found.weights, strict=False)
    ]
    return Explanation(alignment_figure(found, name), (text, *pairs))


def alignment_figure(found: Alignment, name: str = "") -> "Figure":
    """Target words down, source words across, as dark as their weight."""
    width, height = (1.6 + _CELL * len(words) for words in (found.source, found.target))
    with figure(max(3.0, width), max(2.4, height)) as drawing:
        axes = drawing.add_subplot()
        image = axes.imshow(found.weights, cmap="Greys", vmin=0, vmax=1, aspect="equal")
        axes.set_xticks(range(len(found.source)), found.source, rotation=60, ha="left", rotation_mode="anchor")
        axes.set_yticks(range(len(found.target)), found.target)
        axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
        axes.spines[:].set_visible(False)
        drawing.colorbar(image, ax=axes, label="attention", shrink=0.6)
        if name:
            drawing.suptitle(name)
    return drawing
