"""The MCP server: the tools, files and prompts of a workspace, for every MCP client."""
