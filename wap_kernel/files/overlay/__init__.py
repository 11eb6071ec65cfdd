"""Show a workspace with changes that exist in memory only."""
