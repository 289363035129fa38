"""Scores of predicted cells: relative errors, R², and the share of cells that are close enough to refine."""

import numpy as np
from numpy.typing import NDArray

from vitreous.powder.cell import targets

WITHIN = (0.05, 0.02, 0.01)


def cell_scores(system: str, truth: NDArray[np.floating], predicted: NDArray[np.floating]) -> dict[str, float]:
    """Compare predicted free parameters `(n, k)` with the true ones.

    `mape` is the mean relative error of all parameters; `within 1%` is the share of cells with no larger error.
    """
    error = np.abs(predicted.astype(float) - truth) / np.abs(truth)
    length = np.array([target.unit == "Å" for target in targets(system)])
    spread = np.square(truth - truth.mean(axis=0)).sum(axis=0)
    r2 = 1 - np.square(predicted.astype(float) - truth).sum(axis=0) / np.maximum(spread, 1e-12)
    scores = {"mape": float(error.mean()), "mape lengths": float(error[:, length].mean())}
    scores["mape angles"] = float(error[:, ~length].mean()) if (~length).any() else float("nan")
    scores["r2"] = float(r2.mean())
    return scores | {f"within {limit:.0%}": float((error <= limit).all(axis=1).mean()) for limit in WITHIN}
