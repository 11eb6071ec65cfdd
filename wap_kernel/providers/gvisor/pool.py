"""Keep gVisor sandboxes ready for the next command, and end those that stay idle.

A command on a Layer takes a sandbox that was prepared for it, on a fresh layer in which nothing was looked up yet. The
sandbox is used once, and then the next one is prepared. Commands that share their files (the workspace itself, or the
layer of a batch) share a sandbox too, one after the other, as long as the first has left nothing in it, neither a
process nor a file outside the workspace. Not detected: System V shared memory, semaphores and message queues, of which
gVisor has no list; a later command can read them only if it knows of them.

A guard is a mount on the file that was at its path. When a process replaces that file on the host, the kernel removes
the mount, so two sandboxes are equal only as long as the guarded files are.
"""

from __future__ import annotations

import os
import stat
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from wap_kernel.files.contained.root import Root
from wap_kernel.model.command import MountedLayer
from wap_kernel.model.errors import WapError
from wap_kernel.providers.gvisor.pool_folder import PoolFolder
from wap_kernel.providers.gvisor.sandbox import GvisorSandbox
from wap_kernel.providers.layers.layer import Layer
from wap_kernel.providers.mounts import Guards, Mount

IDLE_SECONDS = 300.0
"""Seconds that an idle sandbox waits for a command."""
MAX_IDLE_SANDBOXES = 2
"""Idle sandboxes, at most."""


@dataclass(frozen=True)
class SandboxKey:
    """The key of the pool: a command can take any sandbox on its layer that has an equal key."""

    mounts: tuple[Mount, ...]
    guards: Guards
    network: bool
    root: tuple[int, ...]
    """The identity of the workspace."""
    guarded: tuple[tuple[int, ...], ...]
    """The identities of the guarded files."""


@dataclass(eq=False)
class _IdleSandbox:
    key: SandboxKey
    upper: str | None
    """The upper folder of the layer that the sandbox is on; None: the workspace itself."""
    fresh: Layer | None = None
    """The layer that was made for this sandbox, until a command claims it."""
    sandbox: GvisorSandbox | None = None
    """The sandbox, None while it starts and where it could not start."""
    ready: threading.Event = field(default_factory=threading.Event)
    since: float = field(default_factory=time.monotonic)

    def is_usable(self) -> bool:
        """Return whether the sandbox lives, or starts just now."""
        return not self.ready.is_set() or (self.sandbox is not None and self.sandbox.is_alive)

    def end(self) -> None:
        self.ready.wait()
        if self.sandbox is not None:
            self.sandbox.end()
        if self.fresh is not None:
            self.fresh.discard()


