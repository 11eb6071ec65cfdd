"""A lease says that a process is alive; what a dead one left behind is cleaned up at the next start.

`leases/<id>/lock` is held with flock for the life of the process, so the kernel gives it back at any death. Beside it
stands one symbolic link per temporary file under way: named like the file, pointing at its path below the root.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Lease:
    """This process's lease; a `Journal` for temporary files."""

    def __init__(self, state_dir: str) -> None:
        self._leases = os.path.join(state_dir, "leases")
        self._folder = os.path.join(self._leases, secrets.token_hex(8))
        with _mutex(self._leases):  # nobody may take a lease for dead between mkdir and flock
            os.mkdir(self._folder, 0o700)
            self._lock = os.open(os.path.join(self._folder, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def note(self, name: str, path: str) -> None:
        os.symlink(path, os.path.join(self._folder, name))

    def forget(self, name: str) -> None:
        os.unlink(os.path.join(self._folder, name))

    def clean_up_after_the_dead(self, remove: Callable[[str, str], None]) -> None:
        """Call `remove(name, path)` for every temporary file that a dead process noted."""
        with _mutex(self._leases):
            for entry in os.listdir(self._leases):
                folder = os.path.join(self._leases, entry)
                if folder == self._folder or not os.path.isdir(folder):
                    continue
                if not _is_dead(folder):
                    continue
                for name in os.listdir(folder):
                    if name != "lock":
                        remove(name, os.readlink(os.path.join(folder, name)))
                shutil.rmtree(folder)

    def close(self) -> None:
        with _mutex(self._leases):
            shutil.rmtree(self._folder)
            os.close(self._lock)


def _is_dead(folder: str) -> bool:
    try:
        descriptor = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    finally:
        os.close(descriptor)
    return True


@contextmanager
def _mutex(folder: str) -> Iterator[None]:
    descriptor = os.open(os.path.join(folder, ".mutex"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
