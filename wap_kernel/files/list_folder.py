"""List a folder, alone or with everything below it: the first entries, and the exact number of all.

Entries are sorted by the code points of their whole path. Only the entries of the result are built; folders whose
entries come after those are merely counted, which makes 100,000 files cheap. Sorting by time costs more: every entry
needs a stat.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from wap_kernel.files.globs.sets import ExcludeSet, build_include_set, choose_excludes
from wap_kernel.files.interface import FileKind, Files, Folder, Stat
from wap_kernel.files.page_cursor import decode_cursor, encode_cursor
from wap_kernel.files.read import build_metadata
from wap_kernel.files.tree_walk import is_unreadable, iterate_entries, open_real_folder, try_open, walk_tree
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import InvalidArgument, translate_os_error
from wap_kernel.model.hints import READ_FILE
from wap_kernel.model.limits import MAX_LISTED_ENTRIES
from wap_kernel.model.operations import ListFiles
from wap_kernel.model.paths import join_path, render_path
from wap_kernel.model.results import FileEntry, FileList, FileMetadata, Limits


def list_files(files: Files, operation: ListFiles, limits: Limits, root_path: str, deadline: Deadline) -> FileList:
    """List the folder `operation.path`; `root_path` is the root's absolute path, for metadata."""
    if operation.max_depth is not None and operation.max_depth < 1:
        raise InvalidArgument("maxDepth must be at least 1.", hint="1 lists the folder's direct children.")
    if operation.limit is not None and operation.limit < 1:
        raise InvalidArgument(
            "The limit must be at least 1.", hint=f"At most {MAX_LISTED_ENTRIES} entries are returned."
        )
    skipped = decode_cursor(operation) or operation.start_entry - 1
    limit = limits.max_directory_entries if operation.limit is None else min(operation.limit, MAX_LISTED_ENTRIES)
    patterns, include = (
        choose_excludes(operation.exclude, recursive=operation.recursive),
        build_include_set(operation.include),
    )
    start = _open_start(files, operation.path)
    options = _ListOptions(
        exclusions=ExcludeSet(patterns, start.path, include),
        files_only=include is not None,
        max_depth=operation.max_depth if operation.recursive else 1,
        limit=skipped + limit,
        deadline=deadline,
    )
    if operation.newest_first:
        newest = _Newest(options)
        newest.run(files, start)
        entries = newest.first(files, root_path if operation.metadata else None)[skipped:]
        return _build_list(operation, entries, newest.total, skipped, len(entries))
    listing = _Listing(options)
    listing.run(files, start)
    found = listing.first()[skipped:]
    if operation.metadata:
        entries = _add_metadata(files, found, root_path)
        listing.total -= len(found) - len(entries)  # vanished since they were found
    else:
        entries = [_build_entry(files, entry) for entry in found]
    return _build_list(operation, entries, listing.total, skipped, len(found))


def _build_list(operation: ListFiles, entries: list[FileEntry], total: int, skipped: int, taken: int) -> FileList:
    """Return the page after `skipped` entries; of the `taken` ones some may have vanished."""
    start = operation.start_entry
    if operation.cursor is None and skipped and skipped >= total:
        raise InvalidArgument(
            f"startEntry {start} is past the end: the folder has {total} entries.", totalEntries=total
        )
    goes_on = total > skipped + len(entries)
    return FileList(
        files=entries,
        is_truncated=goes_on,
        total_found=total,
        next_cursor=encode_cursor(operation, skipped + taken) if goes_on and taken else None,
    )


_Found = tuple[str, str, str, bool, bool]
"""The rendered path, by which entries are sorted; the folder's real path; the name; is a folder; is a link."""


class _ListOptions(NamedTuple):
    exclusions: ExcludeSet
    files_only: bool
    """True if folders are walked, but are no entries of the result."""
    max_depth: int | None
    limit: int
    deadline: Deadline


class _Listing:
    """The first entries in the order of paths, and the number of all."""

    def __init__(self, options: _ListOptions) -> None:
        self.total = 0
        self._exclusions, self._files_only, self._max_depth, self._limit, self._deadline = options
        self._found: list[_Found] = []
        self._bound: str | None = None
        """The path of the last entry that is known to be in the result, once there are `limit` entries."""

    def run(self, files: Files, start: Folder) -> None:
        for level in walk_tree(files, start):
            prefix = "" if level.folder.path == "." else render_path(level.folder.path) + "/"
            is_beyond = self._bound is not None and prefix > self._bound
            visit = self._count if is_beyond and self._exclusions.by_name else self._collect
            folders = visit(level.folder, prefix)
            if self._max_depth is None or level.depth < self._max_depth:
                # The order of paths lets the bound fall early; the result does not depend on it.
                level.pending = folders if is_beyond else sorted(folders, key=lambda name: name + "/", reverse=True)

    def first(self) -> list[_Found]:
        self._truncate()
        return self._found

    def _count(self, folder: Folder, _: str) -> list[str]:
        """Count the entries of `folder` and return its subfolders, without building or sorting paths.

        This is the hot loop of a big listing: comprehensions over a batch are twice as fast as a loop over entries.
        """
        excluded, within = self._exclusions.folder_names, self._exclusions.within(folder.path)
        folders: list[str] = []
        for batch in folder.batches():
            self._deadline.check()
            found = [entry.name for entry in batch if entry.is_dir(follow_symlinks=False)]
            included = [name for name in found if name not in excluded] if found else found
            if within is None:
                self.total += len(batch) - len(found) + len(included)
            else:  # then folders are no entries
                included = [name for name in included if within.leads_on(name)]
                self.total += within.count({entry.name for entry in batch}.difference(found))
            folders += included
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
                self._truncate()
                last = self._last_name(prefix)
        return folders

    def _last_name(self, prefix: str) -> str | None:
        """Return the last name in the folder `prefix` that the bound admits, or None if it admits all."""
        if self._bound is None or (self._bound > prefix and not self._bound.startswith(prefix)):
            return None
        return self._bound[len(prefix) :] if self._bound.startswith(prefix) else ""

    def _truncate(self) -> None:
        self._found.sort()
        del self._found[self._limit :]
        if len(self._found) == self._limit:
            self._bound = self._found[-1][0]


