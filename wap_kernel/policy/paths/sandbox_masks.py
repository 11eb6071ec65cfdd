"""Find the paths that a sandbox hides or makes read-only, in one walk over the folders of the workspace.

A sandbox knows mount points, not patterns, so the patterns are turned into existing paths before each command. Paths
that appear while the command runs are not among them; what the command itself creates there is no secret.

`.git` is never hidden, whatever pattern names it: it is closed to the file tools and open to git. It is pinned, so that
it cannot be moved away and made anew, and what git would execute or obey in it is read-only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from posixpath import dirname
from typing import Protocol

from wap_kernel.files.interface import DirEntry, FileKind, Files, FindFolders, Guard, NullGuard
from wap_kernel.files.tree_walk import open_real_folder, try_open, walk_tree
from wap_kernel.model.command import Confinement, Deadline
from wap_kernel.model.errors import PathClosed, PermissionDenied, WapError
from wap_kernel.model.limits import MAX_MASKS, MAX_READ_ONLY_MOUNTS
from wap_kernel.model.paths import Access, join_path
from wap_kernel.policy.paths.mask_index import FolderMasks, IndexedFolders, MaskIndex
from wap_kernel.policy.paths.quarantine import find_missing

MAX_GITDIR = 4096
GIT = ".git"
OPEN_TO_OWNER = 0o500
GIT_OBEYED = frozenset({"config", "config.worktree", "hooks", "commondir"})
"""Entries of a repository that a later git command executes, or where it looks for what it executes."""
GIT_NESTED = frozenset({"modules", "worktrees"})
"""Folders of a repository that hold further repositories."""


class MaskRules(Guard, Protocol):
    """A guard that also knows which entries are read-only."""

    def snapshot(self) -> MaskRules:
        """Return the rules as they are now; they are equal as long as nothing has changed."""

    def read_only_among(self, folder: str, names: Sequence[str], folders: FindFolders = tuple) -> Collection[str]:
        """Return the entries of `folder` that can be read but not changed."""


@dataclass(frozen=True)
class Masks:
    """The confinement of a command, and the protected paths that no mount can guard."""

    confinement: Confinement
    absent: tuple[str, ...] = ()
    """Protected paths that do not exist yet, so that nothing can be mounted there; see `quarantine.py`."""
    linked: tuple[str, ...] = ()
    """Protected paths that are links or may lie behind links, on which nothing can be mounted; see
    `protected_links.py`."""
    repositories: frozenset[str] = frozenset()
    """The folders of git, and the files and links named `.git`."""


def without_guard(files: Files) -> Files:
    """Return the files without a guard, for the work on hidden paths."""
    return files.guarded_by(NullGuard())


def find_masks(
    files: Files,
    rules: MaskRules,
    fixed_paths: Iterable[str],
    deadline: Deadline,
    *,
    network: bool,
    is_read_only: bool,
    for_tool: bool = False,
    attributes: Callable[[Collection[str]], str | None] = lambda _: None,
    index: MaskIndex | None = None,
) -> Masks:
    """Walk over the workspace and return the masks.

    `fixed_paths` are protected whatever the patterns say. With `is_read_only` nothing at all may be written.
    `attributes` returns the file with git's attributes for the repositories in the given folders. `index` remembers
    folders that have not changed since the last walk.
    """
    rules = rules.snapshot()
    search = _Search(without_guard(files), rules, deadline)
    search.run(None if index is None else index.open(rules))
    if len(search.hidden) > MAX_MASKS:
        raise _too_many(search.hidden, rules)
    if len(search.hidden) + len(search.read_only) + len(search.pinned) > MAX_READ_ONLY_MOUNTS and not is_read_only:
        raise _too_many_guards(search)
    confinement = Confinement(
        hidden=tuple(search.hidden),
        read_only=(".",) if is_read_only else tuple(search.read_only),
        # A link cannot be pinned itself, but it can be found only where its folder stays.
        pinned=() if is_read_only else tuple(dict.fromkeys((*search.pinned, *search.link_folders))),
        network=network,
        for_tool=for_tool,
        git_attributes=attributes(search.tops),
    )
    if is_read_only:
        return Masks(confinement)
    return watch_paths(confinement, files, fixed_paths, search)


def watch_paths(
    confinement: Confinement, files: Files, fixed_paths: Iterable[str], search: _Search | None = None
) -> Masks:
    """Return the masks with the paths that are to be watched, as far as a search over the workspace found some."""
    fixed = tuple(fixed_paths)
    if search is None:
        return Masks(confinement, find_missing(without_guard(files), fixed), fixed)
    absent = find_missing(without_guard(files), (*fixed, *search.absent))
    return Masks(confinement, absent, (*fixed, *search.links), frozenset(search.repositories))


def find_repositories(files: Files, rules: MaskRules, deadline: Deadline, index: MaskIndex | None) -> frozenset[str]:
    """Return the folders of git in the workspace, and the files and links named `.git`."""
    rules = rules.snapshot()
    search = _Search(without_guard(files), rules, deadline)
    search.run(None if index is None else index.open(rules))
    return frozenset(search.repositories)


class _Search:
    def __init__(self, files: Files, rules: MaskRules, deadline: Deadline) -> None:
        self._files = files
        self._rules = rules
        self._deadline = deadline
        self.hidden: list[str] = []
        self.read_only: list[str] = []
        self.pinned: list[str] = []
        self.absent: list[str] = []
        """Paths that git would obey and that do not exist."""
        self.tops: list[str] = []
        """Folders that hold a `.git`."""
        self.links: list[str] = []
        """Links at paths that are hidden or read-only."""
        self.repositories: list[str] = []

    @property
    def link_folders(self) -> list[str]:
        """Return the folders that hold such links, except for the root."""
        return [folder for folder in dict.fromkeys(map(dirname, self.links)) if folder]

    def run(self, index: IndexedFolders | None) -> None:
        pending = ["."]
        while pending:
            path = pending.pop()
            masks = self._list(path) if index is None else index.find(path, self._list)
            if masks is None:
                if path != "." and self._is_closed(path):
                    self.hidden.append(path)
                continue
            if masks.folders:  # most folders have none, and nothing to mask either
                self._deadline.check()
                pending += masks.folders
            if masks.has_masks:
                self.hidden += masks.hidden
                self.read_only += masks.read_only
                self.links += masks.links
                for name, is_folder in masks.repositories:
                    self._git(name, is_folder=is_folder)

    def _is_closed(self, path: str) -> bool:
        """Return whether a path is a folder that its owner may not list or enter: a command could open it."""
        found = try_open(self._files.lstat, path)
        return found is not None and found.kind is FileKind.FOLDER and found.mode & OPEN_TO_OWNER != OPEN_TO_OWNER

    def _list(self, path: str) -> FolderMasks | None:
        """List a folder, and return what needs a mask in it; None if it is gone or closed to its owner."""
        folder = open_real_folder(self._files, path)
        if folder is None:
            return None
        found = FolderMasks()
        with folder:
            if try_open(folder.lstat, ".") is None:
                return None
            for batch in folder.batches():
                self._deadline.check()
                found = self._add(found, path, batch)
        return found

    def _add(self, found: FolderMasks, folder: str, batch: Sequence[DirEntry]) -> FolderMasks:
        names = [entry.name for entry in batch]
        folders = {entry.name for entry in batch if entry.is_dir(follow_symlinks=False)}
        hidden = set(self._rules.hidden_among(folder, names, lambda: folders))
        read_only = set(self._rules.read_only_among(folder, names, lambda: folders)) - hidden
        repositories = {name for name in hidden | read_only if name.casefold() == GIT}
        links = {entry.name for entry in batch if entry.is_symlink()} if hidden or read_only else set()
        return FolderMasks(
            # What a hidden link leads to is hidden with it.
            hidden=found.hidden + _join(folder, hidden - repositories | _find_sockets(batch, folders)),
            read_only=found.read_only + _join(folder, read_only - repositories - links),
            links=found.links + _join(folder, links & (hidden | read_only)),
            repositories=(
                *found.repositories,
                *((join_path(folder, name), name in folders) for name in sorted(repositories)),
            ),
            # Something in what is read-only may be hidden.
            folders=found.folders + _join(folder, folders - hidden - repositories),
        )

    def _git(self, path: str, *, is_folder: bool) -> None:
        """Mask a repository, wherever a link or a `gitdir:` says that it is."""
        self.tops.append(dirname(path) or ".")
        self.repositories.append(path)
        if is_folder:
            self._repository(path)
            return
        self.read_only.append(path)
        try:
            stat = self._files.stat(path)
            if stat.kind is FileKind.FILE:
                with self._files.open(path) as file:
                    target = file.read(MAX_GITDIR).decode("utf-8", "replace").removeprefix("gitdir:").strip()
                if target.startswith("/"):
                    return  # git writes such a path only for worktrees made elsewhere; see `docs/security.md`
                target = join_path(dirname(path) or ".", target)
                stat = self._files.stat(target)
            if stat.kind is FileKind.FOLDER and stat.path != ".":
                self._repository(stat.path)
        except (OSError, WapError):
            return  # it leads nowhere, or out of the workspace, where a command sees nothing

    def _repository(self, path: str) -> None:
        """Mask a folder of git, and the repositories of submodules and worktrees in it."""
        if path in self.pinned:
            return
        self.pinned.append(path)
        folder = open_real_folder(self._files, path)
        if folder is None:
            return
        for level in walk_tree(self._files, folder):
            entries = [entry for batch in level.folder.batches() for entry in batch if not entry.is_symlink()]
            self._deadline.check()
            here = level.folder.path
            is_repository = here == path or any(entry.name == "HEAD" for entry in entries)
            if is_repository:
                self.repositories.append(here)
                self.absent += [
                    join_path(here, name) for name in GIT_OBEYED.difference(entry.name for entry in entries)
                ]
            folders = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
            self.hidden += [join_path(here, name) for name in sorted(_find_sockets(entries, folders))]
            for entry in entries:
                if is_repository and entry.name in GIT_OBEYED:
                    self.read_only.append(join_path(here, entry.name))
                elif entry.name in folders and (not is_repository or entry.name in GIT_NESTED):
                    level.pending.append(entry.name)


def _join(folder: str, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(join_path(folder, name) for name in sorted(names))


def _find_sockets(batch: Sequence[DirEntry], folders: Collection[str]) -> set[str]:
    """Return the entries that are neither files nor folders nor links: a socket leads to a program outside."""
    return {
        entry.name
        for entry in batch
        if entry.name not in folders and not entry.is_file(follow_symlinks=False) and not entry.is_symlink()
    }


def _too_many_guards(search: _Search) -> PermissionDenied:
    repositories = len(search.pinned)
    return PathClosed(
        f"The workspace holds {len(search.read_only)} read-only paths and {repositories} git repositories, more than a "
        f"sandbox can guard ({MAX_READ_ONLY_MOUNTS}).",
        hint="Let readOnlyPaths name folders, not files; serve a folder with fewer repositories.",
        rule="masks",
    )


def _too_many(hidden: Sequence[str], rules: MaskRules) -> PermissionDenied:
    counted: Counter[str] = Counter()
    for path in hidden:
        try:
            rules.check(path, Access.READ)
        except PermissionDenied as refusal:
            counted[str(refusal.details.get("rule", "policy"))] += 1
    rule, number = counted.most_common(1)[0] if counted else ("policy", len(hidden))
    return PathClosed(
        f"Policy denies {len(hidden)} paths in the workspace, and a sandbox can hide {MAX_MASKS} at most.",
        hint=f"Make the pattern behind most of them coarser, so that it names their folder: {rule} ({number} of them).",
        rule="masks",
    )
