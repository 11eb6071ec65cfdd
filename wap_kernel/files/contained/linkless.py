"""Direct: files to which no link leads, opened in one call each.

The kernel refuses every link on the way (see `openat2.py`), so the path as it is written is the path that is reached,
and one question to the guard is enough. Where a link may be, the answer is None, and `Root` knows how to go on.
"""

from __future__ import annotations

import errno
import os

from wap_kernel.files.contained import atomic_write
from wap_kernel.files.contained.component_walk import FOLDER_FLAGS, Place
from wap_kernel.files.contained.handles import READ_FLAGS, LocalFile, look_of
from wap_kernel.files.contained.openat2 import OpenBeneath
from wap_kernel.files.interface import Guard, Look
from wap_kernel.model.path_access import Access
from wap_kernel.model.paths import resolve_lexically

_LINKED = (errno.ELOOP, errno.EXDEV, errno.EAGAIN)
"""What the kernel says where it meets a link, or something is renamed meanwhile."""
_FOLDER = FOLDER_FLAGS & ~getattr(os, "O_NOFOLLOW", 0)


class Direct:
    """Failures are as those of `Root`."""

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
        descriptor = self._opened(path, READ_FLAGS)
        return None if descriptor is None else LocalFile(descriptor, real)

    def is_free(self, path: str) -> bool:
        """Whether a file can be made at `path`: its folder is there and nothing stands in it under this name."""
        place = self._place(path)
        if place is None:
            return False
        with place:
            try:
                os.stat(place.name, dir_fd=place.fd, follow_symlinks=False)
            except FileNotFoundError:
                return True
            return False

    def create(self, path: str, data: bytes, unsettled: atomic_write.Unsettled) -> Look:
        """A new file, by the write protocol; `unsettled` has to be settled before anybody is told of it."""
        place = self._place(path)
        if place is None:  # a link has come in the way since somebody looked
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        with place:
            made = atomic_write.replace(
                place, data, exclusive=True, mode=None, journal=self._journal, step=self._step, unsettled=unsettled
            )
            return look_of(made)

    def _place(self, path: str) -> Place | None:
        if ".." in path:
            return None
        real = resolve_lexically(path)
        self._guard.check(real, Access.WRITE)
        folder, _, name = real.rpartition("/")
        descriptor = self._opened(folder or ".", _FOLDER)
        return None if descriptor is None else Place(descriptor, name, real)

    def _opened(self, path: str, flags: int) -> int | None:
        try:
            return self._open_beneath(self._root, path, flags)
        except OSError as error:
            if error.errno in _LINKED:
                return None
            raise
