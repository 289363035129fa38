"""The lines of standards are where the certificates state them."""

from pathlib import Path

import numpy as np
import pytest

from vitreous.core.errors import InputError
from vitreous.powder.sim.structure import expand
from vitreous.powder.standards import STANDARDS, standard_lines, standard_structure

# 2θ for 1.5405929 Å in Table 1 of the certificate of SRM 640f.
SRM_640F = (28.441, 47.301, 56.120, 69.127, 76.373, 88.026, 94.947, 106.702, 114.085, 127.535, 136.882)


def test_silicon_has_the_lines_of_the_certificate_and_no_others() -> None:
    lines = standard_lines("Si", 1.5405929, (10, 140))
    np.testing.assert_allclose(lines.two_theta, SRM_640F, atol=6e-4)
    assert lines.intensity.argmax() == 0


@pytest.mark.parametrize(("name", "atoms"), [("Si", 8), ("LaB6", 7), ("Al2O3", 30), ("CeO2", 12)])
def test_the_structures_are_complete(name: str, atoms: int) -> None:
    assert len(expand(standard_structure(name)).elements) == atoms


def test_the_strongest_lines_are_the_known_ones() -> None:
    strongest = {name: standard_lines(name, 1.5405929, (5, 90)) for name in STANDARDS}
    angles = {name: float(lines.two_theta[lines.intensity.argmax()]) for name, lines in strongest.items()}
    assert angles == pytest.approx({"Si": 28.44, "LaB6": 30.38, "Al2O3": 43.35, "CeO2": 28.55}, abs=0.01)


def test_a_cif_is_a_standard(tmp_path: Path) -> None:
    pytest.importorskip("gemmi")
    a = 5.6402
    sites = "Na1 Na 0 0 0\nCl1 Cl 0.5 0.5 0.5"
    lengths = "\n".join(f"_cell_length_{axis} {a}" for axis in "abc")
    angles = "\n".join(f"_cell_angle_{name} 90" for name in ("alpha", "beta", "gamma"))
    loop = "loop_\n_atom_site_label\n_atom_site_type_symbol\n" + "\n".join(f"_atom_site_fract_{x}" for x in "xyz")
    group = "_space_group_name_H-M_alt 'F m -3 m'"
    (tmp_path / "salt.cif").write_text(f"data_salt\n{lengths}\n{angles}\n{group}\n{loop}\n{sites}\n")
    lines = standard_lines(str(tmp_path / "salt.cif"), 1.5405929, (20, 70))
    expected = 2 * np.degrees(np.arcsin(1.5405929 / 2 / a * np.sqrt([3, 4, 8, 11, 12, 16])))
    np.testing.assert_allclose(lines.two_theta, expected, atol=1e-6)
    assert lines.intensity.argmax() == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [("Sii", "standard: found 'Sii', expected Si, LaB6, Al2O3, CeO2 or a CIF"), ("no.cif", "no.cif: no such file")],
)
def test_an_unknown_standard_is_an_error(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        standard_lines(name, 1.5406, (10, 90))
