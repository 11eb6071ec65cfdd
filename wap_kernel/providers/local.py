"""The local provider: the server's own filesystem and processes.

Commands are not confined: they have the rights of the server. What of them can outlive its end, with an effort, is
said in `commands/supervised.py`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

from wap_kernel.commands import environment, running
from wap_kernel.commands.outcome import Cancel, OnChunk, Outcome
from wap_kernel.errors import InvalidArgument, ProviderUnavailable, from_os_error
from wap_kernel.files.handles import LocalFolder
from wap_kernel.files.root import Root
from wap_kernel.providers.base import Command


class LocalProvider:
    """Runs commands beside the files of `root`, which stays the caller's, to be closed after the provider."""

    name = "local"
    confines = False

    def __init__(
        self, root: Root, *, server_environment: Mapping[str, str] | None = None, grace: float = running.GRACE
    ) -> None:
        self.files = root
        self._environment = os.environ if server_environment is None else server_environment
        self._grace = grace
        self._changed = threading.Condition()
        self._running: list[Cancel] = []
        self._closed = False

    def run(self, command: Command, *, on_chunk: OnChunk | None = None, cancel: Cancel | None = None) -> Outcome:
        variables = environment.rebuild(self._environment, command.environment)
        cancel = cancel or Cancel()
        with self._open_folder(command.cwd) as folder:
            self._begin(cancel)
            try:
                return running.run(
                    running.shell(command.command, variables.get("PATH", "")),
                    cwd=folder.fd,
                    environment=variables,
                    timeout=command.timeout,
                    output_limit=command.output_limit,
                    grace=self._grace,
                    on_chunk=on_chunk,
                    cancel=cancel,
                )
            finally:
                self._end(cancel)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            for cancel in self._running:
                cancel.request()
            self._changed.wait_for(lambda: not self._running)

    def _open_folder(self, path: str) -> LocalFolder:
        try:
            try:
                return self.files.open_folder(path)
            except NotADirectoryError:
                self.files.stat(path)  # raises the same if it is a folder on the way that is none
                raise InvalidArgument(
                    f"Not a folder: {path}",
                    hint="Name the folder to run in; files are named in the command itself.",
                    path=path,
                ) from None
        except OSError as error:
            raise from_os_error(error, path) from error

    def _begin(self, cancel: Cancel) -> None:
        with self._changed:
            if self._closed:
                raise ProviderUnavailable("The workspace is closed; it starts no further commands.")
            self._running.append(cancel)

    def _end(self, cancel: Cancel) -> None:
        with self._changed:
            self._running.remove(cancel)
            self._changed.notify_all()
