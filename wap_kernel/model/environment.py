"""The environment variables by which a kernel finds its server."""

from __future__ import annotations

SERVER_PID = "WAP_SERVER_PID"
"""The variable that holds the process id of the server that started the kernel."""
