"""Notice changes in folders, by the kernel's inotify."""

from __future__ import annotations

import ctypes
import os
import select
from functools import cache

_CREATED, _MOVED_TO = 0x100, 0x80
_ONLY_FOLDERS = 0x01000000
_CLOEXEC, _NONBLOCK = os.O_CLOEXEC, os.O_NONBLOCK
_EVENTS_BYTES = 64 * 1024


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


class FolderWatch:
    """A set of folders in which new names are noticed. Which names they are, the caller looks up."""

    def __init__(self) -> None:
        self._fd = int(_libc().inotify_init1(_CLOEXEC | _NONBLOCK))
        if self._fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self._waker, self._woken = os.pipe2(_CLOEXEC | _NONBLOCK)

    def add(self, folder: int) -> None:
        """Watch the folder that this descriptor has open; one that is watched already is no error."""
        path = f"/proc/self/fd/{folder}".encode()
        _libc().inotify_add_watch(self._fd, path, _CREATED | _MOVED_TO | _ONLY_FOLDERS)

    def wait(self, seconds: float) -> None:
        """Wait until a name has appeared in one of the folders, `wake` was called, or the time is over."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._waker, select.POLLIN)
        poll.poll(seconds * 1000)
        for descriptor in (self._fd, self._waker):
            try:
                while os.read(descriptor, _EVENTS_BYTES):
                    pass
            except BlockingIOError:
                continue

    def wake(self) -> None:
        os.write(self._woken, b"!")

    def close(self) -> None:
        for descriptor in (self._fd, self._waker, self._woken):
            os.close(descriptor)
