"""Figures of powder patterns and their refinement."""
