"""Verify that a new sandbox has the mounts that were planned.

Mounts are made by path, and a command can move paths of the workspace meanwhile: a mask would then cover another file,
and the sandbox would have created the missing mount point on the host.
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
"""An escaped byte in mountinfo: spaces, line ends and the like."""

_SANDBOX_MOUNTS = ("/dev", "/proc")
"""Folders in which every sandbox has mounts of its own, which no plan lists."""

Identity = tuple[int, int, bool]


class MountVerifier:
    """The planned mounts of one sandbox, and the identity of the files at their targets when they were planned."""

    def __init__(self, mounts: Sequence[Mount], files: Root, *, checks_flags: bool = True) -> None:
        """Note the targets of `mounts` as they are now.

        `checks_flags`: the sandbox's own mounts are empty and read-only where planned; for gVisor they are not, because
        its own kernel enforces that.
        """
        self._files = files
        self._checks_flags = checks_flags
        self._began = time.time_ns() - _CLOCK_SLACK_NS
        self._mounts = [mount for mount in mounts if mount.kind not in (MountKind.LINK, MountKind.COPY)]
        self._copies = [mount for mount in mounts if mount.kind is MountKind.COPY]
        self._names = [mount.target for mount in self._mounts if mount.source == files.path != mount.target]
        self._planned = {
            mount.target: _read_identity(mount.target)
            for mount in mounts
            if relative_to(mount.target, files.path) is not None
        }
        self._astray: list[str] = []
        """Paths of the host where the sandbox may have created mount points that belong to none of the targets."""

    def prefetch(self) -> None:
        """Read the host's mounts while the sandbox starts, so that there is less to do when it is ready."""
        self._host_mounts  # noqa: B018

    @cached_property
    def _host_mounts(self) -> Counter[str]:
        """Return the host's mount points, counted."""
        try:
            return Counter(found.point for found in _read_mountinfo("/proc/self/mountinfo"))
        except OSError as error:
            raise ProviderUnavailable(f"The mounts of this machine cannot be listed: {error.strerror}.") from error

    def check(self, init: int) -> None:
        """Inspect the sandbox whose first process is `init`; raise if its mounts are not as planned."""
        host_mounts = self._host_mounts
        try:
            entries = _read_mountinfo(f"/proc/{init}/mountinfo")
            visible = os.stat(f"/proc/{init}/root{self._files.path}")
        except OSError as error:
            raise ProviderUnavailable(f"The sandbox cannot be inspected: {error.strerror}.") from error
        opened = os.fstat(self._files.fd)
        if (visible.st_dev, visible.st_ino) != (opened.st_dev, opened.st_ino):
            raise ProviderUnavailable(
                "The workspace was moved, or another folder has its path: no command runs.",
                hint="Move it back, or start the server in the new folder.",
            )
        targets = {mount.target: mount for mount in self._mounts}
        by_point = {found.point: found for found in entries}
        self._astray = [*self._find_strays(entries, targets)]
        counts = Counter(found.point for found in entries)
        if (
            # Where the host has a mount in the workspace, the sandbox's mount covers a copy of it.
            any(not 1 <= counts[target] <= 1 + host_mounts[self._to_host_path(target)] for target in targets)
            or not all(self._is_as_planned(mount, by_point, init) for mount in self._mounts)
            or any(
                _entries_below(entries, mount.target) != _entries_below(entries, mount.source) for mount in self._copies
            )
            or any(self._is_unplanned(point, host_mounts) for point in by_point.keys() - targets.keys())
            or self.has_changed()
        ):
            raise mounts_changed_error()

    def _is_unplanned(self, point: str, host_mounts: Container[str]) -> bool:
        """Return whether `point` is a mount that neither the plan, nor every sandbox, nor the host has."""
        is_own = point == "/" or any(relative_to(point, folder) is not None for folder in _SANDBOX_MOUNTS)
        return not is_own and not self._is_copy(point) and self._to_host_path(point) not in host_mounts

    def _to_host_path(self, point: str) -> str:
        """Return the host's path of a mount point that lies at another name of the workspace."""
        found = (relative_to(point, name) for name in self._names)
        return next((f"{self._files.path}/{rest}".rstrip("/") for rest in found if rest is not None), point)

    def _is_copy(self, point: str) -> bool:
        return any(relative_to(point, mount.target) is not None for mount in self._copies)

    def _is_as_planned(self, mount: Mount, entries: Mapping[str, _MountEntry], init: int) -> bool:
        """Return whether the sandbox's mount is the planned one.

        The kernel follows links in the source. The root of the mount tells what was really bound, and no command can
        change it any more, while the path that leads to it could be swapped during the check.
        """
        found = entries[mount.target]
        if mount.kind in (MountKind.TEMPORARY, MountKind.HIDDEN_FOLDER):
            return found.kind == "tmpfs" or not self._checks_flags
        if mount.kind is MountKind.READ_ONLY and self._checks_flags and not found.is_read_only:
            return False
        relative = relative_to(mount.source, self._files.path) if mount.source else None
        if relative is None:
            return True
        workspace = entries[self._files.path]
        if found.device == workspace.device:
            return found.root == (f"{workspace.root.rstrip('/')}/{relative}" if relative else workspace.root)
        planned = self._planned.get(mount.source)  # another file system is mounted in the workspace
        try:
            inside = os.stat(f"/proc/{init}/root{mount.target}")
        except OSError:
            return False
        return planned is not None and (inside.st_dev, inside.st_ino) == planned[:2]

    def _find_strays(self, entries: Sequence[_MountEntry], targets: Mapping[str, Mount]) -> Iterator[str]:
        """Yield the paths of mount points that the sandbox created on the host because a planned folder was moved.

        The mount is then another one, or is at a path where none was planned.
        """
        workspace = next((found for found in entries if found.point == self._files.path), None)
        if workspace is None or not (workspace.root == "/" or self._files.path.endswith(workspace.root)):
            return
        prefix = self._files.path if workspace.root == "/" else self._files.path.removesuffix(workspace.root)
        inside = {
            mount.target for mount in self._mounts if mount.source and relative_to(mount.target, self._files.path)
        }
        elsewhere = {target for target, mount in targets.items() if mount.source} - inside
        here = (found for found in entries if found.device == workspace.device and not self._is_copy(found.point))
        wrong = {found.root for found in here if found.point not in elsewhere}
        for folder in inside:
            for rest in filter(None, (relative_to(target, folder) for target in targets)):
                for root in wrong:
                    if (path := f"{prefix}{root.rstrip('/')}/{rest}") not in targets:
                        yield path

    def is_race(self, error: Exception) -> bool:
        """Return whether a start failed because files were moved meanwhile, so that a retry is worthwhile."""
        return isinstance(error, Conflict) or self.has_changed()

    def has_changed(self) -> bool:
        return any(_read_identity(target) != identity for target, identity in self._planned.items())

    def targets_exist(self) -> bool:
        """Return whether every target exists, maybe replaced; a missing one may be elsewhere now, unguarded."""
        return all(map(_read_identity, self._planned))

    def remove_stray_mount_points(self) -> None:
        """Remove mount points that the sandbox created on the host because the real ones were moved: new, empty."""
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
    """Return the entries of a mountinfo file."""
    with open(path, "rb") as file:
        text = os.fsdecode(file.read())
    found = []
    for line in text.split("\n")[:-1]:
        fields, _, rest = line.partition(" - ")
        _, _, device, root, point, options, *_ = fields.split(" ")
        is_read_only = "ro" in options.split(",")
        found.append(_MountEntry(_unescape(point), device, _unescape(root), is_read_only, rest.partition(" ")[0]))
    return found


def _entries_below(entries: Sequence[_MountEntry], folder: str) -> list[_MountEntry]:
    """Return the mounts at `folder` and below, each with the rest of its path, in order."""
    inside = (mount for mount in entries if mount.point.startswith(folder))
    found = ((relative_to(mount.point, folder), mount) for mount in inside)
    return sorted(mount._replace(point=rest) for rest, mount in found if rest is not None)


def mounts_changed_error() -> Conflict:
    return Conflict(
        "Protected files of the workspace were changed while the command was being started.",
        hint="Nothing was run. Try again.",
    )


def _read_identity(path: str) -> Identity | None:
    """Return the device, the inode, and whether the file is empty.

    The kernel soon gives a freed inode to a new file, and a mount point that replaced a file is empty.
    """
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
        return False  # the server may enter the folder and not list it


def _unescape(path: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), path) if "\\" in path else path
