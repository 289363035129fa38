"""How `vitreous index` reads files and searches them."""

from collections.abc import Sequence
from dataclasses import dataclass

from vitreous.powder.files.reading import AS_IN_FILE, ReadOptions
from vitreous.powder.known import NOTHING_KNOWN, Known
from vitreous.powder.search import LATTICES
from vitreous.powder.tuning import SEARCH_TUNING, SearchTuning


@dataclass(frozen=True)
class IndexOptions:
    """How files are read and searched."""

    anode: str | None = None  # of the X-ray tube, e.g. `Cu`; replaces the radiation that the file states
    wavelength: float | None = None  # ångström; replaces the wavelength that the file states
    peaks: bool = False  # the file is a peak list, not a pattern
    systems: Sequence[str] = tuple(LATTICES)  # crystal systems to search
    most: int = 5  # largest number of solutions
    refine: bool = True  # refine the best cell on the whole pattern if its probability is high enough
    hints: bool = True  # look for signs of a wrong wavelength
    symmetry: bool = False  # say what the whole profile tells about the symmetry, also where there is a likely cell
    known: Known = NOTHING_KNOWN  # cell or volume, density, formula, standard, zero shift, angles that count
    tuning: SearchTuning = SEARCH_TUNING  # constants of the search
    phases: int = 2  # 1 does without a second phase
    reading: ReadOptions = AS_IN_FILE  # axis, columns and scans of files, neutrons


DEFAULT_OPTIONS = IndexOptions()
