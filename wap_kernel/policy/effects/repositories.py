"""Find the folders of git that changes touch, and whether each was there before. Pure.

A folder of git is a `.git`, a folder of `modules` or `worktrees` in one, or another folder with a `HEAD`, `objects` and
`refs`, which git takes for a bare repository wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from wap_kernel.model.changes import Change, ChangeKind, ChangeSet
from wap_kernel.model.paths import relative_to, split_path
from wap_kernel.policy.effects.judgement import EffectFacts

GIT = ".git"
GIT_NESTED = ("modules", "worktrees")
ESSENTIAL = ("HEAD", "objects", "refs", "commondir")
"""Entries that make a folder a repository."""
OBEYED = (
    *("config", "config.worktree", "hooks", "commondir", "info/attributes"),
    *("objects/info/alternates", "objects/info/http-alternates"),
)
"""Entries by which git runs programs, or reads elsewhere."""
_TELLING = re.compile(
    r"(?:^|/)(?:HEAD|objects|refs|config(?:\.worktree)?|commondir|hooks|info|modules|worktrees|remotes|branches)(?:/|$)"
)
_TELLING_NAMES = frozenset(
    "HEAD objects refs config config.worktree commondir hooks info modules worktrees remotes branches".split()
)
MAX_GITLINK_BYTES = 4096


class Age(Enum):
    """The time when a folder of git was made: before the changes, or by them."""

    OLD = "old"
    NEW = "new"


@dataclass(frozen=True)
class GitFolder:
    """A `.git` folder, a bare repository, or a submodule's or worktree's folder within one."""

    path: str
    age: Age
    top: str
    """The folder that holds the outermost folder of git; the folder itself where that is bare."""
    is_bare: bool = False
    """True where the outermost folder has another name than `.git`, so that policy binds it as any folder."""
    outer: GitFolder | None = None
    """The folder of git whose `modules` or `worktrees` hold this one."""

    @property
    def is_module(self) -> bool:
        return self.outer is not None and self.path.startswith(join_git(self.outer.path, "modules/"))

    @property
    def is_worktree(self) -> bool:
        return self.outer is not None and not self.is_module


@dataclass(frozen=True)
class RepositoryPath:
    """A path in a folder of git."""

    folder: GitFolder
    rest: tuple[str, ...]
    """The names below the folder."""
    is_stray: bool = False
    """True for what lies in `modules` and belongs to no repository there."""


class Repositories:
    """The folders of git in a workspace, as they are after the changes."""

    def __init__(self, changes: ChangeSet, facts: EffectFacts) -> None:
        self._changes = {change.path: change for change in changes}
        self._facts = facts
        self._moves = {change.path: change.source for change in changes if change.source is not None}
        self._folders: dict[str, GitFolder | None] = {}

    def change_of(self, path: str) -> Change | None:
        return self._changes.get(path)

    def locate(self, path: str) -> RepositoryPath | None:
        """Return where `path` lies in a folder of git; None outside of all. A `.git` itself has no `rest`."""
        if GIT in path.casefold():
            names = path.split("/")
            at = next((number for number, name in enumerate(names) if name.casefold() == GIT), None)
            if at is not None:
                return self._descend(self._git_folder("/".join(names[: at + 1])), tuple(names[at + 1 :]))
        if _TELLING.search(path) is None:
            return None
        names = path.split("/")
        for at, name in enumerate(names):
            if name in _TELLING_NAMES:
                folder = self._bare_folder("/".join(names[:at]))
                if folder is not None:
                    return self._descend(folder, tuple(names[at:]))
        return None

    def resolve_gitlink(self, path: str, content: bytes) -> GitFolder | None:
        """Return the folder of `modules` or `worktrees` that the file `.git` at `path` leads to, or None."""
        text = content.decode("utf-8", "surrogateescape")
        if not text.startswith("gitdir: ") or len(content) > MAX_GITLINK_BYTES:
            return None
        target = text.removeprefix("gitdir: ").rstrip("\r\n")
        names = split_path(path)[:-1]
        if target.startswith("/"):
            inside = relative_to(target, self._facts.root)
            if inside is None:
                return None
            names, target = [], inside
        for name in split_path(target):
            if name != "..":
                names.append(name)
            elif not names or names[-1].casefold() in (GIT, *GIT_NESTED):
                return None
            else:
                names.pop()
        found = self.locate("/".join(names))
        if found is None or found.rest or found.is_stray or found.folder.outer is None:
            return None
        return found.folder if self.is_there(join_git(found.folder.path, "HEAD")) else None

    def is_there(self, path: str) -> bool:
        """Return whether `path` is there after the changes."""
        change = self._changes.get(path)
        return self.was_there(path) if change is None else change.after.kind != "absent"

    def was_there(self, path: str) -> bool:
        """Return whether `path`, or what a move brought there, was there before the changes."""
        return self._facts.existed(self._find_origin(path))

    def _find_origin(self, path: str) -> str:
        if self._moves:
            names = path.split("/")
            for end in range(len(names), 0, -1):
                source = self._moves.get("/".join(names[:end]))
                if source is not None:
                    return "/".join((source, *names[end:]))
        return path

    def _git_folder(self, path: str) -> GitFolder:
        folder = self._folders.get(path)
        if folder is None:
            change = self._changes.get(path)
            is_new = change is not None and change.kind is ChangeKind.CREATED and not self._facts.existed(path)
            folder = GitFolder(path, Age.NEW if is_new else Age.OLD, "/".join(path.split("/")[:-1]) or ".")
            self._folders[path] = folder
        return folder

    def _bare_folder(self, path: str) -> GitFolder | None:
        if path not in self._folders:
            folder = None
            if _is_repository(path, self.is_there):
                age = Age.OLD if _is_repository(path, self.was_there) else Age.NEW
                folder = GitFolder(path, age, path or ".", is_bare=True)
            self._folders[path] = folder
        return self._folders[path]

    def _descend(self, folder: GitFolder, rest: tuple[str, ...]) -> RepositoryPath:
        """Return the innermost folder of git on the way: those of submodules and worktrees lie in the outer one."""
        if len(rest) < 2 or rest[0] not in GIT_NESTED:
            return RepositoryPath(folder, rest)
        ends: Sequence[int] = (2,) if rest[0] == "worktrees" else range(2, len(rest) + 1)  # `modules/lib/json`
        for end in ends:
            path = join_git(folder.path, "/".join(rest[:end]))
            if rest[0] == "worktrees" or self.is_there(f"{path}/HEAD"):
                is_old = self.was_there(path)
                if is_old and rest[0] == "modules" and not self.was_there(f"{path}/HEAD"):
                    break  # a `HEAD` in a folder of other repositories would hide them
                inner = GitFolder(path, Age.OLD if is_old else Age.NEW, folder.top, folder.is_bare, folder)
                return self._descend(inner, rest[end:])
        return RepositoryPath(folder, rest, is_stray=True)


def _is_repository(path: str, is_there: Callable[[str], bool]) -> bool:
    head, objects, refs, commondir = (join_git(path, name) for name in ESSENTIAL)
    return is_there(head) and ((is_there(objects) and is_there(refs)) or is_there(commondir))


def join_git(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
