"""Search file contents."""
