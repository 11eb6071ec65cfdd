"""Coding Environment: the tools of its message catalog, for MCP, and extra tools for what the catalog lacks."""
