"""The filter: what it says for every kind of program, and in a real sandbox."""

from __future__ import annotations

import errno
import struct
import sys

import pytest

from tests.support.provider_workspace import MakeScene
from wap_kernel.providers import seccomp

ALLOWED = 0x7FFF0000


def verdict(program: bytes, architecture: int, number: int, first: int) -> int:
    """Return what the kernel would do with a call, by interpreting the four operations of the program."""
    data = struct.pack("=IIQQ", number, architecture, 0, first)
    steps = list(struct.iter_unpack("=HBBI", program))
    at = value = 0
    while True:
        operation, if_so, if_not, operand = steps[at]
        at += 1
        if operation == 0x20:
            value = struct.unpack_from("=I", data, operand)[0]
        elif operation == 0x54:
            value &= operand
        elif operation == 0x15:
            at += if_so if value == operand else if_not
        else:
            assert operation == 0x06
            return int(operand)


@pytest.mark.parametrize(
    ("machine", "architecture", "number"),
    [
        ("x86_64", 0xC000003E, 41),
        ("x86_64", 0xC000003E, 0x40000000 | 41),
        ("x86_64", 0x40000003, 359),
        ("aarch64", 0xC00000B7, 198),
        ("aarch64", 0x40000028, 281),
    ],
)
def test_only_sockets_to_the_host_are_refused(machine: str, architecture: int, number: int) -> None:
    program = seccomp.build_program(machine)
    assert program is not None
    assert verdict(program, architecture, number, 40) == 0x00050000 | errno.EAFNOSUPPORT
    for family in (1, 2, 10, 16, 39, 41):
        assert verdict(program, architecture, number, family) == ALLOWED
    assert verdict(program, architecture, 425, 0) == 0x00050000 | errno.ENOSYS, "io_uring makes sockets too"
    for other in (0, 1, number + 1, 500):
        assert verdict(program, architecture, other, 40) == ALLOWED
    assert verdict(program, 0xC0000015, number, 40) == ALLOWED, "of another machine"


def test_a_call_that_cannot_be_seen_through_does_not_exist() -> None:
    program = seccomp.build_program("x86_64")
    assert program is not None and verdict(program, 0x40000003, 102, 0) == 0x00050000 | errno.ENOSYS
    assert seccomp.build_program("riscv64") is None


SCRIPT = """
import socket
for family in (socket.AF_INET, socket.AF_UNIX, 40):
    try:
        socket.socket(family, socket.SOCK_STREAM).close()
        print("made")
    except OSError as error:
        print(error.errno)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
@pytest.mark.parametrize("network", [False, True])
def test_in_a_sandbox(make_scene: MakeScene, network: bool) -> None:
    scene = make_scene("bubblewrap")
    done = scene.run(("python3", "-c", SCRIPT), network=network)
    assert done.stdout.split()[:2] == ["made", "made"]
    if not network:
        assert done.stdout.split()[2] == str(errno.EAFNOSUPPORT)
