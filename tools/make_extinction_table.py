"""Write `vitreous/powder/extinctions.json`: the extinction symbols of every Bravais lattice and their space groups.

    python tools/make_extinction_table.py

Every space group is taken in each setting that has the axes of our conventional cells: b unique for monoclinic, C
centring for one centred face, hexagonal axes for rhombohedral lattices. Settings with the same absent reflections share
one extinction symbol. A symbol is named by its reflection conditions along the symmetry directions of the lattice, as
in the International Tables A, 3.1; names of space groups in their settings come from gemmi.
"""

import json
from itertools import permutations, product
from pathlib import Path

import gemmi
import numpy as np
import torch

from vitreous.powder.lattice_prior import BRAVAIS_LATTICES, bravais_name
from vitreous.powder.sim.space_groups import SYSTEMS, are_absent, groups_of_system, operations

_HOLOHEDRIES = {  # a space group with the symmetry of each lattice
    "triclinic": 2, "monoclinic": 10, "orthorhombic": 47, "tetragonal": 123, "hexagonal R": 166, "hexagonal": 191,
    "cubic": 221,
}  # fmt: skip
BOX = 6  # largest index of the reflections that tell symbols apart
_PLANE_BASES = [m for m in product((-1, 0, 1), repeat=4) if m[0] * m[3] - m[1] * m[2] in (1, -1)]


def settings(system: str) -> list[np.ndarray]:
    """Changes of basis `(3, 3)` by columns from the standard axes to other axes of the same kind."""
    if system == "orthorhombic":
        return [np.eye(3, dtype=int)[list(order)].T for order in permutations(range(3))]
    if system == "monoclinic":
        found = []
        for p, q, r, s in sorted(_PLANE_BASES, key=lambda m: (sum(map(abs, m)), m != (1, 0, 0, 1), m)):
            matrix = np.array([[p, 0, q], [0, 1, 0], [r, 0, s]])
            if all(((matrix - other) % 2).any() for other in found):  # absences depend on the indices modulo 2
                found.append(matrix)
        return found
    return [np.eye(3, dtype=int)]


