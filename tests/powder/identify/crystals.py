"""Crystals that the tests of phase identification share, as CIFs and as structures."""

import gzip
import io
from pathlib import Path

from vitreous.powder.sim.structure import Structure
from vitreous.powder.sim.structure_files import read_cif

# name, formula, cell, space group and atoms
_CRYSTALS = {
    "quartz": ("Si O2", (4.914, 4.914, 5.405, 90, 90, 120), "P 32 2 1", "Si 0.4699 0 0.6667\nO 0.4141 0.2681 0.7854"),
    "halite": ("Na Cl", (5.6402, 5.6402, 5.6402, 90, 90, 90), "F m -3 m", "Na 0 0 0\nCl 0.5 0.5 0.5"),
    "sylvite": ("K Cl", (6.2931, 6.2931, 6.2931, 90, 90, 90), "F m -3 m", "K 0 0 0\nCl 0.5 0.5 0.5"),
    "rutile": ("Ti O2", (4.5937, 4.5937, 2.9587, 90, 90, 90), "P 42/m n m", "Ti 0 0 0\nO 0.3053 0.3053 0"),
    "fluorite": ("Ca F2", (5.4631, 5.4631, 5.4631, 90, 90, 90), "F m -3 m", "Ca 0 0 0\nF 0.25 0.25 0.25"),
    "brucite": ("Mg O2 H2", (3.142, 3.142, 4.766, 90, 90, 120), "P -3 m 1", "Mg 0 0 0\nO 0.33333 0.66667 0.2216"),
}  # fmt: skip
NAMES = tuple(_CRYSTALS)
_TAGS = ("length_a", "length_b", "length_c", "angle_alpha", "angle_beta", "angle_gamma")


def cif(name: str, scale: float = 1.0, title: str | None = None) -> str:
    """The CIF of a crystal, its cell larger by a factor."""
    formula, cell, group, atoms = _CRYSTALS[name]
    lines = [f"data_{name}", f"_chemical_formula_sum '{formula}'", f"_chemical_name_mineral {title or name}"]
    lines += [f"_cell_{tag} {x * scale if x < 30 else x:.5f}" for tag, x in zip(_TAGS, cell, strict=True)]
    lines += [f"_symmetry_space_group_name_H-M '{group}'", "loop_", "_atom_site_label"]
    return "\n".join([*lines, *(f"_atom_site_fract_{axis}" for axis in "xyz"), atoms, ""])


def write_cifs(folder: Path, names: tuple[str, ...] = NAMES) -> Path:
    """A folder with the CIFs of crystals, every second one compressed and in a folder of its own."""
    for place, name in enumerate(names):
        path = folder / (f"{name}.cif" if place % 2 == 0 else f"more/{name}.cif.gz")
        path.parent.mkdir(parents=True, exist_ok=True)
        content = cif(name).encode()
        path.write_bytes(content if place % 2 == 0 else zipped(content))
    return folder


def zipped(content: bytes) -> bytes:
    """Content compressed by gzip."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as file:
        file.write(content)
    return buffer.getvalue()


def crystal(folder: Path, name: str, scale: float = 1.0) -> Structure:
    """The structure of a crystal."""
    path = folder / f"{name}.cif"
    path.write_text(cif(name, scale))
    return read_cif(path, b_iso=1.0)
