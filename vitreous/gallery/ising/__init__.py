"""Ising spins (S2.9)."""
