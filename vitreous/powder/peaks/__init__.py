"""Peaks of a powder pattern: positions with standard errors."""

from vitreous.powder.peaks.find import Peaks, find_peaks

__all__ = ["Peaks", "find_peaks"]
