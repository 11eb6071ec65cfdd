"""The provider that stands in for one that was named and cannot start: files are served, every command is refused.

Whoever asked for a sandbox does not want commands without one.
"""

from __future__ import annotations

from typing import NoReturn

from wap_kernel.files.contained.root import Root
from wap_kernel.model.command import CancelToken, Command, CommandOutcome, OnChunk
from wap_kernel.model.errors import ProviderUnavailable


class UnavailableProvider:
    confines = False

    def __init__(self, name: str, root: Root, reason: ProviderUnavailable) -> None:
        self.name = name
        self.files = root
        self._reason = reason

    def run(
        self, command: Command, *, on_chunk: OnChunk | None = None, cancel: CancelToken | None = None
    ) -> CommandOutcome:
        self.refuse()

    def refuse(self) -> NoReturn:
        raise ProviderUnavailable(self._reason.message, hint=self._reason.hint, **self._reason.details)

    def close(self) -> None:
        """Nothing runs."""