class _Newest:
    """The newest entries by time of modification, then in the order of paths, and the number of all."""

    def __init__(self, options: _ListOptions) -> None:
        self.total = 0
        self._options = options
        self._found: list[tuple[float, _Found, Stat | None]] = []
        """Entries with their negative time, so that the newest come first."""
        self._bound = math.inf
        """The negative time of the last entry that is known to be in the result, once there are `limit` entries."""

    def run(self, files: Files, start: Folder) -> None:
        max_depth = self._options.max_depth
        for level in walk_tree(files, start):
            folders = self._collect(level.folder)
            if max_depth is None or level.depth < max_depth:
                level.pending = folders

    def first(self, files: Files, root_path: str | None) -> list[FileEntry]:
        """Return the newest entries, with metadata if `root_path` is not None."""
        self._truncate()
        return [
            _build_entry(files, found, None if seen is None or root_path is None else build_metadata(seen, root_path))
            for _, found, seen in self._found
        ]

    def _collect(self, folder: Folder) -> list[str]:
        options = self._options
        folders = []
        path = folder.path
        for entry in iterate_entries(folder, options.deadline):
            name = entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if options.exclusions.excludes(join_path(path, name), is_folder):
                continue
            if is_folder:
                folders.append(name)
                if options.files_only:
                    continue
            try:
                seen = _try_stat(folder, name)
            except FileNotFoundError:
                continue
            self.total += 1
            time = math.inf if seen is None else -seen.mtime_ns
            if time <= self._bound:
                is_link = not is_folder and entry.is_symlink()
                self._found.append((time, (render_path(join_path(path, name)), path, name, is_folder, is_link), seen))
                if len(self._found) >= 2 * options.limit:
                    self._truncate()
        return folders

    def _truncate(self) -> None:
        self._found.sort()
        del self._found[self._options.limit :]
        if len(self._found) == self._options.limit:
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


def _build_entry(files: Files, found: _Found, described: FileMetadata | None = None) -> FileEntry:
    path, folder, name, is_folder, is_link = found
    if is_link and _leads_to_folder(files, join_path(folder, name)):
        is_folder = True
        described = None if described is None else described.model_copy(update={"is_directory": True})
    return FileEntry(path=path, is_directory=is_folder, is_symlink=is_link or None, metadata=described)


def _leads_to_folder(files: Files, path: str) -> bool:
    """Return whether a link leads to a folder of the workspace that may be read."""
    found = try_open(files.stat, path)
    return found is not None and found.kind is FileKind.FOLDER


def _add_metadata(files: Files, found: list[_Found], root_path: str) -> list[FileEntry]:
    """Return the entries that still exist; one that may not be read has no metadata."""
    by_folder: dict[str, list[_Found]] = {}
    for entry in found:
        by_folder.setdefault(entry[1], []).append(entry)
    described: dict[tuple[str, str], FileEntry] = {}
    for path, entries in by_folder.items():
        folder = open_real_folder(files, path)
        if folder is not None:
            with folder:
                described.update(_iterate_described(files, folder, entries, root_path))
    return [described[entry[1:3]] for entry in found if entry[1:3] in described]


def _iterate_described(
    files: Files, folder: Folder, entries: Iterable[_Found], root_path: str
) -> Iterator[tuple[tuple[str, str], FileEntry]]:
    for entry in entries:
        try:
            seen = _try_stat(folder, entry[2])
        except FileNotFoundError:
            continue
        if seen is None:
            yield entry[1:3], _build_entry(files, entry)
        else:
            now = (*entry[:3], seen.kind is FileKind.FOLDER, seen.kind is FileKind.LINK)
            yield entry[1:3], _build_entry(files, now, build_metadata(seen, root_path))


def _try_stat(folder: Folder, name: str) -> Stat | None:
    """Return the stat of an entry, or None if it exists and may not be read."""
    try:
        return folder.stat(name)
    except FileNotFoundError:
        raise
    except OSError as error:
        if not is_unreadable(error):
            raise
        return None
