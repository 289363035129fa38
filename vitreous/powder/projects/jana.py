"""Jana: cell and symmetry as `.m50`, a CIF and the data `.xye` for its import, and the values of its profile dialog.

The format of Jana's powder profile (`.m41`) is not documented, so its values are a text to copy. The keywords of the
`.m50` are those that Jmol reads.
"""

import math

from vitreous.powder.projects.numbers import data_columns, decimal
from vitreous.powder.projects.start import RefinementStart

_MONOCLINIC = 22  # the second system, with the unique axis b
_SYSTEMS = {
    "triclinic": 1, "monoclinic": _MONOCLINIC, "orthorhombic": 3, "tetragonal": 4, "trigonal": 5, "hexagonal": 6,
    "cubic": 7,
}  # fmt: skip
_LAST_TRIGONAL = 167  # number of the last trigonal space group
_WIDTH = 100  # centidegrees in a degree
_VARIANCE = _WIDTH**2 / (8 * math.log(2))  # squared centidegrees in a squared FWHM of one squared degree


def jana_files(start: RefinementStart, name: str, cif: str) -> dict[str, str]:
    """Cell and symmetry, CIF, data and profile, by the end of their names."""
    return {
        ".m50": _cell_file(start, name), "_jana.cif": cif, ".xye": data_columns(start),
        "_jana.txt": _profile(start, name),
    }  # fmt: skip


def _cell_file(start: RefinementStart, name: str) -> str:
    group = start.group
    system = "trigonal" if start.system == "hexagonal" and group.number <= _LAST_TRIGONAL else start.system
    lines = [
        "Version Jana2006",
        f"title {name}",
        f"cell {' '.join(map(decimal, start.cell))}",
        f"esdcell {' '.join(map(decimal, start.errors))}",
        "ndim 3 ncomp 1",
        f"spgroup {group.short_name} {group.number} {_SYSTEMS[system]}",
        f"lattice {start.centring}",
        *(f"symmetry {_in_jana(operation)}" for operation in group.primitive_operations),
    ]
    return "\n".join(lines) + "\n"


def _in_jana(operation: str) -> str:
    for axis, name in zip("xyz", ("x1", "x2", "x3"), strict=True):
        operation = operation.replace(axis, name)
    return operation.replace(",", " ")


def _profile(start: RefinementStart, name: str) -> str:
    shape = start.shape
    values = {
        "shift, zero without sycos and sysin": start.mean_shift * _WIDTH,
        "shift, zero with sycos and sysin": start.shifts.zero * _WIDTH,
        "shift, sycos": start.shifts.displacement * _WIDTH,
        "shift, sysin": start.shifts.transparency * _WIDTH,
        "GU": shape.u * _VARIANCE,
        "GV": shape.v * _VARIANCE,
        "GW": shape.w * _VARIANCE,
        "LX": shape.size * _WIDTH,
        "LY": shape.strain * _WIDTH,
        "asymmetry by divergence, H/L = S/L": shape.axial,
        "wavelength 1 (angstrom)": start.wavelength,
    }
    if start.wavelength2 is not None:
        values |= {"wavelength 2 (angstrom)": start.wavelength2, "I2/I1": start.ratio}
    values |= {"first angle (degrees)": start.limits[0], "last angle (degrees)": start.limits[1]}
    lines = [f"{key}: {decimal(value)}" for key, value in values.items()]
    words = "shifts and LX, LY in 0.01 degrees, GU, GV, GW in (0.01 degrees)^2 (variances, as in GSAS)"
    return "\n".join([f"{name}: profile of the fit for Jana; {words}", *lines]) + "\n"
