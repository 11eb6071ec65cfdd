"""A system call filter for what a network namespace does not cover: sockets between a virtual machine and its host.

The program is one of classic BPF, as the kernel takes it (`man 2 seccomp`). It lets everything pass but `socket` with
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
"""Where `struct seccomp_data` has them; of an argument the low half, on machines that have that first."""
_IO_URING_SETUP = 425
"""The same everywhere."""
_X32 = 0x40000000
"""The bit by which x86-64 tells the calls of a third kind of program, which have the same numbers otherwise."""


@dataclass(frozen=True)
class _Calls:
    """Of one kind of program."""

    architecture: int
    socket: int
    socketcall: int | None = None
    """The call that stands for many, with arguments that a filter cannot see. C libraries have others."""


_X86_64 = (_Calls(0xC000003E, 41), _Calls(0x40000003, 359, 102))
_AARCH64 = (_Calls(0xC00000B7, 198), _Calls(0x40000028, 281))
_MACHINES: Mapping[str, tuple[_Calls, ...]] = {
    "x86_64": _X86_64,
    "amd64": _X86_64,
    "aarch64": _AARCH64,
    "arm64": _AARCH64,
}


def program(machine: str) -> bytes | None:
    """For a machine as `os.uname` calls it; None: none is known for it."""
    kinds = _MACHINES.get(machine)
    if kinds is None:
        return None
    return b"".join(struct.pack("=HBBI", *step) for step in _steps(kinds))


def _steps(kinds: tuple[_Calls, ...]) -> Iterator[tuple[int, int, int, int]]:
    """Operation, steps to skip if it is so, steps to skip if it is not, operand."""
    yield _LOAD, 0, 0, _ARCHITECTURE
    for calls in kinds:
        checks = list(_checks(calls))
        yield _EQUAL, 0, len(checks), calls.architecture
        yield from checks
    yield _RETURN, 0, 0, _ALLOW


def _checks(calls: _Calls) -> Iterator[tuple[int, int, int, int]]:
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
