"""A small file of spectra to train on."""

from pathlib import Path

import numpy as np


def spectra_file(path: Path, rows: int = 60, points: int = 20) -> Path:
    """Spectra along an axis in nm, with a height to predict."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, points)).cumsum(1)
    header = ",".join(f"{500 + 2 * i}" for i in range(points)) + ",height"
    np.savetxt(path, np.column_stack([x, x[:, 7]]), delimiter=",", header=header, comments="")
    return path
