"""Listing a folder, alone or with everything below it: the first entries, and the exact number of all.

Entries are sorted by the code points of their whole path. Only as many as are answered are built; folders whose
contents come after those are merely counted, which is what makes 100,000 files cheap. The newest first cost more: every
entry has to be looked at.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from wap_kernel.files.globs.sets import ExcludeSet, build_include_set, choose_excludes
from wap_kernel.files.interface import FileKind, Files, Folder, Stat
from wap_kernel.files.read import build_metadata
from wap_kernel.files.tree_walk import is_unreadable, iterate_entries, open_real_folder, walk_tree
from wap_kernel.model.deadline import Deadline
from wap_kernel.model.errors import InvalidArgument, translate_os_error
from wap_kernel.model.hints import READ_FILE
from wap_kernel.model.limits import MAX_LISTED_ENTRIES
from wap_kernel.model.operations import ListFiles
from wap_kernel.model.paths import join_path, render_path
from wap_kernel.model.results import FileEntry, FileList, FileMetadata, Limits


def list_files(files: Files, operation: ListFiles, limits: Limits, root_path: str, deadline: Deadline) -> FileList:
    """What is in the folder `operation.path`. `root_path` is the root's absolute path, for metadata."""
    if operation.max_depth is not None and operation.max_depth < 1:
        raise InvalidArgument("maxDepth must be at least 1.", hint="1 lists the folder's direct children.")
    if operation.limit is not None and operation.limit < 1:
        raise InvalidArgument(
            "The limit must be at least 1.", hint=f"At most {MAX_LISTED_ENTRIES} entries are returned."
        )
    left_out = operation.start_entry - 1
    limit = limits.max_directory_entries if operation.limit is None else min(operation.limit, MAX_LISTED_ENTRIES)
    patterns, include = (
        choose_excludes(operation.exclude, recursive=operation.recursive),
        build_include_set(operation.include),
    )
    start = _open_start(files, operation.path)
    asked = _Asked(
        exclusions=ExcludeSet(patterns, start.path, include),
        files_only=include is not None,
        max_depth=operation.max_depth if operation.recursive else 1,
        limit=left_out + limit,
        deadline=deadline,
    )
    if operation.newest_first:
        newest = _Newest(asked)
        newest.run(files, start)
        shown = newest.first(root_path if operation.metadata else None)[left_out:]
        return _answer(operation, shown, newest.total)
    listing = _Listing(asked)
    listing.run(files, start)
    found = listing.first()[left_out:]
    if operation.metadata:
        shown = _with_metadata(files, found, root_path)
        listing.total -= len(found) - len(shown)  # vanished since they were found
    else:
        shown = [_entry(entry) for entry in found]
    return _answer(operation, shown, listing.total)


def _answer(operation: ListFiles, shown: list[FileEntry], total: int) -> FileList:
    start, left_out = operation.start_entry, operation.start_entry - 1
    if left_out and left_out >= total:
        raise InvalidArgument(
            f"startEntry {start} is past the end: the folder has {total} entries.", totalEntries=total
        )
    return FileList(files=shown, is_truncated=total > left_out + len(shown), total_found=total)


_Found = tuple[str, str, str, bool, bool]
"""Path as shown, real path of the folder, name in it, is a folder, is a link. The first decides the order."""


class _Asked(NamedTuple):
    exclusions: ExcludeSet
    files_only: bool
    """Folders are on the way, but no entries."""
    max_depth: int | None
    limit: int
    deadline: Deadline


class _Listing:
    """In path order."""

    def __init__(self, asked: _Asked) -> None:
        self.total = 0
        self._exclusions, self._files_only, self._max_depth, self._limit, self._deadline = asked
        self._found: list[_Found] = []
        self._bound: str | None = None
        """When set, `limit` entries are known that come no later than this path."""

    def run(self, files: Files, start: Folder) -> None:
        for level in walk_tree(files, start):
            prefix = "" if level.folder.path == "." else render_path(level.folder.path) + "/"
            is_beyond = self._bound is not None and prefix > self._bound
            visit = self._count if is_beyond and self._exclusions.by_name else self._collect
            folders = visit(level.folder, prefix)
            if self._max_depth is None or level.depth < self._max_depth:
                # In path order, so that the bound falls early; the result does not depend on it.
                level.pending = folders if is_beyond else sorted(folders, key=lambda name: name + "/", reverse=True)

    def first(self) -> list[_Found]:
        self._cut()
        return self._found

    def _count(self, folder: Folder, _: str) -> list[str]:
        """The hot loop of a big listing: no paths are made and nothing is sorted.

        Comprehensions over a batch are twice as fast as a loop over entries.
        """
        excluded, within = self._exclusions.folder_names, self._exclusions.within(folder.path)
        folders: list[str] = []
        for batch in folder.batches():
            self._deadline.check()
            found = [entry.name for entry in batch if entry.is_dir(follow_symlinks=False)]
            kept = [name for name in found if name not in excluded] if found else found
            if within is None:
                self.total += len(batch) - len(found) + len(kept)
            else:  # then folders are no entries
                kept = [name for name in kept if within.leads_on(name)]
                self.total += within.count({entry.name for entry in batch}.difference(found))
            folders += kept
        return folders

    def _collect(self, folder: Folder, prefix: str) -> list[str]:
        folders = []
        path = folder.path
        last = self._last_name(prefix)
        for entry in iterate_entries(folder, self._deadline):
            name = entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if self._exclusions.excludes(join_path(path, name), is_folder):
                continue
            if is_folder:
                folders.append(name)
                if self._files_only:
                    continue
            self.total += 1
            if last is not None and name > last and (name.isascii() or render_path(name) > last):
                continue
            is_link = not is_folder and entry.is_symlink()
            self._found.append((prefix + render_path(name), path, name, is_folder, is_link))
            if len(self._found) >= 2 * self._limit:
                self._cut()
                last = self._last_name(prefix)
        return folders

    def _last_name(self, prefix: str) -> str | None:
        """The last name in the folder `prefix` that the bound lets in; None if all are in."""
        if self._bound is None or (self._bound > prefix and not self._bound.startswith(prefix)):
            return None
        return self._bound[len(prefix) :] if self._bound.startswith(prefix) else ""

    def _cut(self) -> None:
        self._found.sort()
        del self._found[self._limit :]
        if len(self._found) == self._limit:
            self._bound = self._found[-1][0]


