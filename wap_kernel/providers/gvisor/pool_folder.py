"""A private folder for the files of gVisor sandboxes, which the next server removes if this one is killed."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import tempfile
from contextlib import ExitStack

from wap_kernel.model.errors import ProviderUnavailable
from wap_kernel.model.paths import relative_to
from wap_kernel.providers.gvisor.sandbox import build_runsc_argv, run_runsc
from wap_kernel.state.file_lock import try_lock

_PREFIX = "wap-gvisor-"
_PARENTS = ("/tmp", "/var/tmp", "/dev/shm")


class PoolFolder:
    """A private folder for the sandboxes' own files, with a lock: any server may remove it once the lock is free."""

    def __init__(self, program: str, parent: str) -> None:
        _remove_stale_folders(program, parent)
        new = tempfile.mkdtemp(prefix=".wap-gvisor-", dir=parent)
        self._lock_stack = ExitStack()
        lock = os.open(os.path.join(new, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._lock_stack.callback(os.close, lock)
        try_lock(lock)
        self.path = os.path.join(parent, _PREFIX + secrets.token_hex(8))
        os.rename(new, self.path)  # only now: under the name that other servers scan for, it is locked from the start

    def make_folder(self) -> str:
        path = os.path.join(self.path, secrets.token_hex(4))
        try:
            os.mkdir(path, 0o700)
        except OSError as error:
            raise ProviderUnavailable(
                f"The folder for the files of a sandbox cannot be created: {error.strerror}.",
                hint="Free some space in the folder for temporary files, and restart the server if it was cleared.",
            ) from error
        return path

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock_stack.close()


def _remove_stale_folders(program: str, parent: str) -> None:
    """Remove the folders of servers that were killed. Their sandboxes have ended with them."""
    with os.scandir(parent) as entries:
        folders = [entry for entry in entries if entry.name.startswith(_PREFIX)]
    for folder in folders:
        try:
            if folder.is_symlink() or folder.stat(follow_symlinks=False).st_uid != os.geteuid():
                continue
            lock = os.open(os.path.join(folder.path, "lock"), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if try_lock(lock):
                _delete_sandboxes(program, folder.path)
                shutil.rmtree(folder.path, ignore_errors=True)
        finally:
            os.close(lock)


def _delete_sandboxes(program: str, home: str) -> None:
    for name in os.listdir(home):
        state = os.path.join(home, name, "state")
        try:
            ids = {entry.partition("_sandbox:")[0] for entry in os.listdir(state)}
            for one in ids:
                run_runsc([*build_runsc_argv(program, state), "delete", "--force", one])
        except (OSError, subprocess.SubprocessError):
            continue


def find_parent(root: str) -> str:
    """Return a folder for temporary files outside of the workspace, whose files differ where runsc runs."""
    for parent in (tempfile.gettempdir(), *_PARENTS):
        real = os.path.realpath(parent)
        if relative_to(real, root) is None and os.path.isdir(real) and os.access(real, os.W_OK | os.X_OK):
            return real
    raise ProviderUnavailable(
        f"No folder for temporary files lies outside of the workspace {root}.",
        hint="Set TMPDIR to one, or serve a smaller folder.",
    )
