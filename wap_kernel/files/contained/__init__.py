"""Reach files below one directory descriptor and nowhere else."""
