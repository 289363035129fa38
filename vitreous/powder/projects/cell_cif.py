"""A unit cell as a CIF: cell and symmetry, and, if asked for, reflections and profile of its fit as a powder CIF."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vitreous.core.extras import load_extra
from vitreous.powder.cell import NAMES, metrics_of, volumes, with_error
from vitreous.powder.projects.symmetry import choose_space_group
from vitreous.powder.radiation import PROBES
from vitreous.powder.refinement import Fit
from vitreous.powder.refinement.profile import Array

if TYPE_CHECKING:
    from vitreous.powder.solution import Solution

_CHOICE = "the space group is a choice, the likeliest of this symbol"


def cell_cif(solution: "Solution", fit: Fit | None, profile: bool = False) -> str:
    """The CIF of a cell, as refined in a fit if there is one; `profile` adds what the fit holds beyond the cell."""
    cif = load_extra("gemmi", "powder").cif
    document = cif.Document()
    block = document.add_new_block("cell")
    cell, errors = (fit.cell, fit.errors) if fit is not None else (solution.conventional, (0.0,) * 6)
    for name, value, error in zip(NAMES, cell, errors, strict=True):
        label = f"_cell_length_{name}" if name in "abc" else f"_cell_angle_{name}"
        block.set_pair(label, with_error(value, error) if error > 0 else f"{value:.5f}")
    block.set_pair("_cell_volume", f"{float(volumes([cell])[0]):.3f}")
    block.set_pair("_space_group_crystal_system", solution.crystal_system)
    block.set_pair("_space_group_centring_type", solution.centring)
    if fit is None or not profile:
        block.set_pair("_diffrn_radiation_wavelength", f"{solution.wavelength:g}")
    if solution.radiation is not None:
        block.set_pair("_diffrn_radiation_probe", PROBES[solution.radiation])
    if fit is not None:
        block.set_pair("_pd_proc_ls_prof_wR_factor", f"{fit.rwp:.4f}")
    if fit is not None and solution.symbols:
        details = f"extinction symbol {solution.space_groups}"
        block.set_pair("_space_group_special_details", cif.quote(details + f"; {_CHOICE}" * profile))
    if fit is not None and profile:
        block.set_pair("_pd_proc_ls_prof_wR_expected", f"{fit.rexp:.4f}")
        block.set_pair("_pd_calc_method", cif.quote("Pawley refinement"))
        _add_space_group(block, cif, solution)
        _add_radiation(block, solution.wavelength, fit)
        _add_reflections(block, fit)
        _add_profile(block, fit)
    return str(document.as_string())


def _add_space_group(block: Any, cif: Any, solution: "Solution") -> None:
    group = choose_space_group(solution)
    block.set_pair("_space_group_name_H-M_alt", cif.quote(group.name))
    block.set_pair("_space_group_IT_number", str(group.number))
    operations = [cif.quote(operation) for operation in group.operations]
    _add_loop(block, "_space_group_symop_", ("operation_xyz",), [operations])


def _add_radiation(block: Any, wavelength: float, fit: Fit) -> None:
    second = fit.profile.wavelength2
    if second is None:
        block.set_pair("_diffrn_radiation_wavelength", f"{wavelength:.9g}")
        return
    waves, weights = (f"{wavelength:.9g}", f"{second:.9g}"), ("1", f"{fit.profile.shape.ratio:.4f}")
    _add_loop(block, "_diffrn_radiation_wavelength", ("_id", "", "_wt"), [("1", "2"), waves, weights])


def _add_reflections(block: Any, fit: Fit) -> None:
    """Indices with d (ångström) and area, and the same lines with their observed 2θ (degrees)."""
    inverse = np.linalg.inv(metrics_of([fit.cell])[0])
    d = _numbers(1 / np.sqrt(np.einsum("ni,ij,nj->n", fit.hkl, inverse, fit.hkl)), 6)
    areas, labels = _numbers(fit.intensities, 5), [str(k + 1) for k in range(len(fit.hkl))]
    indices = [[str(index) for index in column] for column in fit.hkl.T.tolist()]
    reflection = [f"refln_{name}" for name in ("index_h", "index_k", "index_l", "d_spacing", "intensity_meas")]
    _add_loop(block, "_", [*reflection, "pd_refln_peak_id"], [*indices, d, areas, labels])
    positions = [f"{position:.5f}" for position in fit.positions]
    peak = ("id", "2theta_centroid", "d_spacing", "intensity")
    _add_loop(block, "_pd_peak_", peak, [labels, positions, d, areas])


def _add_profile(block: Any, fit: Fit) -> None:
    """Observed and calculated intensities, background, and weights, point by point."""
    columns = {
        "meas_2theta_scan": [f"{angle:.6g}" for angle in fit.two_theta],
        "proc_intensity_total": _numbers(fit.observed, 7),
        "calc_intensity_total": _numbers(fit.calculated, 7),
        "proc_intensity_bkg_calc": _numbers(fit.background, 7),
        "proc_ls_weight": _numbers(1 / fit.sigma**2, 7),
    }
    _add_loop(block, "_pd_", tuple(columns), list(columns.values()))


def _numbers(values: Array, digits: int) -> list[str]:
    return [f"{value:.{digits}g}" for value in values]


def _add_loop(block: Any, prefix: str, tags: Sequence[str], columns: Sequence[Sequence[str]]) -> None:
    block.init_loop(prefix, list(tags)).set_all_values([list(column) for column in columns])
