"""Crystallography of powders: pattern files, cells, peaks and indexing.

from vitreous.powder import index, index_peaks
best, *others = index(two_theta, intensity, wavelength=1.5406)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitreous.powder.rank import Solution
    from vitreous.powder.solve import index, index_peaks

__all__ = ["Solution", "index", "index_peaks"]


def __getattr__(name: str) -> Any:
    """Load the search on first use: cells and files are needed without it."""
    if name in __all__:
        from vitreous.powder import solve

        return getattr(solve, name)
    raise AttributeError(f"module 'vitreous.powder' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
