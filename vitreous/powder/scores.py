"""How good predicted cells are: relative errors, R², and the share that is near enough to refine."""

import numpy as np
from numpy.typing import NDArray

from vitreous.powder.cell import targets

WITHIN = (0.05, 0.02, 0.01)


def cell_scores(system: str, truth: NDArray[np.floating], found: NDArray[np.floating]) -> dict[str, float]:
    """Scores of free parameters `(n, k)` against the true ones.

    `mape` is the mean relative error over all parameters; `within 1%` counts the cells of which every parameter is.
    """
    error = np.abs(found.astype(float) - truth) / np.abs(truth)
    length = np.array([target.unit == "Å" for target in targets(system)])
    spread = np.square(truth - truth.mean(axis=0)).sum(axis=0)
    r2 = 1 - np.square(found.astype(float) - truth).sum(axis=0) / np.maximum(spread, 1e-12)
    scores = {"mape": float(error.mean()), "mape lengths": float(error[:, length].mean())}
    scores["mape angles"] = float(error[:, ~length].mean()) if (~length).any() else float("nan")
    scores["r2"] = float(r2.mean())
    return scores | {f"within {limit:.0%}": float((error <= limit).all(axis=1).mean()) for limit in WITHIN}
