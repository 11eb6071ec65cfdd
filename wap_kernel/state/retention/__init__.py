"""Delete old state."""
