"""Write `vitreous/powder/sim/prior.npz`: statistics of 16,811 real unit cells.

    VITREOUS_DATA=... python tools/make_prior.py

For each crystal system: 33 quantiles of each parameter (columns of `_parameters`), the Cholesky factor of the
correlations of their normal scores, and the frequency of each space group. For each Bravais lattice, the density of the
logarithm of the volume of its primitive cell. Single cells cannot be recovered from it.
"""

from pathlib import Path

import numpy as np
from scipy.stats import norm, rankdata

from vitreous.data.builtin import data_folder
from vitreous.powder.cell import volumes
from vitreous.powder.lattice_prior import BRAVAIS_LATTICES, LOG_VOLUMES, bravais_name
from vitreous.powder.sim.space_groups import SYSTEMS, centring, system_of

SHARES = np.linspace(0.01, 0.99, 33)
BANDWIDTH = 0.25  # of the density of the logarithm of volumes


def _parameters(system: str, conventional: np.ndarray, niggli: np.ndarray) -> np.ndarray:
    if system == "triclinic":
        a, b, c = niggli[:, :3].T
        return np.column_stack([np.log(a), np.log(b / a), np.log(c / b), np.abs(niggli[:, 3:] - 90)])
    log = np.log(conventional[:, :3])
    return {
        "monoclinic": np.column_stack([log, np.maximum(conventional[:, 4], 180 - conventional[:, 4])]),
        "orthorhombic": log,
        "cubic": log[:, :1],
    }.get(system, log[:, [0, 2]])


def _volume_densities(numbers: np.ndarray, niggli: np.ndarray) -> np.ndarray:
    """Density `(lattices, volumes)` of Bravais lattices and logarithms of their primitive volumes."""
    names = np.array([bravais_name(system_of(n), centring(n)) for n in range(1, 231)])[numbers - 1]
    logs = np.log(volumes(niggli))
    rows = []
    for name in BRAVAIS_LATTICES:
        near = norm.pdf(LOG_VOLUMES[:, None], logs[names == name], BANDWIDTH)
        rows.append(near.sum(1) / len(numbers))
    return np.array(rows, dtype=np.float32)


def main() -> None:
    """Read the cells, write the statistics."""
    cells = np.load(data_folder() / "crystals" / "cells.npz", allow_pickle=False)
    number = cells["spacegroup"].astype(int)
    statistics = {"frequency": np.bincount(number, minlength=231)[1:].astype(np.float32)}
    systems = np.array([system_of(n) for n in number])
    for system in SYSTEMS:
        conventional, niggli = cells["conventional"][systems == system], cells["niggli"][systems == system]
        standard = np.abs(conventional[:, 3] - 90) < 0.01 if system != "triclinic" else conventional[:, 0] > 0
        values = _parameters(system, conventional[standard].astype(float), niggli[standard].astype(float))
        scores = norm.ppf((rankdata(values, axis=0) - 0.5) / len(values))
        correlation = np.atleast_2d(np.corrcoef(scores.T))
        statistics[f"{system}_quantiles"] = np.quantile(values, SHARES, axis=0).T.astype(np.float32)
        factor = np.linalg.cholesky(correlation + 1e-6 * np.eye(len(correlation)))
        statistics[f"{system}_factor"] = factor.astype(np.float32)
    statistics["bravais_volumes"] = _volume_densities(number, cells["niggli"].astype(float))
    np.savez_compressed(Path("vitreous/powder/sim/prior.npz"), **statistics)


if __name__ == "__main__":
    main()
