"""The physics gallery (S2.8 to S2.12): a simulator, a recipe, the field's own baseline and figures for each entry.

Nothing here has a model of its own: entries differ in their simulator, their tokenizer and their settings.
"""

from vitreous.gallery import chirps, ising, jets, lensing, light_curves, showers
from vitreous.gallery.entry import Entry as Entry

_LISTED: tuple[Entry, ...] = (
    ising.ENTRY, ising.TEMPERATURE, showers.ENTRY, jets.ENTRY, lensing.ENTRY, light_curves.ENTRY, chirps.ENTRY
)  # fmt: skip
ENTRIES = {entry.recipe: entry for entry in _LISTED}
"""Entries by the name of their recipe, in the order in which they are listed."""
