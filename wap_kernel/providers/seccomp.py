"""Build a system call filter for what a network namespace does not cover: sockets from a virtual machine to its host.

The program is classic BPF, as the kernel takes it (`man 2 seccomp`). It lets every call pass but `socket` with
AF_VSOCK, which then does not exist, and io_uring, which makes sockets past any filter. Pure.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

AF_VSOCK = 40
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_LOAD, _AND, _EQUAL, _RETURN = 0x20, 0x54, 0x15, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Offsets in `struct seccomp_data`; that of the argument is its low half on little-endian machines."""
_IO_URING_SETUP = 425
"""The number of the call, which is the same on every architecture."""
_X32 = 0x40000000
"""The bit that marks the calls of x32 programs on x86-64, which have the same numbers otherwise."""


@dataclass(frozen=True)
class _SystemCalls:
    """The call numbers of one kind of program."""

    architecture: int
    socket: int
    socketcall: int | None = None
    """The call that stands for many, with arguments that a filter cannot see. C libraries do without it."""


_X86_64 = (_SystemCalls(0xC000003E, 41), _SystemCalls(0x40000003, 359, 102))
_AARCH64 = (_SystemCalls(0xC00000B7, 198), _SystemCalls(0x40000028, 281))
_MACHINES: Mapping[str, tuple[_SystemCalls, ...]] = {
    "x86_64": _X86_64,
    "amd64": _X86_64,
    "aarch64": _AARCH64,
    "arm64": _AARCH64,
}


def build_program(machine: str) -> bytes | None:
    """Return the filter for a machine, named as by `os.uname`, or None if the machine is unknown."""
    kinds = _MACHINES.get(machine)
    if kinds is None:
        return None
    return b"".join(struct.pack("=HBBI", *step) for step in _steps(kinds))


def _steps(kinds: tuple[_SystemCalls, ...]) -> Iterator[tuple[int, int, int, int]]:
    """Yield instructions: operation, steps to skip if it holds, steps to skip if it does not, operand."""
    yield _LOAD, 0, 0, _ARCHITECTURE
    for calls in kinds:
        checks = list(_checks(calls))
        yield _EQUAL, 0, len(checks), calls.architecture
        yield from checks
    yield _RETURN, 0, 0, _ALLOW


def _checks(calls: _SystemCalls) -> Iterator[tuple[int, int, int, int]]:
    yield _LOAD, 0, 0, _NUMBER
    yield _AND, 0, 0, ~_X32 & 0xFFFFFFFF
    for number in filter(None, (_IO_URING_SETUP, calls.socketcall)):
        yield _EQUAL, 0, 1, number
        yield _RETURN, 0, 0, _ERRNO | errno.ENOSYS
    yield _EQUAL, 0, 3, calls.socket
    yield _LOAD, 0, 0, _FIRST_ARGUMENT
    yield _EQUAL, 0, 1, AF_VSOCK
    yield _RETURN, 0, 0, _ERRNO | errno.EAFNOSUPPORT
    yield _RETURN, 0, 0, _ALLOW
