"""Control what a new process inherits from the server: the session keyring, priority and open files."""

from __future__ import annotations

import ctypes
import os
import platform
import tempfile
from contextlib import ExitStack
from functools import cache

from wap_kernel.providers.process.supervisor_handle import NICE

_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219}
_JOIN_SESSION_KEYRING = 1


def create_memory_file(stack: ExitStack, data: bytes) -> int:
    """Return a descriptor of a nameless file with `data`, at its beginning: a pipe might be too small."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("options")
    else:  # not in every build of Python
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    stack.callback(os.close, descriptor)
    os.pwrite(descriptor, data, 0)
    return descriptor


def lower_session_priority(init: int) -> None:
    """Lower the priority from outside, like `supervisor.lower_priority`, of the session that `init` leads."""
    try:
        os.setpriority(os.PRIO_PGRP, init, min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICE))
        with open(f"/proc/{init}/autogroup", "wb", buffering=0) as group:
            group.write(b"%d" % NICE)
    except OSError:
        pass  # without autogroups, or set too often: the command goes without


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def leave_keyring() -> None:
    """Give this thread, and so its children, an empty session keyring.

    The kernel stores a login's keys by session, not by namespace. The server's other threads keep their keyring.
    """
    number = _KEYCTL.get(platform.machine())
    if number is not None:
        _libc().syscall(number, _JOIN_SESSION_KEYRING, None)  # refused where there are no keyrings: fine
