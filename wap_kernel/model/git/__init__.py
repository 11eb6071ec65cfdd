"""The data of git operations."""
