"""Decide which paths are closed, read-only or protected."""
