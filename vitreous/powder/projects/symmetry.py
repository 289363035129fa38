"""The space group with which a refinement starts, and its name in the programs."""

from typing import TYPE_CHECKING, Any, NamedTuple

from vitreous.core.extras import load_extra

if TYPE_CHECKING:
    from vitreous.powder.solution import Solution

_POINT_GROUPS = {  # the lowest Laue class of each crystal system
    "triclinic": "-1", "monoclinic": "1 2/m 1", "orthorhombic": "m m m", "tetragonal": "4/m", "trigonal": "-3",
    "hexagonal": "-3", "cubic": "m -3",
}  # fmt: skip


class ChosenGroup(NamedTuple):
    """A space group in the setting of the conventional cell."""

    name: str  # Hermann-Mauguin symbol, e.g. `P 1 21/c 1`
    number: int

    @property
    def operations(self) -> list[str]:
        """The symmetry operations as triplets, centring included."""
        return [str(operation.triplet()) for operation in _space_group(self.name).operations()]

    @property
    def primitive_operations(self) -> list[str]:
        """One of the operations that differ by a centring only."""
        return [str(operation.triplet()) for operation in _space_group(self.name).operations().sym_ops]

    @property
    def extended_name(self) -> str:
        """The symbol with `:1` for the first of two origins, and with `:H` for hexagonal axes."""
        return str(_space_group(self.name).xhm())

    @property
    def short_name(self) -> str:
        """The symbol without spaces and without the unit axes of a monoclinic group, e.g. `P21/c`."""
        return str(_space_group(self.name).short_name())


def choose_space_group(solution: "Solution") -> ChosenGroup:
    """The likeliest space group of the likeliest extinction symbol.

    Without extinction symbols, it is the symmorphic group of the lattice in the lowest Laue class.
    """
    if solution.symbols:
        group = solution.symbols[0].groups[0]
        return ChosenGroup(group.name, group.number)
    name = f"{solution.centring} {_POINT_GROUPS[solution.crystal_system]}"
    return ChosenGroup(name, int(_space_group(name).number))


def _space_group(name: str) -> Any:
    return load_extra("gemmi", "powder").find_spacegroup_by_name(name)
