"""Define the data of git operations."""