class _Newest:
    """By time of modification, the newest first; those of one time in path order."""

    def __init__(self, asked: _Asked) -> None:
        self.total = 0
        self._asked = asked
        self._found: list[tuple[float, _Found, Stat | None]] = []
        """The first is the time, negative, so that the newest come first."""
        self._bound = math.inf
        """`limit` entries are known that come no later than this."""

    def run(self, files: Files, start: Folder) -> None:
        max_depth = self._asked.max_depth
        for level in walk_tree(files, start):
            folders = self._collect(level.folder)
            if max_depth is None or level.depth < max_depth:
                level.pending = folders

    def first(self, root_path: str | None) -> list[FileEntry]:
        """With metadata if `root_path` is given."""
        self._cut()
        return [
            _entry(found, None if seen is None or root_path is None else build_metadata(seen, root_path))
            for _, found, seen in self._found
        ]

    def _collect(self, folder: Folder) -> list[str]:
        asked = self._asked
        folders = []
        path = folder.path
        for entry in iterate_entries(folder, asked.deadline):
            name = entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if asked.exclusions.excludes(join_path(path, name), is_folder):
                continue
            if is_folder:
                folders.append(name)
                if asked.files_only:
                    continue
            try:
                seen = _look(folder, name)
            except FileNotFoundError:
                continue
            self.total += 1
            time = math.inf if seen is None else -seen.mtime_ns
            if time <= self._bound:
                is_link = not is_folder and entry.is_symlink()
                self._found.append((time, (render_path(join_path(path, name)), path, name, is_folder, is_link), seen))
                if len(self._found) >= 2 * asked.limit:
                    self._cut()
        return folders

    def _cut(self) -> None:
        self._found.sort()
        del self._found[self._asked.limit :]
        if len(self._found) == self._asked.limit:
            self._bound = self._found[-1][0]


def _open_start(files: Files, path: str) -> Folder:
    try:
        found = files.stat(path)
        if found.kind is not FileKind.FOLDER:
            hint = READ_FILE if found.kind is FileKind.FILE else "Pipes, devices and sockets are never opened."
            raise InvalidArgument(f"Not a folder: {path}", hint=hint, path=path)
        return files.open_folder(found.path)
    except OSError as error:
        raise translate_os_error(error, path) from error


def _entry(found: _Found, described: FileMetadata | None = None) -> FileEntry:
    shown, _, _, is_folder, is_link = found
    return FileEntry(path=shown, is_directory=is_folder, is_symlink=is_link or None, metadata=described)


def _with_metadata(files: Files, found: list[_Found], root_path: str) -> list[FileEntry]:
    """The entries that are still there. One that is, but may not be looked at, is shown without metadata."""
    by_folder: dict[str, list[_Found]] = {}
    for entry in found:
        by_folder.setdefault(entry[1], []).append(entry)
    described: dict[tuple[str, str], FileEntry] = {}
    for path, entries in by_folder.items():
        folder = open_real_folder(files, path)
        if folder is not None:
            with folder:
                described.update(_described(folder, entries, root_path))
    return [described[entry[1:3]] for entry in found if entry[1:3] in described]


def _described(
    folder: Folder, entries: Iterable[_Found], root_path: str
) -> Iterator[tuple[tuple[str, str], FileEntry]]:
    for entry in entries:
        try:
            seen = _look(folder, entry[2])
        except FileNotFoundError:
            continue
        if seen is None:
            yield entry[1:3], _entry(entry)
        else:
            now = (*entry[:3], seen.kind is FileKind.FOLDER, seen.kind is FileKind.LINK)
            yield entry[1:3], _entry(now, build_metadata(seen, root_path))


def _look(folder: Folder, name: str) -> Stat | None:
    """None if it is there, but may not be looked at."""
    try:
        return folder.stat(name)
    except FileNotFoundError:
        raise
    except OSError as error:
        if not is_unreadable(error):
            raise
        return None
