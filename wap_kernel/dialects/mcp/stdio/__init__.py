"""Serve MCP over standard input and output."""
