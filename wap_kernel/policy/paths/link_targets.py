"""Find where protected names that are links lead now.

A person's `.bashrc` may be a link to `dotfiles/bashrc`, made after the server started. The content counts, so what such
a link leads to is protected like the name, and so is every link on the way. A folder is searched again only when its
times have changed, so that a write can afford the question.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice

from wap_kernel.files.interface import FileKind
from wap_kernel.files.stamps import Stamp, Stamps
from wap_kernel.model.paths import split_path
from wap_kernel.providers.host_paths import resolve_links

MAX_ENTRIES = 256
"""Entries of a protected folder among which links are looked for."""
FEW_NAMES = 16
"""Names up to which asking for each is cheaper than listing their folder."""


@dataclass
class _Name:
    """A protected name, or a folder on the way to one."""

    below: dict[str, _Name] = field(default_factory=dict)
    level: int = 0
    """The protection of the name; 0 for a folder on the way."""
    is_searched: bool = False
    """True where the links in a folder of this name count as well."""


class LinkTargets:
    """The links among protected names in some folders, which are real paths. For one thread at a time."""

    def __init__(self, folders: Iterable[str], resolve: Callable[[str], str] = os.path.realpath) -> None:
        """Take what follows the links of a path as `resolve`: it may remember folders until all names are added."""
        self._resolve = resolve
        self._folders = tuple(dict.fromkeys(folders))
        self._prefixes = tuple(f"{folder.rstrip('/')}/" for folder in self._folders)
        self._trees: dict[str, _Name] = {}
        self._stamps: Stamps | None = None
        self._cache: dict[tuple[str, int], tuple[Stamp, Mapping[str, FileKind]]] = {}
        """The existing names of a folder, by its path and `_Name`."""
        self._targets: Mapping[str, int] = {}

    def add(self, path: str, level: int, *, is_searched: bool = False) -> None:
        """Add an absolute name with its protection, unless it lies in none of the folders."""
        for folder, prefix in zip(self._folders, self._prefixes, strict=True):
            names = self._enter(path, prefix)
            if names:
                name = self._trees.setdefault(folder, _Name())
                for each in names:
                    name = name.below.setdefault(each, _Name())
                name.level = max(name.level, level)
                name.is_searched = name.is_searched or is_searched
                return

    def _enter(self, path: str, prefix: str) -> list[str] | None:
        """Return the names that lead from a folder to `path`; links on the way to it are followed, none below."""
        names = split_path(os.path.abspath(path))
        reached = "/"
        for number, name in enumerate(names):
            reached = self._resolve(os.path.join(reached, name))
            if f"{reached}/".startswith(prefix):
                return [*split_path(reached[len(prefix) :]), *names[number + 1 :]]
        return None

    def find(self) -> Mapping[str, int]:
        """Return what protected links lead to: absolute paths with the level of protection.

        The answer is the same object while no link has changed.
        """
        if self._stamps is not None and self._stamps.are_current():
            return self._targets
        self._stamps = stamps = Stamps()
        found: dict[str, int] = {}
        for folder, tree in self._trees.items():
            for path, level in self._visit(folder, tree, stamps):
                found[path] = max(level, found.get(path, 0))
        if found != self._targets:
            self._targets = found
        return self._targets

    def _visit(self, folder: str, tree: _Name, stamps: Stamps) -> Iterator[tuple[str, int]]:
        """Yield the targets of the links on the way to the names below `folder`, a real path."""
        for entry, kind in self._list_entries(folder, tree, stamps).items():
            path = f"{folder}/{entry}"
            name = tree.below.get(entry) or _Name()
            if kind is FileKind.LINK:
                resolved = resolve_links(path)
                links = [link for link, _ in resolved.links]
                path = resolved.real
                self._note_way(stamps, path, *links)
                level = max(name.level, tree.level)
                yield from ((each, level) for each in (*links, path) if level)
                yield from _list_below(path, name)
            if kind in (FileKind.LINK, FileKind.FOLDER) and (name.below or name.is_searched):
                yield from self._visit(path, name, stamps)

    def _note_way(self, stamps: Stamps, *paths: str) -> None:
        """Note the folders in which a change would make a link lead elsewhere."""
        for path in paths:
            while path.startswith(self._prefixes):
                path = path.rpartition("/")[0]
                stamps.note(path)

    def _list_entries(self, folder: str, tree: _Name, stamps: Stamps) -> Mapping[str, FileKind]:
        """Return the names of `tree` that exist in `folder`, and the links there if it is searched."""
        stamp = stamps.note(folder)
        if stamp is None:
            return {}
        key = (folder, id(tree))
        cached = self._cache.get(key)
        if cached is not None and cached[0] == stamp:
            return cached[1]
        found = _scan(folder, tree)
        if stamps.is_settled(folder):
            self._cache[key] = (stamp, found)
        return found


def _scan(folder: str, tree: _Name) -> Mapping[str, FileKind]:
    found: dict[str, FileKind] = {}
    listed: list[os.DirEntry[str]] = []
    if tree.is_searched or len(tree.below) > FEW_NAMES:
        with suppress(OSError), os.scandir(folder) as entries:
            listed = list(islice(entries, MAX_ENTRIES))
        for entry in listed:
            if entry.name in tree.below or (tree.is_searched and entry.is_symlink()):
                is_folder = entry.is_dir(follow_symlinks=False)
                found[entry.name] = (
                    FileKind.LINK if entry.is_symlink() else FileKind.FOLDER if is_folder else FileKind.FILE
                )
        if len(listed) < MAX_ENTRIES:
            return found
    for name in tree.below:
        path = f"{folder}/{name}"
        if os.access(path, os.F_OK, follow_symlinks=False):  # nearly none exists, and this does not raise
            with suppress(OSError):
                found[name] = FileKind.of_mode(os.lstat(path).st_mode)
    return found


def _list_below(folder: str, tree: _Name) -> Iterator[tuple[str, int]]:
    """Yield the protected names below `folder`, whether or not they exist."""
    for entry, name in tree.below.items():
        if name.level:
            yield f"{folder}/{entry}", name.level
        yield from _list_below(f"{folder}/{entry}", name)
