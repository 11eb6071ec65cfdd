"""Serve files and refuse every command, in place of a configured provider that cannot start.

An administrator who configured a sandbox does not want commands without one.
"""

from __future__ import annotations

from typing import NoReturn

from wap_kernel.files.contained.root import Root
from wap_kernel.model.command import CancelToken, Command, CommandOutcome, OnChunk
from wap_kernel.model.errors import ProviderUnavailable


class UnavailableProvider:
    """The stand-in for the provider `name`, which cannot start for `reason`."""

    confines = False
    checks_while_starting = False
    layers = None

    def __init__(self, name: str, root: Root, reason: ProviderUnavailable) -> None:
        self.name = name
        self.files = root
        self._reason = reason

    def run(
        self, command: Command, *, on_chunk: OnChunk | None = None, cancel: CancelToken | None = None
    ) -> CommandOutcome:
        self.refuse()

    def refuse(self) -> NoReturn:
        """Raise the reason why the provider cannot start."""
        raise ProviderUnavailable(self._reason.message, hint=self._reason.hint, **self._reason.details)

    def close(self) -> None:
        """Do nothing: no command runs."""
