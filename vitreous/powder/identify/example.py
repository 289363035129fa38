"""An example to try phase identification: a small database of minerals and the simulated pattern of a mixture."""

from pathlib import Path

from vitreous.powder.files import write_pattern
from vitreous.powder.identify.build import build_database
from vitreous.powder.identify.simulate_mixture import simulate_mixture
from vitreous.powder.sim.effects import Effects
from vitreous.powder.sim.simulate import choose_effects

MINERALS = {  # formula, a and c in Å, γ in degrees, space group, atoms
    "Corundum": ("Al2 O3", 4.7589, 12.991, 120, "R -3 c", "Al 0 0 0.3522\nO 0.3063 0 0.25"),
    "Quartz": ("Si O2", 4.9137, 5.4047, 120, "P 32 2 1", "Si 0.4697 0 0.66667\nO 0.4133 0.2672 0.7858"),
    "Zincite": ("Zn O", 3.2495, 5.2069, 120, "P 63 m c", "Zn 0.33333 0.66667 0\nO 0.33333 0.66667 0.3821"),
    "Fluorite": ("Ca F2", 5.4631, 5.4631, 90, "F m -3 m", "Ca 0 0 0\nF 0.25 0.25 0.25"),
    "Halite": ("Na Cl", 5.6402, 5.6402, 90, "F m -3 m", "Na 0 0 0\nCl 0.5 0.5 0.5"),
    "Rutile": ("Ti O2", 4.5937, 2.9587, 90, "P 42/m n m", "Ti 0 0 0\nO 0.3053 0.3053 0"),
    "Periclase": ("Mg O", 4.2117, 4.2117, 90, "F m -3 m", "Mg 0 0 0\nO 0.5 0.5 0.5"),
}
MIXTURE = {"Corundum": 40.0, "Quartz": 35.0, "Fluorite": 25.0}
"""Mass percent of the minerals in the example."""
_EFFECTS: dict[str, list[float]] = {
    "counts": [20_000], "width": [0.08], "mixing": [0.5], "alpha2": [0.5], "background": [0.03], "zero": [0.03],
    "displacement": [-0.03],
}  # fmt: skip


def laboratory() -> Effects:
    """Effects of a laboratory diffractometer with copper radiation, from 15 to 90°."""
    return choose_effects(_EFFECTS, two_theta=(15.0, 90.0), clean=True)


def write_minerals(folder: Path) -> None:
    """A CIF of each mineral."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (formula, a, c, gamma, group, atoms) in MINERALS.items():
        lines = [f"data_{name}", f"_chemical_name_mineral {name}", f"_chemical_formula_sum '{formula}'"]
        lines += [f"_cell_length_{axis} {length}" for axis, length in zip("abc", (a, a, c), strict=True)]
        lines += ["_cell_angle_alpha 90", "_cell_angle_beta 90", f"_cell_angle_gamma {gamma}"]
        lines += [f"_symmetry_space_group_name_H-M '{group}'", "loop_", "_atom_site_label"]
        lines += [*(f"_atom_site_fract_{axis}" for axis in "xyz"), atoms, ""]
        (folder / f"{name}.cif").write_text("\n".join(lines))


def write_example(folder: Path) -> tuple[Path, Path]:
    """A pattern of `MIXTURE` and a database of `MINERALS` in a folder; their files."""
    cifs, pattern, database = folder / "minerals", folder / "mixture.xy", folder / "minerals.db"
    write_minerals(cifs)
    build_database([cifs], database, jobs=1, progress=False)
    fractions = {cifs / f"{name}.cif": mass for name, mass in MIXTURE.items()}
    write_pattern(pattern, simulate_mixture(fractions, laboratory()))
    return pattern, database
