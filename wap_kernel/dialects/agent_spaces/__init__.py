"""Translate Agent Spaces: operations messages in, events messages out."""
