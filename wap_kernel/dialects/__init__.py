"""Dialects translate between a protocol's words and the engine's. They never open a file or start a process."""
