"""Define the `wap` command."""
