"""The origin of an operation: its dialect and tool, and the run that it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CallContext:
    """The origin of an operation, as the audit records it."""

    dialect: str | None = None
    tool: str | None = None
    """The dialect's own name of the tool: `executeCommand`, `shell`."""
    run: str | None = None
    position: int = 0
    """The position in the run, from 0."""
    step: str | None = None
    """The operation's id in the run."""
    dry_run: bool = False
    """True if the operation acts on an overlay instead of the workspace."""
    notice: Callable[[Any], None] = lambda _: None
    """A callback that receives, before the operation is performed, the paths that undo cannot store."""


NO_RUN = CallContext()
"""The context of an operation that belongs to no run."""
