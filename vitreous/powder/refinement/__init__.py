"""Whole-pattern (Pawley) refinement of a unit cell."""

from vitreous.powder.refinement.metric import reflections
from vitreous.powder.refinement.refine import Fit, refine

__all__ = ["Fit", "refine", "reflections"]
