"""Write a pattern as text."""

from os import PathLike
from pathlib import Path

import numpy as np

from vitreous.core.atomic import write_atomically
from vitreous.core.errors import InputError, check_choice
from vitreous.powder.pattern import Pattern


def write_pattern(path: str | PathLike[str], pattern: Pattern) -> None:
    """Write `.xy` (2θ, intensity), `.xye` (also standard errors) or `.csv` (standard errors if available)."""
    path = Path(path)
    kind = path.suffix.lower()
    check_choice(f"{path}: file type", kind, (".xy", ".xye", ".csv"))
    if kind == ".xye" and pattern.sigma is None:
        raise InputError(f"{path}: {pattern.name} has no standard errors for an .xye file; expected .xy or .csv")
    names, columns = ["two_theta", "intensity"], [pattern.two_theta, pattern.intensity]
    if pattern.sigma is not None and kind != ".xy":
        names, columns = [*names, "sigma"], [*columns, pattern.sigma]
    separator = "," if kind == ".csv" else " "
    lines = [separator.join(names) if kind == ".csv" else f"# {separator.join(names)}"]
    if pattern.wavelength is not None:
        doublet = f"; wavelength2 = {float(pattern.wavelength2)!r} angstrom" if pattern.wavelength2 else ""
        ratio = f"; ratio = {float(pattern.ratio)!r}" if doublet else ""
        lines.insert(0, f"# wavelength = {float(pattern.wavelength)!r} angstrom{doublet}{ratio}")
    lines += [separator.join(map(repr, row)) for row in np.stack(columns, axis=1).tolist()]
    write_atomically(path, "\n".join([*lines, ""]).encode())
