"""Simulated powder patterns."""
