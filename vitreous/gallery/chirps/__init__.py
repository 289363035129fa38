"""Gravitational waves (S2.11)."""
