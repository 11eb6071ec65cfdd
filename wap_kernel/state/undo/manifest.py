"""The manifest: what stands where in the workspace, as the file system tells without anything being read.

One is taken before a command and one after it; where they differ the command changed something, or somebody else did
meanwhile. Walked by descriptors: links are not followed and mount points not entered. Left out, and stated:

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
from wap_kernel.files.interface import DirEntry, Files, Folder, FileKind, LinkStat
from wap_kernel.model.deadline import Deadline
from wap_kernel.model.paths import join_path

RACY_NS = 50_000_000
"""Times of files are counted in ticks, so one that changed this shortly ago may change again without a trace."""
MAX_FINGERPRINTED = 20_000
"""Files of packages and environments, altogether: a look at each takes some 10 microseconds, twice for a command."""

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
    taken_ns: int = field(default_factory=time.time_ns)
    """When the walk began."""
    entries: dict[str, LinkStat] = field(default_factory=dict)
    """By the real path relative to the root. A place that is left out is no entry either, unless it cannot be read."""
    walked: set[str] = field(default_factory=set)
    """The folders that were looked into."""
    excluded: dict[str, str] = field(default_factory=dict)
    """Places that are left out, and why: see `REASONS`."""
    fingerprints: dict[str, str | None] = field(default_factory=dict)
    """Of the places that are left out; None where it would take too long to tell whether something changes there."""

    def is_racy(self, path: str) -> bool:
        """Whether the times of this entry may stay the same though its content changes after the walk."""
        return self.entries[path].ctime_ns > self.taken_ns - RACY_NS


@dataclass(frozen=True)
class Difference:
    path: str
    before: LinkStat | None
    after: LinkStat | None
    is_certain: bool
    """False: only the content can tell whether there is one."""


def take(files: Files, deadline: Deadline, *, bound: int, known: Manifest | None = None) -> Manifest:
    """Of the whole workspace. `known` is the one from before: what was walked then is walked now, whatever has been put
    into it since, and what was left out then is left out now."""
    return _Walk(files, deadline, bound, known).run()


def take_tree(files: Files, path: str, deadline: Deadline, *, bound: int) -> tuple[dict[str, LinkStat], bool]:
    """All that is below the folder `path`, nothing left out; and whether that is within the bound."""
    found: dict[str, LinkStat] = {}
    start = tree_walk.open_real_folder(files, path)
    if start is None:
        return found, True
    for level in tree_walk.walk_tree(files, start):
        for entry, look in _looks(level.folder, deadline):
            if len(found) >= bound:
                return found, False
            found[join_path(level.folder.path, entry.name)] = look
            if look.kind is FileKind.FOLDER:
                level.pending.append(entry.name)
    return found, True


def differences(before: Manifest, after: Manifest) -> Iterator[Difference]:
    """Pure. What lies in a place that either of them left out is no difference."""
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
    """Whether that is certain; None: it does not."""
    if old.kind is not new.kind or old.target != new.target:
        return True
    if old.kind is FileKind.LINK:
        return None
    if stat.S_IMODE(old.mode) != stat.S_IMODE(new.mode):
        return True
    if old.kind is FileKind.FILE and (racy or old != new):
        return False
    return None


def out_of_sight(before: Manifest, after: Manifest) -> list[str]:
    """What was in folders that can no longer be read: nobody knows what has become of it."""
    closed = {path for path, reason in after.excluded.items() if reason == "closed" and path in before.walked}
    return [path for path in before.entries if path not in closed and _is_in(path, closed)] if closed else []


def _is_left_out(path: str, manifest: Manifest) -> bool:
    return bool(manifest.excluded) and _is_in(path, manifest.excluded)


def _is_in(path: str, places: Collection[str]) -> bool:
    while path:
        if path in places:
            return True
        path = path.rpartition("/")[0]
    return False


def changed_places(before: Manifest, after: Manifest) -> list[str]:
    """Those that were left out and came, went, changed or may have changed."""
    both = before.fingerprints.keys() | after.fingerprints.keys()
    return sorted(path for path in both if _may_differ(before.fingerprints.get(path), after.fingerprints.get(path)))


def _may_differ(old: str | None, new: str | None) -> bool:
    return old is None or old != new


def _looks(folder: Folder, deadline: Deadline) -> Iterator[tuple[DirEntry, LinkStat]]:
    for entry in tree_walk.iterate_entries(folder, deadline):
        look = tree_walk.try_open(folder.lstat, entry.name)
        if look is not None:
            yield entry, look


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
        """Nothing is known of what is in these, so nothing in them may be taken for new when they open."""
        entries, walked = self._taken.entries, self._taken.walked
        folders = [path for path, look in entries.items() if look.kind is FileKind.FOLDER and path not in walked]
        for path in folders:
            if self._files.lstat(path) is None:
                del entries[path]  # gone since its name was read
            else:
                self._taken.excluded[path] = "closed"
                self._taken.fingerprints[path] = repr(entries[path])

    def _folders_in(self, folder: Folder, device: int) -> list[str]:
        """Take what is in the folder, and tell where to go on."""
        path, taken = folder.path, self._taken
        found: dict[str, LinkStat] = {}
        room = self._bound - len(taken.entries)
        for entry, look in _looks(folder, self._deadline):
            found[entry.name] = look
            if len(found) > room:
                return self._leave_out(path, "bound", folder.lstat("."))
        if path != "." and not self._was_walked(path) and any(mark in found for mark in MARKS_OF_ENVIRONMENTS):
            return self._leave_out(path, "environment", folder.lstat("."))
        taken.walked.add(path)
        folders = []
        for name, look in found.items():
            place = join_path(path, name)
            reason = self._reason(name, place, look, device)
            if reason is not None:
                self._leave_out(place, reason, look)
                continue
            taken.entries[place] = look
            if look.kind is FileKind.FOLDER:
                folders.append(name)
        return folders

    def _reason(self, name: str, place: str, look: LinkStat, device: int) -> str | None:
        if name.casefold() == GIT:
            return GIT
        if look.kind is FileKind.FOLDER:
            if self._known is not None and self._known.excluded.get(place, "closed") != "closed":
                return self._known.excluded[place]
            if name == MADE_BY_TOOLS:
                return MADE_BY_TOOLS
            if look.device != device:
                return "mount"
        return None

    def _was_walked(self, path: str) -> bool:
        return self._known is not None and path in self._known.walked

    def _leave_out(self, path: str, reason: str, look: LinkStat) -> list[str]:
        self._taken.excluded[path] = reason
        self._taken.entries.pop(path, None)
        self._taken.fingerprints[path] = self._fingerprint(path, reason, look)
        return []

    def _fingerprint(self, path: str, reason: str, look: LinkStat) -> str | None:
        if reason not in (GIT, MADE_BY_TOOLS, "environment"):
            return None
        if self._known is not None and self._known.fingerprints.get(path, "") is None:
            return None
        digest = hashlib.sha256(_line("", look, in_objects=False))
        start = tree_walk.open_real_folder(self._files, path) if look.kind is FileKind.FOLDER else None
        for level in tree_walk.walk_tree(self._files, start) if start is not None else ():
            # Of all that git keeps but its objects, which never change: of those the folders are enough.
            in_objects = reason == GIT and level.folder.path.endswith("/objects")
            looks = _looks(level.folder, self._deadline)
            if reason != GIT:
                looks = itertools.islice(looks, MAX_FINGERPRINTED + 1 - self._fingerprinted)
            for entry, found in sorted(looks, key=lambda pair: pair[0].name):
                digest.update(_line(join_path(level.folder.path, entry.name), found, in_objects=in_objects))
                if found.kind is FileKind.FOLDER and not in_objects:
                    level.pending.append(entry.name)
                self._fingerprinted += reason != GIT
            if reason != GIT and self._fingerprinted > MAX_FINGERPRINTED:
                return None
        return digest.hexdigest()


def _line(path: str, look: LinkStat, *, in_objects: bool) -> bytes:
    # What a folder holds is told by the lines that follow; its own times also tell of locks that came and went.
    # Of the times of a file, the last one cannot be set by hand.
    times = (look.mtime_ns, look.ctime_ns)
    facts = (look.inode, look.size, *times) if look.kind is not FileKind.FOLDER or in_objects else ()
    return repr((path, look.kind.value, look.mode, look.target, facts)).encode("utf-8", "backslashreplace")
