"""Measurements of the tools against their peers: `python -m benchmarks --help`."""
