"""Translate WAP 1.0."""
