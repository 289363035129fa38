"""Powder diffraction: pattern files, simulation, unit cells (indexing), refinement, and phases (identification).

from vitreous.powder import index, read_pattern

pattern = read_pattern("quartz.xy", wavelength=1.5406)
best, *others = index(pattern.two_theta, pattern.intensity, wavelength=1.5406)
print(best.text)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitreous.powder.files import read_pattern, write_pattern
    from vitreous.powder.identify.answer import Identification, IdentifiedPhase
    from vitreous.powder.identify.build import build_database
    from vitreous.powder.identify.database import Database
    from vitreous.powder.identify.identification import IdentifyOptions, identify_pattern
    from vitreous.powder.identify.pattern_files import identify_file, identify_files
    from vitreous.powder.identify.remainder import remaining_pattern, with_unknown
    from vitreous.powder.identify.series import identify_series
    from vitreous.powder.identify.simulate_mixture import simulate_mixture
    from vitreous.powder.indexed_lines import IndexedLine
    from vitreous.powder.indexing import (
        IndexOptions,
        index,
        index_file,
        index_files,
        index_pattern,
        index_peak_list,
        index_peaks,
    )
    from vitreous.powder.known import Known
    from vitreous.powder.pattern import Pattern
    from vitreous.powder.peaks import Peaks, find_peaks
    from vitreous.powder.projects import write_project
    from vitreous.powder.refinement import Fit, refine
    from vitreous.powder.solution import IndexResult, Solution
    from vitreous.powder.tuning import PeakTuning, SearchTuning

_MODULES = {
    "files": ("read_pattern", "write_pattern"),
    "identify.answer": ("Identification", "IdentifiedPhase"),
    "identify.build": ("build_database",),
    "identify.database": ("Database",),
    "identify.identification": ("IdentifyOptions", "identify_pattern"),
    "identify.pattern_files": ("identify_file", "identify_files"),
    "identify.remainder": ("remaining_pattern", "with_unknown"),
    "identify.series": ("identify_series",),
    "identify.simulate_mixture": ("simulate_mixture",),
    "indexing": (
        "IndexOptions", "index", "index_file", "index_files", "index_pattern", "index_peak_list", "index_peaks",
    ),
    "indexed_lines": ("IndexedLine",),
    "known": ("Known",),
    "pattern": ("Pattern",),
    "peaks": ("Peaks", "find_peaks"),
    "projects": ("write_project",),
    "refinement": ("Fit", "refine"),
    "solution": ("IndexResult", "Solution"),
    "tuning": ("PeakTuning", "SearchTuning"),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Database", "Fit", "Identification", "IdentifiedPhase", "IdentifyOptions", "IndexOptions", "IndexResult",
    "IndexedLine", "Known", "Pattern", "PeakTuning", "Peaks", "SearchTuning", "Solution",
    "build_database", "find_peaks", "identify_file", "identify_files", "identify_pattern", "identify_series",
    "index", "index_file", "index_files", "index_pattern", "index_peak_list", "index_peaks", "read_pattern",
    "refine", "remaining_pattern", "simulate_mixture", "with_unknown", "write_pattern", "write_project",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load a module on first use of one of its names."""
    if name in _MODULE_OF:
        return getattr(import_module(f"vitreous.powder.{_MODULE_OF[name]}"), name)
    raise AttributeError(f"module 'vitreous.powder' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
