"""openat2(2) by ctypes: open a path below a descriptor so that the kernel itself refuses to leave it."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08

_SYS_OPENAT2 = 437  # the same number on every Linux architecture

OpenBeneath = Callable[[int, str, int], int]


class _OpenHow(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


def load() -> OpenBeneath | None:
    """A function (folder, path, flags) -> descriptor, or None where the kernel or a seccomp filter has no openat2.

    It refuses every link, also those that stay inside: then the path that was opened is exactly the path that was
    named, which needs no second link_stat. A path with links takes the component walk, the one location that reads links.
    """
    if not sys.platform.startswith("linux"):
        return None
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    size = ctypes.sizeof(_OpenHow)
    resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS
    hows: dict[int, Any] = {}  # the kernel only reads them, so a few serve for ever

    def open_beneath(folder: int, path: str, flags: int) -> int:
        how = hows.get(flags)
        if how is None:
            how = hows[flags] = ctypes.byref(_OpenHow(flags | os.O_CLOEXEC, 0, resolve))
        descriptor: int = syscall(_SYS_OPENAT2, folder, os.fsencode(path), how, size)
        if descriptor < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        return descriptor

    try:
        probe = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.close(open_beneath(probe, ".", os.O_RDONLY | os.O_DIRECTORY))
        finally:
            os.close(probe)
    except OSError:
        return None
    return open_beneath
