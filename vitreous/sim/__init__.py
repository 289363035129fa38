"""Simulators that feed training without a data set."""
