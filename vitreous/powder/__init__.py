"""Crystallography of powders: pattern files, cells, peaks and indexing."""
