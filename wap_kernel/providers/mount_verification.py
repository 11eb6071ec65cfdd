"""Whether a sandbox that was just made is the one that was planned.

Mounts are made by path, and paths in the workspace can be moved meanwhile: the mask would then stand on something else,
and the mount point that was missing would have been made on the host.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from wap_kernel.files.contained.root import Root
from wap_kernel.model.errors import Conflict, ProviderUnavailable, WapError
from wap_kernel.model.paths import relative_to
from wap_kernel.providers.mounts import Mount, MountKind

_CLOCK_SLACK_NS = 20_000_000
"""Nanoseconds by which the time stamp of a new file may seem too early."""
_ESCAPED = re.compile(r"\\([0-7]{3})")
"""Only spaces, line ends and the like are, all of them of one byte."""

_SANDBOX_MOUNTS = ("/dev", "/proc")
"""Where a sandbox mounts what nobody planned."""

Identity = tuple[int, int, bool]


class MountVerifier:
    """The mounts of one sandbox, and what stood in the workspace at their places when they were planned."""

    def __init__(self, mounts: Sequence[Mount], files: Root, *, checks_flags: bool = True) -> None:
        """`checks_flags`: the mounts are those of the sandbox, empty and read-only where planned; otherwise somebody behind
        them sees to that."""
        self._files = files
        self._by_flags = checks_flags
        self._began = time.time_ns() - _CLOCK_SLACK_NS
        self._mounts = [mount for mount in mounts if mount.kind not in (MountKind.LINK, MountKind.COPY)]
        self._again = [mount for mount in mounts if mount.kind is MountKind.COPY]
        self._names = [mount.target for mount in self._mounts if mount.source == files.path != mount.target]
        self._planned = {
            mount.target: _read_identity(mount.target) for mount in mounts if relative_to(mount.target, files.path) is not None
        }
        self._astray: list[str] = []
        """Where on the host mount points may have been made that belong to none of the targets."""

    def prefetch(self) -> None:
        """What can be seen before the sandbox is ready, so that there is less to do when it is."""
        self._of_host  # noqa: B018

    @cached_property
    def _of_host(self) -> Counter[str]:
        """Where the host has mounts."""
        try:
            return Counter(found.point for found in _read_mountinfo("/proc/self/mountinfo"))
        except OSError as error:
            raise ProviderUnavailable(f"The mounts of this machine cannot be listed: {error.strerror}.") from error

    def check(self, init: int) -> None:
        """Look into the sandbox whose first process is `init`. Raises if it is not as planned."""
        ours = self._of_host
        try:
            made = _read_mountinfo(f"/proc/{init}/mountinfo")
            shown = os.stat(f"/proc/{init}/root{self._files.path}")
        except OSError as error:
            raise ProviderUnavailable(f"The sandbox cannot be looked into: {error.strerror}.") from error
        held = os.fstat(self._files.fd)
        if (shown.st_dev, shown.st_ino) != (held.st_dev, held.st_ino):
            raise ProviderUnavailable(
                "The workspace was moved, or another folder stands in its place: no command runs.",
                hint="Move it back, or start the server in the new place.",
            )
        targets = {mount.target: mount for mount in self._mounts}
        by_point = {found.point: found for found in made}
        self._astray = [*self._strays(made, targets)]
        times = Counter(found.point for found in made)
        if (
            # Where the host has a mount in the workspace, ours stands on a copy of that.
            any(not 1 <= times[target] <= 1 + ours[self._original(target)] for target in targets)
            or not all(self._is_as_planned(mount, by_point, init) for mount in self._mounts)
            or any(_entries_below(made, mount.target) != _entries_below(made, mount.source) for mount in self._again)
            or any(self._is_strange(point, ours) for point in by_point.keys() - targets.keys())
            or self.has_changed()
        ):
            raise mounts_changed_error()

    def _is_strange(self, point: str, ours: Container[str]) -> bool:
        """Whether a mount that nobody planned stands where no sandbox has one of itself, nor the host."""
        is_own = point == "/" or any(relative_to(point, place) is not None for place in _SANDBOX_MOUNTS)
        return not is_own and not self._is_copy(point) and self._original(point) not in ours

    def _original(self, point: str) -> str:
        """Where that is on the host, if it is a part of the workspace at its other name."""
        found = (relative_to(point, name) for name in self._names)
        return next((f"{self._files.path}/{rest}".rstrip("/") for rest in found if rest is not None), point)

    def _is_copy(self, point: str) -> bool:
        return any(relative_to(point, mount.target) is not None for mount in self._again)

    def _is_as_planned(self, mount: Mount, made: Mapping[str, _MountEntry], init: int) -> bool:
        """A source is a path as well, and the kernel follows links in it. What was really bound is told by the root of
        the mount, which nobody can change any more; the path that leads to it could be swapped while we look."""
        found = made[mount.target]
        if mount.kind in (MountKind.TEMPORARY, MountKind.HIDDEN_FOLDER):
            return found.kind == "tmpfs" or not self._by_flags
        if mount.kind is MountKind.READ_ONLY and self._by_flags and not found.is_read_only:
            return False
        relative = relative_to(mount.source, self._files.path) if mount.source else None
        if relative is None:
            return True
        workspace = made[self._files.path]
        if found.device == workspace.device:
            return found.root == (f"{workspace.root.rstrip('/')}/{relative}" if relative else workspace.root)
        planned = self._planned.get(mount.source)  # another file system is mounted in the workspace
        try:
            inside = os.stat(f"/proc/{init}/root{mount.target}")
        except OSError:
            return False
        return planned is not None and (inside.st_dev, inside.st_ino) == planned[:2]

    def _strays(self, made: Sequence[_MountEntry], targets: Mapping[str, Mount]) -> Iterator[str]:
        """Where mount points were made if a folder of the plan was led somewhere else on the way: the mount is then
        another one, or stands where none was planned."""
        workspace = next((found for found in made if found.point == self._files.path), None)
        if workspace is None or not (workspace.root == "/" or self._files.path.endswith(workspace.root)):
            return
        prefix = self._files.path if workspace.root == "/" else self._files.path.removesuffix(workspace.root)
        inside = {mount.target for mount in self._mounts if mount.source and relative_to(mount.target, self._files.path)}
        elsewhere = {target for target, mount in targets.items() if mount.source} - inside
        here = (found for found in made if found.device == workspace.device and not self._is_copy(found.point))
        wrong = {found.root for found in here if found.point not in elsewhere}
        for folder in inside:
            for rest in filter(None, (relative_to(target, folder) for target in targets)):
                for root in wrong:
                    if (path := f"{prefix}{root.rstrip('/')}/{rest}") not in targets:
                        yield path

    def is_race(self, error: Exception) -> bool:
        """Whether a failed start is due to somebody who moves things; then it is worth another try."""
        return isinstance(error, Conflict) or self.has_changed()

    def has_changed(self) -> bool:
        return any(_read_identity(target) != identity for target, identity in self._planned.items())

    def targets_exist(self) -> bool:
        """Maybe replaced, but not gone; what is gone may be elsewhere now, where nobody would guard it."""
        return all(map(_read_identity, self._planned))

    def remove_stray_mount_points(self) -> None:
        """Remove mount points that were made on the host because the real ones had been moved away: new and empty."""
        for target in sorted(self._planned, key=len, reverse=True):
            path = relative_to(target, self._files.path) or ""
            folder, _, name = path.rpartition("/")
            if not name or _read_identity(target) == self._planned[target]:
                continue
            with suppress(OSError, WapError), self._files.open_folder(folder or ".") as parent:
                found = os.stat(name, dir_fd=parent.fd, follow_symlinks=False)
                if found.st_ctime_ns < self._began:
                    continue
                if stat.S_ISDIR(found.st_mode):
                    os.rmdir(name, dir_fd=parent.fd)
                elif stat.S_ISREG(found.st_mode) and found.st_size == 0:
                    os.unlink(name, dir_fd=parent.fd)
        for path in sorted(self._astray, key=len, reverse=True):
            self._remove_outside(path)

    def _remove_outside(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        with suppress(OSError):
            parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                found = os.stat(name, dir_fd=parent, follow_symlinks=False)
                is_new = found.st_ctime_ns >= self._began and found.st_uid == os.geteuid()
                if is_new and stat.S_ISREG(found.st_mode) and found.st_size == 0:
                    os.unlink(name, dir_fd=parent)
                elif is_new and stat.S_ISDIR(found.st_mode):
                    os.rmdir(name, dir_fd=parent)
            finally:
                os.close(parent)


class _MountEntry(NamedTuple):
    point: str
    device: str
    root: str
    """The folder or file of the file system that was mounted."""
    is_read_only: bool
    kind: str


def _read_mountinfo(path: str) -> list[_MountEntry]:
    """What stands in a mountinfo file."""
    with open(path, "rb") as file:
        text = os.fsdecode(file.read())
    found = []
    for line in text.split("\n")[:-1]:
        fields, _, rest = line.partition(" - ")
        _, _, device, root, point, options, *_ = fields.split(" ")
        is_read_only = "ro" in options.split(",")
        found.append(_MountEntry(_unescape(point), device, _unescape(root), is_read_only, rest.partition(" ")[0]))
    return found


def _entries_below(made: Sequence[_MountEntry], folder: str) -> list[_MountEntry]:
    """What is mounted there and below, each with the rest of its path, in order."""
    inside = (mount for mount in made if mount.point.startswith(folder))
    found = ((relative_to(mount.point, folder), mount) for mount in inside)
    return sorted(mount._replace(point=rest) for rest, mount in found if rest is not None)


def mounts_changed_error() -> Conflict:
    return Conflict(
        "Protected files of the workspace were changed while the command was being started.",
        hint="Nothing was run. Try again.",
    )


def _read_identity(path: str) -> Identity | None:
    """Device, inode, and whether it is empty: an inode that was freed is soon given to a new file, and a mount point
    that was made in the place of something else is empty."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, _is_empty(path) if stat.S_ISDIR(found.st_mode) else found.st_size == 0


def _is_empty(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError:
        return False  # ours to pass through, not to read


def _unescape(path: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), path) if "\\" in path else path
