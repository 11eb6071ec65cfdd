"""Forward the messages of an MCP client at standard input to a server."""
