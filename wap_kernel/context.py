"""Where an operation comes from: the tool by which it was called, the run that it belongs to, what was agreed to."""

from __future__ import annotations

from dataclasses import dataclass


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


ALONE = Context()
"""An operation that belongs to no run."""