def in_setting(number: int, change: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rotations and translations of a space group in other axes."""
    rotations, translations = operations(number)
    inverse = np.round(np.linalg.inv(change)).astype(int)
    return inverse @ rotations @ change, (translations @ inverse.T) % 1.0


def centring_of(rotations: np.ndarray, translations: np.ndarray) -> str | None:
    """The centring of a setting; None for one that our conventional cells do not have."""
    pure = {
        tuple(np.round(t * 24).astype(int) % 24)
        for r, t in zip(rotations, translations, strict=True)
        if (r == np.eye(3)).all()
    }
    names = {
        frozenset({(0, 0, 0)}): "P",
        frozenset({(0, 0, 0), (12, 12, 0)}): "C",
        frozenset({(0, 0, 0), (12, 12, 12)}): "I",
        frozenset({(0, 0, 0), (0, 12, 12), (12, 0, 12), (12, 12, 0)}): "F",
        frozenset({(0, 0, 0), (16, 8, 8), (8, 16, 16)}): "R",
    }
    return names.get(frozenset(pure))


def name_in_setting(number: int, rotations: np.ndarray, translations: np.ndarray) -> str:
    """The Hermann-Mauguin symbol in a setting, as gemmi has it for one of the possible origins."""
    for origin in product((0, 0.25, 0.5, 0.75), repeat=3):
        ops = []
        for rotation, translation in zip(rotations, translations, strict=True):
            op = gemmi.Op()
            op.rot = (np.round(rotation).astype(int) * gemmi.Op.DEN).tolist()
            moved = translation + origin - rotation @ origin
            op.tran = np.round(moved * gemmi.Op.DEN).astype(int).tolist()
            ops.append(op.wrap())
        group = gemmi.find_spacegroup_by_ops(gemmi.GroupOps(ops))
        if group is not None:
            return str(group.hm)
    raise ValueError(f"space group {number}: found no symbol in this setting")


HKL = torch.cartesian_prod(*(torch.arange(-BOX, BOX + 1, dtype=torch.float64),) * 3)


def absent_in_setting(number: int, change: np.ndarray, rotation: np.ndarray | None = None) -> np.ndarray:
    """Which reflections of the box, or their images by a rotation, are absent."""
    # A row of indices for the new axes is the row for the standard ones times the change: h_new = h_old P.
    images = HKL if rotation is None else HKL @ torch.as_tensor(rotation, dtype=torch.float64)
    old = images @ torch.as_tensor(np.linalg.inv(change), dtype=torch.float64)
    return are_absent(old.round(), number).numpy()


def unseen_in_powder(lattice: str, number: int, change: np.ndarray) -> np.ndarray:
    """Which reflections of the box are absent with all others that the symmetry of the lattice makes equally long."""
    rotations = np.unique(
        operations(_HOLOHEDRIES[lattice if lattice == "hexagonal R" else lattice.split()[0]])[0], axis=0
    )
    kept = rotations[
        [next(x for x in r.ravel() if x) > 0 for r in rotations]
    ]  # one of each rotation and its inverse image
    return np.all([absent_in_setting(number, change, rotation) for rotation in kept], axis=0)


H, K, L = HKL.numpy().astype(int).T
CENTRED = {  # reflections that a centring allows
    "P": np.ones(len(H), dtype=bool), "C": (H + K) % 2 == 0, "I": (H + K + L) % 2 == 0,
    "F": ((H + K) % 2 == 0) & ((H + L) % 2 == 0), "R": (-H + K + L) % 3 == 0,
}  # fmt: skip

# For each symmetry direction of a lattice: its axis, the names of screw axes by the divisor of an index along it, its
# plane, and the glides of the plane: letter, index combination, divisor. None where there is no axis or plane.
Part = tuple[np.ndarray | None, np.ndarray | None, dict[int, str], np.ndarray | None, list[tuple[str, np.ndarray, int]]]
_AXES = {"a": ((K == 0) & (L == 0), H), "b": ((H == 0) & (L == 0), K), "c": ((H == 0) & (K == 0), L)}


def _orthorhombic_part(axis: str) -> Part:
    first, second = (name for name in "abc" if name != axis)
    i, j = _AXES[first][1], _AXES[second][1]
    glides = [(first, i, 2), (second, j, 2), ("n", i + j, 2), ("d", i + j, 4)]
    return (*_AXES[axis], {2: "21"}, _AXES[axis][1] == 0, glides)


_HHL = [("c", L, 2), ("d", 2 * H + L, 4)]
PARTS: dict[str, list[Part]] = {
    "triclinic": [],
    "monoclinic": [(*_AXES["b"], {2: "21"}, K == 0, [("a", H, 2), ("c", L, 2), ("n", H + L, 2)])],
    "orthorhombic": [_orthorhombic_part(axis) for axis in "abc"],
    "tetragonal": [
        (*_AXES["c"], {2: "42", 4: "41"}, L == 0, [("a", H, 2), ("n", H + K, 2)]),
        (*_AXES["a"], {2: "21"}, H == 0, [("b", K, 2), ("c", L, 2), ("n", K + L, 2)]),
        (None, None, {}, H == K, _HHL),
    ],
    "hexagonal": [
        (*_AXES["c"], {2: "63", 3: "62", 6: "61"}, None, []),
        (None, None, {}, H == -K, [("c", L, 2)]),
        (None, None, {}, H == K, [("c", L, 2)]),
    ],
    "cubic": [
        (*_AXES["c"], {2: "21", 4: "41"}, H == 0, [("a", K, 2), ("n", K + L, 2), ("d", K + L, 4)]),
        (None, None, {}, None, []),
        (None, None, {}, H == K, [("n", L, 2), ("d", 2 * H + L, 4)]),
    ],
}
_PLACE = {hkl: place for place, hkl in enumerate(zip(H.tolist(), K.tolist(), L.tolist(), strict=True))}
_SWAPPED = np.array([_PLACE[k, h, m] for h, k, m in _PLACE])
_TURNED = np.array([_PLACE[m, h, k] for h, k, m in _PLACE])
_EQUIVALENT = {"tetragonal": (_SWAPPED,), "cubic": (_TURNED, _TURNED[_TURNED])}


def symbol(system: str, centring: str, absent: np.ndarray) -> str:
    """The extinction symbol of an absence pattern `(n,)` over the box."""
    possible, shown, some = CENTRED[centring], ~absent, (H != 0) | (K != 0) | (L != 0)

    def holds(where: np.ndarray, value: np.ndarray, divisor: int) -> bool:
        """Whether a condition holds for the reflections that are shown, and not because of the centring."""
        here = where & some
        return bool((value[here & shown] % divisor == 0).all() and (value[here & possible] % divisor != 0).any())

    implied, glides = possible.copy(), []
    for _, _, _, plane, letters in PARTS[system]:
        found = [] if plane is None else [each for each in letters if holds(plane, each[1], each[2])]
        deepest = max((divisor for *_, divisor in found), default=0)
        found = [each for each in found if each[2] == deepest]
        for _, value, divisor in found:
            implied &= ~plane | (value % divisor == 0)
        glides.append([letter for letter, *_ in found])
    for turned in _EQUIVALENT.get(system, ()):  # a plane through one axis implies conditions along an equivalent one
        implied &= implied[turned]
    parts = []
    for (axis, along, screws, _, _), letters in zip(PARTS[system], glides, strict=True):
        screw = ""
        for divisor, name in sorted(screws.items(), reverse=True):
            if holds(axis, along, divisor):
                hidden = (along[axis & some & implied] % divisor == 0).all()
                screw = "" if hidden else name
                break
        parts.append((screw, _glide_name(system, centring, letters)))
    return _joined(system, centring, parts)


def _glide_name(system: str, centring: str, letters: list[str]) -> str:
    """One name for the conditions of a plane."""
    if not letters or len(letters) == 1:
        return "".join(letters)
    if centring == "C" and set(letters) == {"a", "b"}:
        return "e"
    if system == "orthorhombic" and centring == "I":
        return f"({''.join(letters)})"
    return "c" if "c" in letters else letters[0]


def _diagonal_name(centring: str, glide: str) -> str:
    """The name of a cubic diagonal glide plane, which is c in an F lattice."""
    return "c" if (centring, glide) == ("F", "n") else glide


def _joined(system: str, centring: str, parts: list[tuple[str, str]]) -> str:
    if system == "triclinic":
        return "P -"
    if system == "orthorhombic":
        names = [glide or screw or "-" for screw, glide in parts]
        bodies = {("-", "(ac)", "(ab)"): "- c b", ("(bc)", "-", "(ab)"): "c - a", ("(bc)", "(ac)", "-"): "b a -",
                  ("(bc)", "(ac)", "(ab)"): "b c a"}  # fmt: skip
        return f"{centring} {bodies.get(tuple(names), ' '.join(names))}"
    if system == "cubic":
        parts[2] = ("", _diagonal_name(centring, parts[2][1]))
    names = ["/".join(filter(None, part)) or "-" for part in parts]
    return f"{centring} 1 {names[0]} 1" if system == "monoclinic" else f"{centring} {' '.join(names)}"


def table() -> dict[str, list[dict[str, object]]]:
    """For each Bravais lattice, its symbols with their groups, those with fewest absences first."""
    lattices: dict[str, dict[bytes, dict[str, object]]] = {}
    for system in SYSTEMS:
        lattice_system = "hexagonal" if system == "trigonal" else system
        for number in groups_of_system(system):
            for change in settings(system):
                letter = centring_of(*in_setting(number, change))
                if letter is None or bravais_name(system, letter) not in BRAVAIS_LATTICES:
                    continue
                entries = lattices.setdefault(bravais_name(system, letter), {})
                absent = absent_in_setting(number, change)
                seen = unseen_in_powder(bravais_name(system, letter), number, change)
                entry = entries.setdefault(
                    seen.tobytes(),
                    {"symbol": symbol(lattice_system, letter, absent), "absences": int(seen.sum()), "groups": []},
                )
                name = name_in_setting(number, *in_setting(number, change))
                groups = entry["groups"]
                if all(name != group["name"] for group in groups):
                    groups.append({"number": number, "name": name, "axes": change.tolist()})
    ordered = {}
    for lattice, entries in sorted(lattices.items()):
        rows = sorted(entries.values(), key=lambda entry: (entry["absences"], entry["symbol"]))
        ordered[lattice] = [{"symbol": row["symbol"], "groups": row["groups"]} for row in rows]
    return ordered


def main() -> None:
    """Write the table."""
    text = json.dumps(table(), indent=None, separators=(",", ":"), sort_keys=True)
    Path("vitreous/powder/extinctions.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
