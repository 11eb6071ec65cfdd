"""What a provider is: files, and commands that run beside them.

local, bubblewrap and gvisor share the notebook's filesystem and differ in how a command is confined; others bring a
filesystem of their own. The engine sees this interface and nothing else of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from wap_kernel.commands.outcome import Cancel, OnChunk, Outcome
from wap_kernel.files.primitives import Files


@dataclass(frozen=True)
class Command:
    """A command line and how it shall run."""

    command: str
    timeout: float
    """Seconds."""
    output_limit: int
    """Bytes of text, for both streams together."""
    cwd: str = "."
    """A folder, relative to the root."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The caller's own variables; the provider decides what they are added to."""


class Provider(Protocol):
    """A place where operations happen."""

    @property
    def name(self) -> str: ...
    @property
    def confines(self) -> bool:
        """Whether a command sees and changes nothing but the workspace."""

    @property
    def files(self) -> Files: ...
    def run(self, command: Command, *, on_chunk: OnChunk | None = None, cancel: Cancel | None = None) -> Outcome:
        """Run to the end, on the calling thread. Afterwards nothing that the command started is left; exceptions that
        a provider cannot exclude are named in its own text.

        Raises ExecutionFailed when it cannot be started, and a refusal for its folder or its variables.
        """

    def close(self) -> None:
        """End the commands that run, wait for their end, and refuse new ones."""
