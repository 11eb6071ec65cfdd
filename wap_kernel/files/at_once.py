"""Reading what the kernel has in memory, without ever waiting: for the event loop itself.

To get to a thread and back takes longer than to read a small file. So the kernel is asked to fail rather than to wait:
for a name that it does not know by heart (`RESOLVE_CACHED`), for a page that it does not hold (`RWF_NOWAIT`), and at a
mount (`RESOLVE_NO_XDEV`). What fails is left to a thread, which waits. Only on file systems where to look at an open
file asks nobody else.
"""

from __future__ import annotations

import errno
import os
import sys

from wap_kernel.files.contained import openat2
from wap_kernel.files.contained.handles import READ_FLAGS, LocalFile
from wap_kernel.files.filesystem_type import is_network, is_prompt

MAX_SIZE = 32 * 1024
"""Bytes of a file that is read at once: to hash and to encode more takes too long where nothing goes on meanwhile."""
_TOP_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_PATH", "O_DIRECTORY", "O_CLOEXEC"))


class HeldFile(LocalFile):
    """A file that is read as far as it is in memory, which must be all of it."""

    def read(self, size: int = -1) -> bytes:
        """All of it, whatever `size`, or a BlockingIOError."""
        if sys.platform != "linux":  # for mypy, which knows what other systems have
            raise BlockingIOError
        buffer = bytearray(self.stat.size + 1)
        count = os.preadv(self.fd, [buffer], 0, os.RWF_NOWAIT)
        if count != self.stat.size:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return bytes(memoryview(buffer)[:count])


class AtOnce:
    """The files below the open folder `folder`, and others of this machine."""

    def __init__(self, folder: int, open_cached: openat2.OpenBeneath) -> None:
        self._folder = folder
        self.open_cached = open_cached

    def content(self, path: str) -> bytes | None:
        """None: there is no such file. Raises an OSError or WapError where nobody can tell without waiting."""
        return self._content(self._folder, path)

    def content_elsewhere(self, path: str) -> bytes | None:
        """By its absolute path."""
        top = os.open("/", _TOP_FLAGS)
        try:
            return self._content(top, path.lstrip("/"))
        finally:
            os.close(top)

    def _content(self, folder: int, path: str) -> bytes | None:
        try:
            descriptor = self.open_cached(folder, path, READ_FLAGS)
        except (FileNotFoundError, NotADirectoryError):
            return None
        with HeldFile(descriptor, path) as file:
            if file.stat.size > MAX_SIZE:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            return file.read()


def load(folder: int, path: str) -> AtOnce | None:
    """For the open folder that stands at `path`; None where there is no way not to wait."""
    if not hasattr(os, "RWF_NOWAIT") or not is_prompt(path) or is_network("/"):
        return None
    open_cached = openat2.load(cached=True)
    return None if open_cached is None else AtOnce(folder, open_cached)
