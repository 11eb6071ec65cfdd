"""Apply edits to text."""
