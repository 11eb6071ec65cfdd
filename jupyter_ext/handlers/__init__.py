"""Thin handlers: each authenticates, calls a dialect and writes JSON. `routes.py` is the table of contents."""
