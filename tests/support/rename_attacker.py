"""The attacker of the race tests: another process that exchanges two paths as fast as it can."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROGRAM = """
    import ctypes, os, sys
    AT_FDCWD, RENAME_EXCHANGE = -100, 2
    libc = ctypes.CDLL(None, use_errno=True)
    one, other = (os.fsencode(path) for path in sys.argv[1:3])
    print("ready", flush=True)
    while os.getppid() == int(sys.argv[3]):
        for _ in range(1000):
            libc.renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE)
"""


@contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    """Within the block the two are exchanged all the time. Linux only."""
    command = [sys.executable, "-c", textwrap.dedent(_PROGRAM), str(one), str(other), str(os.getpid())]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            yield
        finally:
            process.kill()
