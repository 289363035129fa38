"""Errors, settings, atomic files, terminal output, batching and optional packages, for every other package."""
