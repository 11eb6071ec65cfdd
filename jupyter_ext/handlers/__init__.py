"""Thin handlers: each authenticates, calls a dialect and writes JSON. `routes.py` lists them all."""
