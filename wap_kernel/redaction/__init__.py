"""Mask credentials in everything that leaves the engine."""
