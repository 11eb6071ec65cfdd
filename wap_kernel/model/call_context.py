"""Where an operation comes from: the tool by which it was called, the run that it belongs to, what was agreed to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wap_kernel.files.interface import Files
from wap_kernel.policy.current import Binding


@dataclass(frozen=True)
class Context:
    dialect: str | None = None
    tool: str | None = None
    """By the dialect's own name: `executeCommand`, `shell`."""
    run: str | None = None
    position: int = 0
    """In the run, from 0."""
    step: str | None = None
    """The operation's id in the run."""
    approved: bool = False
    """A person has agreed to this operation, so what asks is allowed. What is denied stays denied."""
    binding: Binding | None = None
    """The policy, where it was looked up a moment ago for this operation and its neighbours."""
    overlay: Files | None = None
    """Of a dry run: where changes go instead of the workspace."""
    notice: Callable[[Any], None] = lambda _: None
    """Is told what could not be kept for undo, before the operation is performed."""


ALONE = Context()
"""An operation that belongs to no run."""
