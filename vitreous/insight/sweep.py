"""What each factor of a sweep does to the score."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vitreous.insight.style import figure, save


def effects_figure(records: Sequence[Mapping[str, Any]], factors: Sequence[str], label: str, path: Path) -> None:
    """One panel a factor: every training as a point, and the mean at each value of the factor."""
    with figure(3 * len(factors), 3) as drawing:
        panels = drawing.subplots(1, len(factors), sharey=True, squeeze=False)[0]
        for axes, factor in zip(panels, factors, strict=True):
            values = sorted({record[factor] for record in records})
            for place, value in enumerate(values):
                scores = [record["score"] for record in records if record[factor] == value]
                axes.plot(np.full(len(scores), place), scores, ".", color="0.6")
                axes.plot(place, np.mean(scores), "o", color="C0")
            axes.set_xticks(range(len(values)), [str(value) for value in values])
            axes.set_xlabel(factor)
        panels[0].set_ylabel(label)
    save(drawing, path)
