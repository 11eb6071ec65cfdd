"""Parse command lines for policy."""
