"""Name the environment variables by which a kernel finds its server."""

from __future__ import annotations

SERVER_PID = "WAP_SERVER_PID"
"""Holds the process id of the server that has the extension and started the kernel."""
