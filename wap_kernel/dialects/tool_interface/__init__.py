"""Translate workspace-tool-interface: the seven tools that coding agents of the OpenCode family expect."""
