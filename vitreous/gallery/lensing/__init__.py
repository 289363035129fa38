"""Strong gravitational lenses (S2.12)."""
