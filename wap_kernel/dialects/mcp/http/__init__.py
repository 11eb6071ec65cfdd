"""Serve MCP over streamable HTTP."""
