"""Define the interface of a provider: the files of a workspace, and the commands that run on them.

The providers local, bubblewrap and gvisor share the notebook's filesystem and differ in how they confine a command;
other providers bring a filesystem of their own. The engine knows nothing of a provider but this interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from wap_kernel.files.interface import Files
from wap_kernel.model.command import CancelToken, Command, CommandOutcome, OnChunk

if TYPE_CHECKING:
    from wap_kernel.providers.layers.layer import LayerStore


@dataclass(frozen=True)
class ResourceLimits:
    """Limits for one command and everything that it starts. None: unlimited."""

    processes: int | None = 512
    memory: int | None = 4 * 1024**3
    file_size: int | None = 4 * 1024**3


@dataclass(frozen=True)
class Probe:
    """A provider's findings about this machine."""

    name: str
    works: bool
    detail: str
    """The version and the platform, or the reason why the provider does not work."""
    fix: str | None = None
    """The command or the setting that would make it work."""
    promises: Mapping[str, bool] = field(default_factory=dict)
    """The promises that the provider keeps on this machine, or not: `files outside`, `network`, `memory` ..."""


class Provider(Protocol):
    """The files of a workspace and the commands that run on them."""

    @property
    def name(self) -> str: ...
    @property
    def confines(self) -> bool:
        """Return whether a command sees and changes nothing but the workspace."""

    @property
    def checks_while_starting(self) -> bool:
        """Return whether the provider calls `Command.check` while it starts the sandbox, before the command runs."""

    @property
    def files(self) -> Files: ...
    @property
    def layers(self) -> LayerStore | None:
        """Return the layers of the workspace, None where commands can only write into the workspace itself."""

    def run(
        self, command: Command, *, on_chunk: OnChunk | None = None, cancel: CancelToken | None = None
    ) -> CommandOutcome:
        """Run a command to its end, on the calling thread.

        Afterwards nothing that the command started is left; a provider that cannot guarantee this documents the
        exceptions. Raises ExecutionFailed when the command cannot be started, ProviderUnavailable when the provider
        has gone, and PermissionDenied or InvalidArgument for its folder or its variables.
        """

    def close(self) -> None:
        """Cancel the commands that run, wait for their end, and refuse new ones."""
