"""Fixtures of the lattice tests."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.powder.lattices import REAL, Cells
from vitreous.powder.sim.space_groups import system_of


@pytest.fixture(scope="module")
def gemmi() -> Any:
    return pytest.importorskip("gemmi")


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def real(gemmi: Any) -> tuple[Cells, NDArray[np.str_], NDArray[np.str_]]:
    """Conventional cells of crystals, their centrings and the systems of the lattices that their groups ask for."""
    if not REAL.exists():
        pytest.skip(f"the real cells are not here: {REAL}")
    with np.load(REAL, allow_pickle=False) as arrays:
        cells, numbers = arrays["conventional"].astype(np.float64), arrays["spacegroup"]
    letters = {n: gemmi.SpaceGroup(n).centring_type() for n in range(1, 231)}
    lattices = {n: system_of(n) if letters[n] == "R" or system_of(n) != "trigonal" else "hexagonal" for n in letters}
    centring = np.array([letters[int(n)] for n in numbers])
    centring[(centring == "R") & (np.abs(cells[:, 5] - 120) > 0.01)] = "P"  # rhombohedral axes
    return cells, centring, np.array([lattices[int(n)] for n in numbers])
