"""What a provider is: files, and commands that run beside them.

local, bubblewrap and gvisor share the notebook's filesystem and differ in how a command is confined; others bring a
filesystem of their own. The engine sees this interface and nothing else of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from wap_kernel.files.interface import Files
from wap_kernel.model.command import CancelToken, Command, CommandOutcome, OnChunk


@dataclass(frozen=True)
class ResourceLimits:
    """For one command and everything that it starts. None: unlimited."""

    processes: int | None = 512
    memory: int | None = 4 * 1024**3
    file_size: int | None = 4 * 1024**3


@dataclass(frozen=True)
class Probe:
    """What a provider found out about this machine."""

    name: str
    works: bool
    detail: str
    """What was found (version, platform), or why it does not work."""
    fix: str | None = None
    """The command or the setting that would make it work."""
    promises: Mapping[str, bool] = field(default_factory=dict)
    """What is held on this machine and what is not: `files outside`, `network`, `processes`, `memory` ..."""


class Provider(Protocol):
    """A place where operations happen."""

    @property
    def name(self) -> str: ...
    @property
    def confines(self) -> bool:
        """Whether a command sees and changes nothing but the workspace."""

    @property
    def files(self) -> Files: ...
    def run(
        self, command: Command, *, on_chunk: OnChunk | None = None, cancel: CancelToken | None = None
    ) -> CommandOutcome:
        """Run to the end, on the calling thread. Afterwards nothing that the command started is left; exceptions that
        a provider cannot exclude are named in its own text.

        Raises ExecutionFailed when it cannot be started, ProviderUnavailable when the place has gone, and a refusal
        for its folder or its variables.
        """

    def close(self) -> None:
        """End the commands that run, wait for their end, and refuse new ones."""
