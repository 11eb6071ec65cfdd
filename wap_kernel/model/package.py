"""The version of the package, and the environment variable by which a kernel finds its server."""

from __future__ import annotations

__version__ = "0.1.0"

SERVER_PID = "WAP_SERVER_PID"
"""The variable that holds the process id of the server that started the kernel."""
