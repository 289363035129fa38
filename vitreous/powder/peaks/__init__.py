"""Peaks of a powder pattern: positions with standard errors."""

from vitreous.powder.peaks.decomposition import Peaks
from vitreous.powder.peaks.find import find_peaks

__all__ = ["Peaks", "find_peaks"]
