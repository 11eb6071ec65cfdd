"""Describe what stands at a path, in a text that differs when the content does, so that a later change is noticed.

The state of a file is its hash. That of a larger file is a stamp with its ctime, which no program can set, unlike the
mtime. The state of a folder covers everything below it, and what links below it lead to.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field
from itertools import islice

from wap_kernel.files import content_hash
from wap_kernel.files.interface import FileKind, Files, LinkStat
from wap_kernel.files.tree_walk import WalkLevel, iterate_entries, open_real_folder, walk_tree
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import PermissionDenied, TimedOut, WapError
from wap_kernel.model.paths import join_path

ABSENT = "absent"
TOO_LARGE = "too-large"
"""The state of a folder that has too many entries, or whose walk takes too long: changes below it go unnoticed."""
MAX_FILE_HASHED_BYTES = 16 * 1024 * 1024
MAX_TREE_ENTRIES = 100_000
MAX_TREE_HASHES = 2_000
MAX_TREE_HASHED_BYTES = 64 * 1024 * 1024
"""Entries of a tree; files and bytes in it that are hashed. The others have stamps."""

TICK_SECONDS = 0.02
"""Seconds after which a file system gives another time."""


def describe_path(files: Files, path: str, deadline: Deadline, *, follow: bool = True) -> str:
    """Return the real path and the state of `path`, separated by a space."""
    try:
        real = files.resolve(path, follow=follow)
    except (OSError, WapError):
        return ABSENT
    return f"{real} {describe_real_path(files, real, deadline)}"


def describe_real_path(files: Files, real: str, deadline: Deadline, *, shallow: bool = False) -> str:
    """Return the state of a path without links; with `shallow`, only the kind of a folder."""
    try:
        stat = files.lstat(real)
    except PermissionDenied:
        return "closed"
    except (OSError, WapError):
        stat = None
    if stat is None:
        return ABSENT
    if stat.kind is not FileKind.FOLDER:
        return _describe_file(files, real, stat)
    return "folder" if shallow else describe_tree(files, real, deadline)


def _describe_file(files: Files, real: str, stat: LinkStat) -> str:
    if stat.kind is FileKind.FILE and stat.size <= MAX_FILE_HASHED_BYTES:
        try:
            return content_hash.hash_file(files, real)
        except (OSError, WapError):
            pass  # it can be run, perhaps, but not read
    if _is_recent(stat.ctime_ns):
        time.sleep(TICK_SECONDS)
        stat = files.lstat(real) or stat
    return _stamp(stat)


def _stamp(stat: LinkStat) -> str:
    return f"{stat.kind.value}:{stat.size}:{stat.mtime_ns}:{stat.ctime_ns}:{stat.inode}:{stat.target or ''}"


def _is_recent(ctime_ns: int) -> bool:
    """Return whether a further change could get the same ctime: many file systems have a coarse clock."""
    return abs(time.time_ns() - ctime_ns) < TICK_SECONDS * 1e9


def describe_tree(files: Files, real: str, deadline: Deadline) -> str:
    """Return a hash over everything below the folder `real`, or TOO_LARGE."""
    try:
        tree = _Tree(files, deadline)
        state = tree.describe(real)
        if _is_recent(tree.newest_ns):
            time.sleep(TICK_SECONDS)
            state = _Tree(files, deadline).describe(real)
        return state
    except TimedOut:
        return TOO_LARGE


@dataclass
class _Tree:
    """A tree, and the trees that links in it lead to, while they are walked."""

    files: Files
    deadline: Deadline
    lines: list[str] = field(default_factory=list)
    entries: int = 0
    hashes_left: int = field(default_factory=lambda: MAX_TREE_HASHES)
    bytes_left: int = field(default_factory=lambda: MAX_TREE_HASHED_BYTES)
    newest_ns: int = 0
    """The latest ctime among the stamps."""
    walked: set[str] = field(default_factory=set)
    linked: list[str] = field(default_factory=list)

    def describe(self, real: str) -> str:
        self.linked.append(real)
        while self.linked:
            start = open_real_folder(self.files, self.linked.pop())
            if start is None:
                continue
            for level in walk_tree(self.files, start):
                if level.folder.path in self.walked:
                    continue
                self.walked.add(level.folder.path)
                if not self._add_level(level):
                    return TOO_LARGE
        text = "\0\0".join(self.lines)
        return f"folder:{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()}"

    def _add_level(self, level: WalkLevel) -> bool:
        """Add the entries of one folder, and return whether they are not too many."""
        room = MAX_TREE_ENTRIES - self.entries
        found = sorted(entry.name for entry in islice(iterate_entries(level.folder, self.deadline), room + 1))
        self.entries += len(found)
        if self.entries > MAX_TREE_ENTRIES:
            return False
        for name in found:
            path = join_path(level.folder.path, name)
            try:
                stat = level.folder.lstat(name)
            except OSError:
                continue
            if stat.kind is FileKind.FOLDER:
                level.pending.append(name)
                self.lines.append(f"{path}\0folder")
            else:
                self.lines.append(f"{path}\0{self._describe_entry(path, stat)}")
        return True

    def _describe_entry(self, path: str, stat: LinkStat) -> str:
        if stat.kind is FileKind.LINK:
            return f"{stat.target}\0{self._describe_target(path)}"
        self.hashes_left -= 1
        if stat.kind is FileKind.FILE and self.hashes_left >= 0 and stat.size <= self.bytes_left:
            self.bytes_left -= stat.size
            return _describe_file(self.files, path, stat)
        self.newest_ns = max(self.newest_ns, stat.ctime_ns)
        return _stamp(stat)

    def _describe_target(self, path: str) -> str:
        """Return the state of what a link leads to; a folder is walked later."""
        try:
            real = self.files.resolve(path)
            stat = self.files.lstat(real)
        except (OSError, WapError):
            return ABSENT
        if stat is None:
            return f"{real}\0{ABSENT}"
        if stat.kind is FileKind.FOLDER:
            self.linked.append(real)
            return f"{real}\0folder"
        return f"{real}\0{self._describe_entry(real, stat)}"
