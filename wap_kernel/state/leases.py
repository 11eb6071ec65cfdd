"""Hold a lease that shows that a process is alive, and remove the temporary files of dead processes.

A process holds `leases/<workspace>/<id>/lock` with flock for its life, so the kernel releases it when the process dies.
Its folder has one symbolic link per temporary file in use: named like the file, pointing at its path below the root.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from wap_kernel.model.errors import ProviderUnavailable, WapError
from wap_kernel.state.directory import make_unusable_error, open_lock
from wap_kernel.state.file_lock import lock_within, try_lock

LOCK_TIMEOUT_SECONDS = 10.0


class Lease:
    """This process's lease on a workspace; a `Journal` for temporary files."""

    def __init__(self, state_dir: str, workspace: str) -> None:
        self._leases = os.path.join(state_dir, "leases", workspace)
        self.id = secrets.token_hex(8)
        self._folder = os.path.join(self._leases, self.id)
        try:
            os.makedirs(self._leases, mode=0o700, exist_ok=True)
            with _mutex(self._leases):  # no process may take the lease for dead between mkdir and the lock
                os.mkdir(self._folder, 0o700)
                self._lock = open_lock(os.path.join(self._folder, "lock"))
                try_lock(self._lock)
        except OSError as error:
            raise make_unusable_error(error) from error

    def is_alive(self, identifier: str) -> bool:
        """Return whether the process with this lease on the same workspace lives."""
        if identifier == self.id:
            return True
        with _mutex(self._leases):
            return not _is_dead(os.path.join(self._leases, os.path.basename(identifier)))

    def note(self, name: str, path: str) -> None:
        try:
            os.symlink(path, os.path.join(self._folder, name))
        except OSError as error:
            raise make_unusable_error(error) from error

    def forget(self, name: str) -> None:
        """Remove the note of a file that has its final name; failures are ignored, for a note too many does no harm."""
        with suppress(OSError):
            os.unlink(os.path.join(self._folder, name))

    def remove_leftovers(self, remove: Callable[[str, str], bool]) -> None:
        """Call `remove(name, path)` for every temporary file that a dead process noted; failures are tried again."""
        with _mutex(self._leases):
            for entry in os.listdir(self._leases):
                folder = os.path.join(self._leases, entry)
                if folder != self._folder and os.path.isdir(folder) and _is_dead(folder):
                    names = [name for name in os.listdir(folder) if name != "lock"]
                    removed = [remove(name, os.readlink(os.path.join(folder, name))) for name in names]
                    if all(removed):
                        shutil.rmtree(folder)

    def close(self) -> None:
        """Release the lease. Files that cannot be removed are a dead lease, which the next start removes."""
        try:
            with suppress(OSError, WapError), _mutex(self._leases):
                shutil.rmtree(self._folder)
        finally:
            os.close(self._lock)


def _is_dead(folder: str) -> bool:
    try:
        descriptor = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        return try_lock(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _mutex(folder: str) -> Iterator[None]:
    descriptor = open_lock(os.path.join(folder, ".mutex"))
    try:
        if not lock_within(descriptor, LOCK_TIMEOUT_SECONDS):
            raise ProviderUnavailable(
                "Another process of this workspace does not release its lock on the state.",
                hint="If a server on the same folder is stopped (Ctrl-Z), end it.",
            )
        yield
    finally:
        os.close(descriptor)