class SandboxPool:
    """The idle sandboxes of one provider.

    `start` starts a sandbox in a folder of its own, on a layer or on the workspace; `make_layer` makes a layer.
    """

    def __init__(
        self,
        folder: PoolFolder,
        start: Callable[[SandboxKey, str, MountedLayer | None], GvisorSandbox],
        make_layer: Callable[[], Layer],
        *,
        idle: float = IDLE_SECONDS,
    ) -> None:
        self._folder = folder
        self._start = start
        self._make_layer = make_layer
        self._idle = idle
        self._lock = threading.Lock()
        self._idle_sandboxes: list[_IdleSandbox] = []
        self._closed = False
        self._starting: list[threading.Thread] = []
        self._timer: threading.Timer | None = None

    def claim_layer(self, root: tuple[int, ...]) -> Layer | None:
        """Return the layer of a sandbox that is prepared, or will be soon, for a command that begins now.

        `root` is the identity of the workspace: its permissions are those that the layer got when it was made.
        """
        with self._lock:
            for prepared in reversed(self._idle_sandboxes):
                if prepared.fresh is not None and prepared.key.root == root and prepared.is_usable():
                    layer, prepared.fresh = prepared.fresh, None
                    break
            else:
                return None
        try:
            layer.restart_clock()
        except WapError:  # another server has removed it
            self.end_sandboxes_on(layer)
            return None
        return layer

    def take(self, key: SandboxKey, layer: MountedLayer | None) -> GvisorSandbox:
        """Return a sandbox for a single command, which the caller puts back."""
        upper, can_share = _find_upper(layer), _can_share(layer)
        # Any other sandbox on a layer of its own has to end: two mounts of one layer do not see the same files.
        while idle := self._remove(lambda idle: idle.upper == upper and (idle.key == key or not can_share)):
            idle.ready.wait()
            if idle.key == key and idle.sandbox is not None and idle.sandbox.is_alive:
                return idle.sandbox
            idle.end()
        return self._start(key, self._folder.make_folder(), layer)

    def put_back(self, sandbox: GvisorSandbox, key: SandboxKey, layer: MountedLayer | None) -> None:
        """Keep a clean sandbox for the next command that shares its files, or end it and prepare another one."""
        if not _can_share(layer):
            if not (sandbox.is_alive and sandbox.is_quiet()):
                sandbox.end()  # a process may still use the layer
            try:
                fresh = self._make_layer()
            except WapError:  # the next command tries again and gets the error
                sandbox.end()
            else:
                self._start_ahead(_IdleSandbox(key, fresh.upper, fresh), fresh, ended=sandbox)
        elif sandbox.is_clean():
            idle = _IdleSandbox(key, _find_upper(layer), sandbox=sandbox)
            idle.ready.set()
            self._put(idle)
        else:
            self._start_ahead(_IdleSandbox(key, _find_upper(layer)), layer, ended=sandbox)

    def end_sandboxes_on(self, layer: MountedLayer) -> None:
        """End the idle sandboxes on a layer."""
        upper = _find_upper(layer)
        while idle := self._remove(lambda idle: idle.upper == upper):
            idle.end()

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
        while idle := self._remove(lambda _: True):
            idle.end()

    def _remove(self, is_wanted: Callable[[_IdleSandbox], bool]) -> _IdleSandbox | None:
        with self._lock:
            found = next(filter(is_wanted, reversed(self._idle_sandboxes)), None)
            if found is not None:
                self._idle_sandboxes.remove(found)
            return found

    def _put(self, idle: _IdleSandbox, starting: threading.Thread | None = None) -> None:
        """Add a sandbox, which `starting` starts unless the pool is closed, and end the surplus."""
        with self._lock:
            if self._closed:
                surplus = [idle]
                idle.ready.set()
            else:
                self._idle_sandboxes.append(idle)
                surplus = self._idle_sandboxes[:-MAX_IDLE_SANDBOXES]
                del self._idle_sandboxes[:-MAX_IDLE_SANDBOXES]
                self._start_timer()
                if starting is not None:
                    starting.start()  # under the lock: `close` joins every thread of the list
                    self._starting.append(starting)
        for each in surplus:
            each.end()

    # -- sandboxes that are started ahead

    def _start_ahead(self, idle: _IdleSandbox, layer: MountedLayer | None, *, ended: GvisorSandbox) -> None:
        """End a sandbox and start another, while the caller goes on."""
        thread = threading.Thread(target=self._replace, args=(idle, layer, ended), name="wap-gvisor-start", daemon=True)
        self._put(idle, thread)
        if thread.ident is None:
            ended.end()

    def _replace(self, idle: _IdleSandbox, layer: MountedLayer | None, ended: GvisorSandbox) -> None:
        try:
            ended.end()
            idle.sandbox = self._start(idle.key, self._folder.make_folder(), layer)
        except (WapError, OSError, subprocess.SubprocessError):
            pass  # the next command tries again and gets the error
        finally:
            idle.ready.set()
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
            expired = [idle for idle in self._idle_sandboxes if idle.since <= limit]
            self._idle_sandboxes = [idle for idle in self._idle_sandboxes if idle.since > limit]
            self._timer = None
            self._start_timer()
        for idle in expired:
            idle.end()


def _find_upper(layer: MountedLayer | None) -> str | None:
    return None if layer is None else layer.mount_options["upperdir"]


def _can_share(layer: MountedLayer | None) -> bool:
    """Return whether several sandboxes can see the same files: those of the workspace, or of a layer that is held."""
    return layer is None or layer.namespaces is not None


def identify_root(path: str) -> tuple[int, ...]:
    """Return the identity and the permissions of the folder that has the path of the workspace."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_mode, found.st_uid, found.st_gid)


def identify_guarded(files: Root, guards: Guards) -> tuple[tuple[int, ...], ...]:
    """Return the identities of the guarded files, with the ctime: a new file may reuse an inode."""
    identities: list[tuple[int, ...]] = []
    for _, path in guards.mounts:
        try:
            found = os.stat(path, dir_fd=files.fd, follow_symlinks=False)
        except OSError:
            identities.append(())
            continue
        changed = () if stat.S_ISDIR(found.st_mode) else (found.st_ctime_ns,)
        identities.append((found.st_dev, found.st_ino, found.st_mode, *changed))
    return tuple(identities)
