"""Write `vitreous/powder/sim/tables.npz` with gemmi: `python tools/make_tables.py`.

The 230 space groups in gemmi's reference setting (monoclinic with unique axis b, rhombohedral in hexagonal axes,
origin choice 2 where there are two) and the X-ray form factors of International Tables C (1992), elements 1 to 98.
"""

from pathlib import Path

import gemmi
import numpy as np

from vitreous.powder.sim.space_groups import SYSTEMS

PATH = Path(__file__).parent.parent / "vitreous" / "powder" / "sim" / "tables.npz"


def main() -> None:
    """Write the tables; group n has the rows from `starts[n - 1]` to `starts[n]`."""
    groups = [gemmi.get_spacegroup_reference_setting(n) for n in range(1, 231)]
    operations = [group.operations() for group in groups]
    rows = [op for each in operations for op in each.sym_ops]
    elements = [gemmi.Element(z) for z in range(1, 99)]
    np.savez_compressed(
        PATH,
        rotations=np.array([op.rot for op in rows], dtype=np.int8) // gemmi.Op.DEN,
        translations=np.array([op.tran for op in rows], dtype=np.int8) % gemmi.Op.DEN,  # in 1/24
        starts=np.cumsum([0, *[len(each.sym_ops) for each in operations]], dtype=np.int16),
        centrings=np.array([c for each in operations for c in each.cen_ops], dtype=np.int8),  # in 1/24
        centring_starts=np.cumsum([0, *[len(each.cen_ops) for each in operations]], dtype=np.int16),
        systems=np.array([SYSTEMS.index(group.crystal_system_str()) for group in groups], dtype=np.int8),
        centrosymmetric=np.array([group.is_centrosymmetric() for group in groups]),
        symbols=np.array([element.name for element in elements]),
        form_factors=np.array([element.it92.get_coefs() for element in elements], dtype=np.float32),  # a1-4, b1-4, c
    )
    print(f"{PATH}: {PATH.stat().st_size} bytes")


if __name__ == "__main__":
    main()
