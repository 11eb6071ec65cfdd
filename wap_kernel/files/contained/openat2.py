"""Call openat2(2) by ctypes: open a path below a descriptor that the kernel refuses to leave."""

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
    """Return a function (folder, path, flags) -> descriptor, or None if the kernel or a seccomp filter has no openat2.

    The function refuses every link, also one that stays inside, so the path that it opened is exactly the path that it
    was called with and needs no second check. A path with links takes the component walk, which alone reads links.
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
        name = os.fsencode(path)
        if b"\0" in name:  # the kernel would see a shorter path than the guard did
            raise ValueError("embedded null byte")
        descriptor: int = syscall(_SYS_OPENAT2, folder, name, how, size)
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
