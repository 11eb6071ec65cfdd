"""Take a manifest of the workspace: the link stat of every path, without reading contents.

One is taken before a command and one after it; where they differ, the command or another process changed something.
The walk uses descriptors: links are not followed and mount points not entered. Left out, and listed:

* every `.git`, `node_modules` and virtual environments, which a command of their own makes again; a fingerprint is
  taken of each, so that it can be told that it changed;
* folders beyond the bound, and what is hidden from every tool (the state folder may lie below the root).
"""

from __future__ import annotations

import hashlib
import itertools
import stat
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from wap_kernel.files import tree_walk
from wap_kernel.files.interface import DirEntry, FileKind, Files, Folder, LinkStat
from wap_kernel.model.command import Deadline
from wap_kernel.model.paths import join_path

RACY_NS = 50_000_000
"""Times of files are counted in ticks, so one that changed this shortly ago may change again without a trace."""
MAX_FINGERPRINTED = 20_000
"""Files of packages and environments in a manifest: the stat of each takes some 10 microseconds."""

GIT = ".git"
MADE_BY_TOOLS = "node_modules"
MARKS_OF_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")

REASONS = {
    GIT: "the inner files of git are not undone",
    MADE_BY_TOOLS: "installed packages are not kept",
    "environment": "a virtual environment is not kept",
    "mount": "another file system is mounted there",
    "bound": "there are too many files",
    "closed": "it cannot be read",
}


@dataclass
class Manifest:
    """The link stats of a workspace at one time."""

    taken_ns: int = field(default_factory=time.time_ns)
    """The time at which the walk began."""
    entries: dict[str, LinkStat] = field(default_factory=dict)
    """Link stats by real path relative to the root; excluded paths are absent unless they cannot be read."""
    walked: set[str] = field(default_factory=set)
    """The folders that were listed."""
    excluded: dict[str, str] = field(default_factory=dict)
    """Excluded paths with a key of `REASONS`."""
    fingerprints: dict[str, str | None] = field(default_factory=dict)
    """Fingerprints of excluded paths, None where one would take too long."""

    def is_racy(self, path: str) -> bool:
        """Return whether the entry's times may stay the same though its content changes after the walk."""
        return self.entries[path].ctime_ns > self.taken_ns - RACY_NS


@dataclass(frozen=True)
class Difference:
    """A path that differs between two manifests."""

    path: str
    before: LinkStat | None
    after: LinkStat | None
    is_certain: bool
    """False if only a comparison of contents can tell."""


def take_manifest(files: Files, deadline: Deadline, *, bound: int, known: Manifest | None = None) -> Manifest:
    """Return the manifest of the whole workspace.

    `known` is an earlier one: folders that were walked then are walked now, whatever was put into them since, and
    paths that were excluded then are excluded now.
    """
    return _Walk(files, deadline, bound, known).run()


def take_tree(files: Files, path: str, deadline: Deadline, *, bound: int) -> tuple[dict[str, LinkStat], bool]:
    """Return the link stats of everything below the folder `path`, and whether that is within the bound."""
    found: dict[str, LinkStat] = {}
    start = tree_walk.open_real_folder(files, path)
    if start is None:
        return found, True
    for level in tree_walk.walk_tree(files, start):
        for entry, link_stat in _iterate_stats(level.folder, deadline):
            if len(found) >= bound:
                return found, False
            found[join_path(level.folder.path, entry.name)] = link_stat
            if link_stat.kind is FileKind.FOLDER:
                level.pending.append(entry.name)
    return found, True


def iterate_differences(before: Manifest, after: Manifest) -> Iterator[Difference]:
    """Yield the differences, except below paths that either manifest excludes. Pure."""
    for path, old in before.entries.items():
        new = after.entries.get(path)
        if new is None:
            if not _is_left_out(path, after):
                yield Difference(path, old, None, is_certain=True)
        elif (certainty := _differs(old, new, racy=before.is_racy(path))) is not None:
            yield Difference(path, old, new, is_certain=certainty)
    for path, new in after.entries.items():
        if path not in before.entries and not _is_left_out(path, before):
            yield Difference(path, None, new, is_certain=True)


def _differs(old: LinkStat, new: LinkStat, *, racy: bool) -> bool | None:
    """Return whether a difference is certain, or None if there is none."""
    if old.kind is not new.kind or old.target != new.target:
        return True
    if old.kind is FileKind.LINK:
        return None
    if stat.S_IMODE(old.mode) != stat.S_IMODE(new.mode):
        return True
    if old.kind is FileKind.FILE and (racy or old != new):
        return False
    return None


def list_unreadable(before: Manifest, after: Manifest) -> list[str]:
    """Return the paths in folders that can no longer be read."""
    closed = {path for path, reason in after.excluded.items() if reason == "closed" and path in before.walked}
    return [path for path in before.entries if path not in closed and _is_in(path, closed)] if closed else []


def _is_left_out(path: str, manifest: Manifest) -> bool:
    return bool(manifest.excluded) and _is_in(path, manifest.excluded)


def _is_in(path: str, paths: Collection[str]) -> bool:
    while path:
        if path in paths:
            return True
        path = path.rpartition("/")[0]
    return False


def list_changed_exclusions(before: Manifest, after: Manifest) -> list[str]:
    """Return the excluded paths that came, went, changed or may have changed."""
    both = before.fingerprints.keys() | after.fingerprints.keys()
    return sorted(path for path in both if _may_differ(before.fingerprints.get(path), after.fingerprints.get(path)))


