"""Samples of known composition that the tests of phase identification share, and a small database."""

from collections.abc import Mapping
from pathlib import Path

from tests.powder.identify.crystals import write_cifs
from vitreous.powder import build_database, simulate_mixture, write_pattern
from vitreous.powder.pattern import Pattern
from vitreous.powder.sim.simulate import choose_effects

KNOWN = ("quartz", "halite", "sylvite", "fluorite", "brucite")
"""In the database; rutile is not."""
_EFFECTS = {
    "counts": (1e4,), "width": (0.1,), "zero": (0.02,), "displacement": (-0.02,), "background": (0.03,),
    "alpha2": (0.5,), "mixing": (0.5,), "texture": (1.0,),
}  # fmt: skip


def small_database(folder: Path) -> Path:
    """A database of the crystals in `KNOWN`."""
    path = folder / "my.db"
    build_database([write_cifs(folder / "known", KNOWN)], path, jobs=1, progress=False)
    return path


def sample(folder: Path, fractions: Mapping[str, float], seed: int = 0, name: str = "sample") -> Pattern:
    """The pattern of a mixture of crystals as a laboratory diffractometer measures it."""
    cifs = folder / "cifs"
    if not cifs.exists():
        write_cifs(cifs)
    paths = {path.name.partition(".")[0]: path for path in cifs.rglob("*.cif*")}
    effects = choose_effects(_EFFECTS, (15.0, 80.0), clean=True)
    return simulate_mixture({paths[key]: mass for key, mass in fractions.items()}, effects, seed, name)


def write_sample(path: Path, fractions: Mapping[str, float], seed: int = 0) -> Path:
    """The same as a file."""
    path.parent.mkdir(exist_ok=True)
    write_pattern(path, sample(path.parents[1] if path.parent.name == "frames" else path.parent, fractions, seed))
    return path
