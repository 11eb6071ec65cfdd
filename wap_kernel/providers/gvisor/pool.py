"""Warm gVisor sandboxes: kept for the next command that wants the same, ended when nobody comes.

A sandbox goes from one command to the next only when the first has left nothing in it, neither a process nor a file
outside the workspace. When one had to be ended, another is started ahead. Not seen: System V shared memory, semaphores
and message queues, of which gVisor keeps no list; they hold data that a later command would have to ask for.

A guard is a mount on a file as it was found. When somebody replaces that file on the host, the kernel takes the mount
away, so a sandbox is the same only as long as what it guards is.
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
from wap_kernel.providers.gvisor.sandbox import Sandbox, command_line, run_to_its_end
from wap_kernel.providers.mounts import Mount
from wap_kernel.state.file_lock import try_lock

IDLE = 300.0
"""Seconds that a sandbox waits for a command."""
SPARE = 2
"""So many wait at most."""
_PREFIX = "wap-gvisor-"


@dataclass(frozen=True)
class Wanted:
    """What makes two sandboxes alike."""

    mounts: tuple[Mount, ...]
    network: bool
    identities: tuple[tuple[int, ...], ...]


@dataclass
class _Waiting:
    sandbox: Sandbox
    wanted: Wanted
    since: float = field(default_factory=time.monotonic)


class Pool:
    """`start` makes a sandbox in a folder of its own."""

    def __init__(self, home: Home, start: Callable[[Wanted, str], Sandbox], *, idle: float = IDLE) -> None:
        self._home = home
        self._start = start
        self._idle = idle
        self._lock = threading.Lock()
        self._waiting: list[_Waiting] = []
        self._closed = False
        self._starting: list[threading.Thread] = []
        self._timer: threading.Timer | None = None

    def take(self, wanted: Wanted) -> Sandbox:
        """One for a single command, to be given back."""
        return self._find(wanted) or self._start(wanted, self._home.make_folder())

    def give_back(self, sandbox: Sandbox, wanted: Wanted) -> None:
        if sandbox.is_untouched():
            self._put(_Waiting(sandbox, wanted))
        else:
            sandbox.end()
            self._start_ahead(wanted)

    def close(self) -> None:
        """No command may be running."""
        with self._lock:
            self._closed = True
            timer, starting = self._timer, tuple(self._starting)
        for thread in starting:
            thread.join()
        if timer is not None:
            timer.cancel()
            timer.join()
        for waiting in self._waiting:
            waiting.sandbox.end()
        self._waiting.clear()

    def _find(self, wanted: Wanted) -> Sandbox | None:
        with self._lock:
            fitting = [waiting for waiting in self._waiting if waiting.wanted == wanted and waiting.sandbox.is_alive]
            if not fitting:
                return None
            self._waiting.remove(fitting[-1])
            return fitting[-1].sandbox

    def _put(self, waiting: _Waiting) -> None:
        with self._lock:
            too_many = [waiting] if self._closed else []
            if not self._closed:
                self._waiting.append(waiting)
                too_many = self._waiting[:-SPARE]
                del self._waiting[:-SPARE]
                self._watch()
        for one in too_many:
            one.sandbox.end()

    def _start_ahead(self, wanted: Wanted) -> None:
        with self._lock:
            if self._closed or any(waiting.wanted == wanted for waiting in self._waiting):
                return
            thread = threading.Thread(target=self._start_one, args=(wanted,), name="wap-gvisor-start", daemon=True)
            thread.start()  # with the lock held: `close` joins whatever it finds in the list
            self._starting.append(thread)

    def _start_one(self, wanted: Wanted) -> None:
        try:
            self._put(_Waiting(self._start(wanted, self._home.make_folder()), wanted))
        except (WapError, OSError, subprocess.SubprocessError):
            pass  # whoever needs one will try again and be told
        finally:
            with self._lock:
                self._starting.remove(threading.current_thread())

    # -- the end of those that nobody needs

    def _watch(self) -> None:
        """With the lock held."""
        if self._timer is None and self._waiting and not self._closed:
            self._timer = threading.Timer(self._idle, self._expire)
            self._timer.daemon = True
            self._timer.start()

    def _expire(self) -> None:
        with self._lock:
            limit = time.monotonic() - self._idle
            expired = [waiting for waiting in self._waiting if waiting.since <= limit]
            self._waiting = [waiting for waiting in self._waiting if waiting.since > limit]
            self._timer = None
            self._watch()
        for waiting in expired:
            waiting.sandbox.end()


class Home:
    """A private folder for the sandboxes' own files, held by a lock: without its holder it is anybody's to remove."""

    def __init__(self, program: str, parent: str | None = None) -> None:
        parent = os.path.realpath(parent or tempfile.gettempdir())
        _clear(program, parent)
        new = tempfile.mkdtemp(prefix=".wap-gvisor-", dir=parent)
        self._held = ExitStack()
        lock = os.open(os.path.join(new, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._held.callback(os.close, lock)
        try_lock(lock)
        self.path = os.path.join(parent, _PREFIX + secrets.token_hex(8))
        os.rename(new, self.path)  # only now does it have the name that others look for: locked from the start

    def make_folder(self) -> str:
        path = os.path.join(self.path, secrets.token_hex(4))
        try:
            os.mkdir(path, 0o700)
        except OSError as error:
            raise ProviderUnavailable(
                f"There is no place for the files of a sandbox: {error.strerror}.",
                hint="Free some space in the folder for temporary files, and restart the server if it was cleared.",
            ) from error
        return path

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._held.close()


def identities(mounts: tuple[Mount, ...], root: str) -> tuple[tuple[int, ...], ...]:
    """Of what is mounted in the workspace. A file that was replaced may have got the old one's number again."""
    found: list[tuple[int, ...]] = []
    for mount in mounts:
        if not mount.target.startswith(root.rstrip("/") + "/"):
            continue
        try:
            status = os.lstat(mount.target)
        except OSError:
            continue
        is_file = not stat.S_ISDIR(status.st_mode)
        found.append((status.st_dev, status.st_ino, *((status.st_ctime_ns,) if is_file else ())))
    return tuple(found)


def _clear(program: str, parent: str) -> None:
    """What a server left that was killed. Its sandboxes have ended with it."""
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
                _end_all(program, folder.path)
                shutil.rmtree(folder.path, ignore_errors=True)
        finally:
            os.close(lock)


def _end_all(program: str, home: str) -> None:
    for name in os.listdir(home):
        state = os.path.join(home, name, "state")
        try:
            ids = {entry.partition("_sandbox:")[0] for entry in os.listdir(state)}
            for one in ids:
                run_to_its_end([*command_line(program, state), "delete", "--force", one])
        except (OSError, subprocess.SubprocessError):
            continue
