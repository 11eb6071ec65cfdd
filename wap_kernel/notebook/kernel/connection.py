"""Connect the kernel to its workspace on first use, and refuse commands that nothing confines."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from wap_kernel.client.backend import Backend
from wap_kernel.client.discovery import find_backend
from wap_kernel.client.results import RunResult
from wap_kernel.client.workspace_client import Operations, WorkspaceClient
from wap_kernel.model.errors import ProviderUnavailable, WapError


class ConfinedClient(WorkspaceClient):
    """A workspace client that runs commands in a sandbox only.

    A server lets people run commands without a sandbox after an approval. Here the author of the command would approve
    it, so such commands are refused.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._is_confined: bool | None = None

    def run(self, operations: Operations, *args: Any, **options: Any) -> RunResult:
        listed = operations.get("operations", []) if isinstance(operations, Mapping) else operations
        if any(operation["type"] == "shell" for operation in listed) and not self._confines():
            raise ProviderUnavailable(
                "This kernel runs commands in a sandbox only, and this machine has none.",
                hint="Run `wap doctor` to see how to get one; an administrator may set WapExtension.allow_unconfined.",
            )
        return super().run(operations, *args, **options)

    def _confines(self) -> bool:
        if self._is_confined is None:
            self._is_confined = (
                bool(self._backend.call("getWorkspaceInfo", {})["confinesCommands"]) or _allows_unconfined()
            )
        return self._is_confined


class Connection:
    """The connection of a kernel, which completion and cells may use at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._client: ConfinedClient | None = None

    def client(self) -> WorkspaceClient:
        """Return the client; finding a server may block, so do not call this on an event loop."""
        with self._lock:
            if self._client is None:
                self._client = ConfinedClient(find_backend(os.environ, os.getcwd(), confined_only=True))
            return self._client

    def is_connected(self) -> bool:
        """Return whether the client has been found, without waiting."""
        return self._client is not None

    def prepare(self) -> None:
        """Connect ahead of time; the first call of `client` raises the error, if there is one."""
        with suppress(WapError):
            self.client()

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None


def _allows_unconfined() -> bool:
    """Return whether the configuration that server and kernel share allows commands without a sandbox."""
    from wap_kernel.engine.jupyter_config import read_settings

    return bool(read_settings().get("allow_unconfined", False))
