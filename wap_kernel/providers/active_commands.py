"""Track the commands that a provider on this machine runs, and open the folder that each runs in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from wap_kernel.files.contained.handles import LocalFolder
from wap_kernel.files.contained.root import Root
from wap_kernel.model.command import CancelToken
from wap_kernel.model.errors import InvalidArgument, ProviderUnavailable, translate_os_error


class ActiveCommands:
    """The commands of one provider that run now."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: list[CancelToken] = []
        self._closed = False

    @contextmanager
    def track(self, cancel: CancelToken) -> Iterator[None]:
        """Track a command for the block; `cancel` ends it. Raises once the provider is closed."""
        with self._changed:
            if self._closed:
                raise ProviderUnavailable("The workspace is closed; it starts no further commands.")
            self._running.append(cancel)
        try:
            yield
        finally:
            with self._changed:
                self._running.remove(cancel)
                self._changed.notify_all()

    def close(self) -> None:
        """Cancel the commands that run, wait for their end, and refuse new ones."""
        with self._changed:
            self._closed = True
            for cancel in self._running:
                cancel.request()
            self._changed.wait_for(lambda: not self._running)


def open_folder(files: Root, path: str) -> LocalFolder:
    """Open the folder that a command runs in."""
    try:
        try:
            return files.open_folder(path)
        except NotADirectoryError:
            files.stat(path)  # raises the same error if a folder on the way is a file
            raise InvalidArgument(
                f"Not a folder: {path}",
                hint="Name the folder to run in; files are named in the command itself.",
                path=path,
            ) from None
    except OSError as error:
        raise translate_os_error(error, path) from error
