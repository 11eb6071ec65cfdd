"""Restrict a thread with Landlock to the files below some open descriptors, for good.

The processes that the thread starts inherit the restriction, so a child that opens paths by itself cannot be led out
of the root by a rename. Only filesystem rights are restricted, and only those the kernel knows (its "ABI" version).
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture but alpha
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS = 38

EXECUTE = 1 << 0
READ_FILE = 1 << 2
READ_FOLDER = 1 << 3

_RIGHTS_OF_ABI = {1: 13}  # the number of rights of files and folders that an ABI knows
# Later ABIs also know truncation by path and ioctl on devices. rg does neither, and they are not cheap: at every open
# the kernel would search for a rule about them up to the top of the file system.
_RIGHTS_OF_LATER_ABI = 14


class _RulesetAttr(ctypes.Structure):
    _fields_ = [("handled_access_fs", ctypes.c_uint64)]


class _PathBeneathAttr(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32)]


def read_abi() -> int:
    """Return the kernel's version of Landlock, 0 where there is none or it is switched off."""
    if sys.platform != "linux":
        return 0
    version: int = _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_CREATE_RULESET_VERSION))
    return max(0, version)


def restrict_thread(rules: Iterable[tuple[int, int]]) -> None:
    """Leave the calling thread, and the processes it starts, only the given rights below each descriptor.

    There is no way back. Raises OSError if the kernel refuses; the thread must then start no process.
    """
    libc = _libc()
    handled = (1 << _RIGHTS_OF_ABI.get(read_abi(), _RIGHTS_OF_LATER_ABI)) - 1
    attr = _RulesetAttr(handled)
    size = ctypes.c_size_t(ctypes.sizeof(attr))
    ruleset = _check(libc.syscall(_CREATE_RULESET, ctypes.byref(attr), size, ctypes.c_uint32(0)))
    try:
        for fd, rights in rules:
            rule = _PathBeneathAttr(rights, fd)
            _check(libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), ctypes.c_uint32(0)))
        _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0))))
        _check(libc.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)))
    finally:
        os.close(ruleset)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
