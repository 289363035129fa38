"""Example patterns that come with the package."""

from importlib.resources import as_file, files

from vitreous.core.errors import check_choice
from vitreous.powder.files import read_pattern
from vitreous.powder.pattern import Pattern

EXAMPLES = {
    "triclinic": "simulated for a laboratory diffractometer; cell 5.5818 7.1262 8.9047 Å, 97.513 102.227 108.961°",
    "thiosulfate": "Na₂S₂O₃·5H₂O, measured at a synchrotron; published cell 5.9501 21.6000 7.5349 Å, β = 103.785°",
}


def example(name: str) -> Pattern:
    """An example pattern by its name."""
    check_choice("example", name, EXAMPLES)
    with as_file(files("vitreous.powder") / "examples" / f"{name}.xy.gz") as path:
        return read_pattern(path)
