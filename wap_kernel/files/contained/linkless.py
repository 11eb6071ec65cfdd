"""Open and create files in one call each, for paths without links.

The kernel refuses every link on the way (see `openat2.py`), so the path that is written is the path that is reached,
and one check of the guard is enough. Where there may be a link, the result is None, and the caller uses `Root`.
"""

from __future__ import annotations

import errno
import os

from wap_kernel.files.contained import atomic_write
from wap_kernel.files.contained.component_walk import FOLDER_FLAGS, Location
from wap_kernel.files.contained.handles import READ_FLAGS, LocalFile
from wap_kernel.files.contained.openat2 import OpenBeneath
from wap_kernel.files.interface import Guard
from wap_kernel.model.paths import Access, resolve_lexically

_LINKED = (errno.ELOOP, errno.EXDEV, errno.EAGAIN)
"""The errors of the kernel where it meets a link, or a component is renamed meanwhile."""
_FOLDER = FOLDER_FLAGS & ~getattr(os, "O_NOFOLLOW", 0)


class LinklessFiles:
    """The files of a root that no link leads to; they fail as those of `Root` do."""

    def __init__(
        self,
        root: int,
        open_beneath: OpenBeneath,
        guard: Guard,
        journal: atomic_write.Journal,
        step: atomic_write.Step,
    ) -> None:
        self._root = root
        self._open_beneath = open_beneath
        self._guard = guard
        self._journal = journal
        self._step = step

    def open(self, path: str) -> LocalFile | None:
        if ".." in path:
            return None
        real = resolve_lexically(path)
        self._guard.check(real, Access.READ)
        descriptor = self._open(path, READ_FLAGS)
        return None if descriptor is None else LocalFile(descriptor, real)

    def is_free(self, path: str) -> bool:
        """Return whether a file can be created at `path`: its folder exists, and the name is free."""
        location = self._locate(path)
        if location is None:
            return False
        with location:
            try:
                os.stat(location.name, dir_fd=location.fd, follow_symlinks=False)
            except FileNotFoundError:
                return True
            return False

    def stage(self, path: str, data: bytes) -> atomic_write.StagedFile:
        """Write a file under a temporary name; `StagedFile.rename` creates it, then the caller closes its location."""
        location = self._locate(path)
        if location is None:  # a link has appeared since `is_free`
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        try:
            return atomic_write.StagedFile(location, data, None, None, journal=self._journal, step=self._step)
        except BaseException:
            location.close()
            raise

    def _locate(self, path: str) -> Location | None:
        if ".." in path:
            return None
        real = resolve_lexically(path)
        self._guard.check(real, Access.WRITE)
        folder, _, name = real.rpartition("/")
        descriptor = self._open(folder or ".", _FOLDER)
        return None if descriptor is None else Location(descriptor, name, real)

    def _open(self, path: str, flags: int) -> int | None:
        try:
            return self._open_beneath(self._root, path, flags)
        except OSError as error:
            if error.errno in _LINKED:
                return None
            raise
