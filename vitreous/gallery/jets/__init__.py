"""Jets at a collider (S2.10)."""
