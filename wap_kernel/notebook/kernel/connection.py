"""The kernel's hands: found when they are first needed, and refused commands that nothing confines."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from wap_kernel.client.backend import Backend
from wap_kernel.client.discovery import find
from wap_kernel.client.results import RunResult
from wap_kernel.client.workspace_client import Hands, Operations
from wap_kernel.model.errors import ProviderUnavailable, WapError


class ConfinedHands(Hands):
    """A server lets people run commands without a sandbox, after a question. Here whoever writes the command would be
    the one who answers, so there are no such commands."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._is_confined: bool | None = None

    def run(self, operations: Operations, *args: Any, **options: Any) -> RunResult:
        listed = operations.get("operations", []) if isinstance(operations, Mapping) else operations
        if any(operation["type"] == "shell" for operation in listed) and not self._confines():
            raise ProviderUnavailable(
                "There is no sandbox here, and this kernel runs commands in one only.",
                hint="`wap doctor` tells how to get one; an administrator may set WapExtension.allow_unconfined.",
            )
        return super().run(operations, *args, **options)

    def _confines(self) -> bool:
        if self._is_confined is None:
            self._is_confined = bool(self._backend.call("getWorkspaceInfo", {})["confinesCommands"]) or _is_allowed()
        return self._is_confined


class Connection:
    """One a kernel; completion and cells may ask for it at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hands: ConfinedHands | None = None

    def hands(self) -> Hands:
        """Looks for a server, which may take its time: not for an event loop."""
        with self._lock:
            if self._hands is None:
                self._hands = ConfinedHands(find(os.environ, os.getcwd(), confined_only=True))
            return self._hands

    def is_there(self) -> bool:
        """Whether they have been found, told at once."""
        return self._hands is not None

    def prepare(self) -> None:
        """Ahead of time. What goes wrong is told to whoever needs them."""
        with suppress(WapError):
            self.hands()

    def close(self) -> None:
        with self._lock:
            if self._hands is not None:
                self._hands.close()
                self._hands = None


def _is_allowed() -> bool:
    """By the configuration that server and kernel share; a server does not tell."""
    from wap_kernel.engine.jupyter_config import configured

    return bool(configured().get("allow_unconfined", False))
