"""Keep gVisor sandboxes warm for the next command with the same mounts, and end those that stay idle.

A sandbox goes from one command to the next only when the first has left nothing in it, neither a process nor a file
outside the workspace. When one had to be ended, another is started ahead. Not detected: System V shared memory,
semaphores and message queues, of which gVisor has no list; a later command can read them only if it knows of them.

A guard is a mount on the file that was at its path. When a process replaces that file on the host, the kernel removes
the mount, so two sandboxes are equal only as long as the guarded files are.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from wap_kernel.model.errors import ProviderUnavailable, WapError
from wap_kernel.providers.gvisor.sandbox import GvisorSandbox, build_runsc_argv, run_runsc
from wap_kernel.providers.mounts import Mount
from wap_kernel.state.file_lock import try_lock

IDLE_SECONDS = 300.0
"""Seconds that an idle sandbox waits for a command."""
MAX_IDLE_SANDBOXES = 2
"""Idle sandboxes, at most."""
_PREFIX = "wap-gvisor-"


@dataclass(frozen=True)
class SandboxKey:
    """The key of the pool: a command can take any sandbox with an equal key."""

    mounts: tuple[Mount, ...]
    network: bool
    read_identities: tuple[tuple[int, ...], ...]


@dataclass
class _IdleSandbox:
    sandbox: GvisorSandbox
    key: SandboxKey
    since: float = field(default_factory=time.monotonic)


class SandboxPool:
    """The idle sandboxes of one provider. `start` starts a sandbox in a folder of its own."""

    def __init__(
        self, folder: PoolFolder, start: Callable[[SandboxKey, str], GvisorSandbox], *, idle: float = IDLE_SECONDS
    ) -> None:
        self._folder = folder
        self._start = start
        self._idle = idle
        self._lock = threading.Lock()
        self._idle_sandboxes: list[_IdleSandbox] = []
        self._closed = False
        self._starting: list[threading.Thread] = []
        self._timer: threading.Timer | None = None

    def take(self, key: SandboxKey) -> GvisorSandbox:
        """Return a sandbox for a single command, which the caller puts back."""
        return self._take_idle(key) or self._start(key, self._folder.make_folder())

    def put_back(self, sandbox: GvisorSandbox, key: SandboxKey) -> None:
        if sandbox.is_clean():
            self._put(_IdleSandbox(sandbox, key))
        else:
            sandbox.end()
            self._start_ahead(key)

    def close(self) -> None:
        """End all sandboxes. No command may be running."""
        with self._lock:
            self._closed = True
            timer, starting = self._timer, tuple(self._starting)
        for thread in starting:
            thread.join()
        if timer is not None:
            timer.cancel()
            timer.join()
        for idle_sandbox in self._idle_sandboxes:
            idle_sandbox.sandbox.end()
        self._idle_sandboxes.clear()

    def _take_idle(self, key: SandboxKey) -> GvisorSandbox | None:
        with self._lock:
            matching = [
                idle_sandbox
                for idle_sandbox in self._idle_sandboxes
                if idle_sandbox.key == key and idle_sandbox.sandbox.is_alive
            ]
            if not matching:
                return None
            self._idle_sandboxes.remove(matching[-1])
            return matching[-1].sandbox

    def _put(self, idle_sandbox: _IdleSandbox) -> None:
        with self._lock:
            surplus = [idle_sandbox] if self._closed else []
            if not self._closed:
                self._idle_sandboxes.append(idle_sandbox)
                surplus = self._idle_sandboxes[:-MAX_IDLE_SANDBOXES]
                del self._idle_sandboxes[:-MAX_IDLE_SANDBOXES]
                self._start_timer()
        for idle_sandbox in surplus:
            idle_sandbox.sandbox.end()

    def _start_ahead(self, key: SandboxKey) -> None:
        with self._lock:
            if self._closed or any(idle_sandbox.key == key for idle_sandbox in self._idle_sandboxes):
                return
            thread = threading.Thread(target=self._start_one, args=(key,), name="wap-gvisor-start", daemon=True)
            thread.start()  # under the lock: `close` joins every thread of the list
            self._starting.append(thread)

    def _start_one(self, key: SandboxKey) -> None:
        try:
            self._put(_IdleSandbox(self._start(key, self._folder.make_folder()), key))
        except (WapError, OSError, subprocess.SubprocessError):
            pass  # the next command tries again and gets the error
        finally:
            with self._lock:
                self._starting.remove(threading.current_thread())

    # -- the end of idle sandboxes

    def _start_timer(self) -> None:
        """Start the timer; the caller holds the lock."""
        if self._timer is None and self._idle_sandboxes and not self._closed:
            self._timer = threading.Timer(self._idle, self._expire)
            self._timer.daemon = True
            self._timer.start()

    def _expire(self) -> None:
        with self._lock:
            limit = time.monotonic() - self._idle
            expired = [idle_sandbox for idle_sandbox in self._idle_sandboxes if idle_sandbox.since <= limit]
            self._idle_sandboxes = [idle_sandbox for idle_sandbox in self._idle_sandboxes if idle_sandbox.since > limit]
            self._timer = None
            self._start_timer()
        for idle_sandbox in expired:
            idle_sandbox.sandbox.end()


class PoolFolder:
    """A private folder for the sandboxes' own files, with a lock: any server may remove it once the lock is free."""

    def __init__(self, program: str, parent: str | None = None) -> None:
        parent = os.path.realpath(parent or tempfile.gettempdir())
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


def read_identities(mounts: tuple[Mount, ...], root: str) -> tuple[tuple[int, ...], ...]:
    """Return the identities of the files mounted in the workspace, with the ctime: a new file may reuse an inode."""
    identities: list[tuple[int, ...]] = []
    for mount in mounts:
        if not mount.target.startswith(root.rstrip("/") + "/"):
            continue
        try:
            status = os.lstat(mount.target)
        except OSError:
            continue
        is_file = not stat.S_ISDIR(status.st_mode)
        identities.append((status.st_dev, status.st_ino, *((status.st_ctime_ns,) if is_file else ())))
    return tuple(identities)


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
