"""Providers: the places where files live and commands run."""
