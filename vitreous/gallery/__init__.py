"""The physics gallery (S2.8 to S2.12): a simulator, a recipe, the field's own baseline and figures for each entry.

Nothing here has a model of its own: entries differ in their simulator, their tokenizer and their settings.
"""

from vitreous.gallery import chirps, ising, lensing, light_curves
from vitreous.gallery.entry import Entry as Entry

_LISTED: tuple[Entry, ...] = (ising.ENTRY, ising.TEMPERATURE, lensing.ENTRY, light_curves.ENTRY, chirps.ENTRY)
ENTRIES = {entry.recipe: entry for entry in _LISTED}
"""Entries by the name of their recipe, in the order in which they are listed."""