def _may_differ(old: str | None, new: str | None) -> bool:
    return old is None or old != new


def _iterate_stats(folder: Folder, deadline: Deadline) -> Iterator[tuple[DirEntry, LinkStat]]:
    for entry in tree_walk.iterate_entries(folder, deadline):
        link_stat = tree_walk.try_open(folder.lstat, entry.name)
        if link_stat is not None:
            yield entry, link_stat


class _Walk:
    def __init__(self, files: Files, deadline: Deadline, bound: int, known: Manifest | None) -> None:
        self._files = files
        self._deadline = deadline
        self._bound = bound
        self._known = known
        self._taken = Manifest()
        self._fingerprinted = 0

    def run(self) -> Manifest:
        start = self._files.open_folder(".")
        device = start.lstat(".").device
        for level in tree_walk.walk_tree(self._files, start):
            level.pending.extend(self._folders_in(level.folder, device))
        self._leave_out_what_was_closed()
        return self._taken

    def _leave_out_what_was_closed(self) -> None:
        """Exclude the folders that cannot be read, so that nothing in them counts as new when they open."""
        entries, walked = self._taken.entries, self._taken.walked
        folders = [
            path for path, link_stat in entries.items() if link_stat.kind is FileKind.FOLDER and path not in walked
        ]
        for path in folders:
            if self._files.lstat(path) is None:
                del entries[path]  # gone since its name was read
            else:
                self._taken.excluded[path] = "closed"
                self._taken.fingerprints[path] = repr(entries[path])

    def _folders_in(self, folder: Folder, device: int) -> list[str]:
        """Take the entries of the folder, and return the names of the folders to walk next."""
        path, taken = folder.path, self._taken
        found: dict[str, LinkStat] = {}
        room = self._bound - len(taken.entries)
        for entry, link_stat in _iterate_stats(folder, self._deadline):
            found[entry.name] = link_stat
            if len(found) > room:
                return self._leave_out(path, "bound", folder.lstat("."))
        if path != "." and not self._was_walked(path) and any(mark in found for mark in MARKS_OF_ENVIRONMENTS):
            return self._leave_out(path, "environment", folder.lstat("."))
        taken.walked.add(path)
        folders = []
        for name, link_stat in found.items():
            entry_path = join_path(path, name)
            reason = self._reason(name, entry_path, link_stat, device)
            if reason is not None:
                self._leave_out(entry_path, reason, link_stat)
                continue
            taken.entries[entry_path] = link_stat
            if link_stat.kind is FileKind.FOLDER:
                folders.append(name)
        return folders

    def _reason(self, name: str, entry_path: str, link_stat: LinkStat, device: int) -> str | None:
        if name.casefold() == GIT:
            return GIT
        if link_stat.kind is FileKind.FOLDER:
            if self._known is not None and self._known.excluded.get(entry_path, "closed") != "closed":
                return self._known.excluded[entry_path]
            if name == MADE_BY_TOOLS:
                return MADE_BY_TOOLS
            if link_stat.device != device:
                return "mount"
        return None

    def _was_walked(self, path: str) -> bool:
        return self._known is not None and path in self._known.walked

    def _leave_out(self, path: str, reason: str, link_stat: LinkStat) -> list[str]:
        self._taken.excluded[path] = reason
        self._taken.entries.pop(path, None)
        self._taken.fingerprints[path] = self._fingerprint(path, reason, link_stat)
        return []

    def _fingerprint(self, path: str, reason: str, link_stat: LinkStat) -> str | None:
        if reason not in (GIT, MADE_BY_TOOLS, "environment"):
            return None
        if self._known is not None and self._known.fingerprints.get(path, "") is None:
            return None
        digest = hashlib.sha256(_line("", link_stat, in_objects=False))
        start = tree_walk.open_real_folder(self._files, path) if link_stat.kind is FileKind.FOLDER else None
        for level in tree_walk.walk_tree(self._files, start) if start is not None else ():
            # Of all that git keeps but its objects, which never change: of those the folders are enough.
            in_objects = reason == GIT and level.folder.path.endswith("/objects")
            stats = _iterate_stats(level.folder, self._deadline)
            if reason != GIT:
                stats = itertools.islice(stats, MAX_FINGERPRINTED + 1 - self._fingerprinted)
            for entry, found in sorted(stats, key=lambda pair: pair[0].name):
                digest.update(_line(join_path(level.folder.path, entry.name), found, in_objects=in_objects))
                if found.kind is FileKind.FOLDER and not in_objects:
                    level.pending.append(entry.name)
                self._fingerprinted += reason != GIT
            if reason != GIT and self._fingerprinted > MAX_FINGERPRINTED:
                return None
        return digest.hexdigest()


def _line(path: str, link_stat: LinkStat, *, in_objects: bool) -> bytes:
    # What a folder holds is told by the lines that follow; its own times also tell of locks that came and went.
    # Of the times of a file, the last one cannot be set by hand.
    times = (link_stat.mtime_ns, link_stat.ctime_ns)
    facts = (link_stat.inode, link_stat.size, *times) if link_stat.kind is not FileKind.FOLDER or in_objects else ()
    return repr((path, link_stat.kind.value, link_stat.mode, link_stat.target, facts)).encode(
        "utf-8", "backslashreplace"
    )
