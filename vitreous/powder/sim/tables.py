"""Data files of the simulator: space groups and form factors (`tables.npz`), statistics of real cells (`prior.npz`)."""

from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray


@lru_cache(maxsize=2)
def load_table(name: str) -> dict[str, NDArray[Any]]:
    """The arrays of `tables` (written by `tools/make_tables.py`) or `prior` (written by `tools/make_prior.py`)."""
    with (
        files("vitreous.powder.sim").joinpath(f"{name}.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as arrays,
    ):
        return dict(arrays)
