"""Changing the mode of what a name stands for, never of what a link points to."""

from __future__ import annotations

import errno
import os
import stat

from wap_kernel.files.contained.component_walk import Place

_WITHOUT_FOLLOWING = os.chmod in os.supports_follow_symlinks
_O_PATH = getattr(os, "O_PATH", 0)


def change_mode(place: Place, mode: int) -> None:
    bits = stat.S_IMODE(mode)
    if _WITHOUT_FOLLOWING:
        os.chmod(place.name, bits, dir_fd=place.fd, follow_symlinks=False)
        return
    # Linux: no such call, and a file that may not be read cannot be opened for fchmod. A descriptor that stands for the
    # name alone is always to be had, and its own entry in /proc names nothing else.
    descriptor = os.open(place.name, _O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.fd)
    try:
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        os.chmod(f"/proc/self/fd/{descriptor}", bits)
    finally:
        os.close(descriptor)
