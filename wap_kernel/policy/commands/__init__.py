"""Judge command lines."""
