"""Protect paths that no preset and no layer can open.

Hidden: the state folder and Jupyter's runtime folder, whose files have the server's token, which would undo everything;
and the files in which a person's programs store passwords, keys and tokens. Read-only: files that a later start of a
shell, an interpreter, Jupyter or git would execute or obey.

Names are compared without case: on a filesystem that ignores case `.GIT/hooks` is `.git/hooks`, and elsewhere nobody
misses a `.GIT`.

`current_paths.py` finds the paths of this machine, and those that change while the server runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from wap_kernel.files.interface import FindFolders
from wap_kernel.model.errors import PathClosed
from wap_kernel.model.paths import Access, split_path


class Protection(IntEnum):
    """The degree to which a path is protected."""

    OPEN = 0
    READ_ONLY = 1
    HIDDEN = 2


READ_ONLY_NAMES = (".cws-policy.json", ".git")
"""Names that are protected in every folder, with all below them, whether or not they exist.

All of `.git`, not only its hooks and config: a `.git` file or a `.git/commondir` makes git read its config elsewhere.
"""


@dataclass(frozen=True)
class ProtectedPaths:
    """A `Guard`. `hidden` and `read_only` are paths relative to the root, as tuples of folded names."""

    hidden: frozenset[tuple[str, ...]]
    read_only: frozenset[tuple[str, ...]]
    secrets: tuple[str, ...] = ()
    """The hidden paths that belong to the server or its user, absolute, wherever they lie: for sandboxes."""
    fixed_paths: tuple[str, ...] = ()
    """All hidden and read-only paths, as opposed to names, relative to the root, in their own case."""
    prefixes: tuple[str, ...] = ()
    """Absolute folders of Python and its programs; those below the root are read-only."""

    def level(self, path: str) -> Protection:
        """Return how far `path`, a resolved path relative to the root, is protected."""
        folded = path.casefold()
        if not (self._first_names & {"", folded.partition("/")[0]} or any(name in folded for name in READ_ONLY_NAMES)):
            return Protection.OPEN  # the case of nearly every path, and this is asked for every file of a search
        names = fold_path(path)
        if any(names[: len(protected)] == protected for protected in self.hidden):
            return Protection.HIDDEN
        if any(names[: len(protected)] == protected for protected in self.read_only) or any(
            name in READ_ONLY_NAMES for name in names
        ):
            return Protection.READ_ONLY
        return Protection.OPEN

    @cached_property
    def _first_names(self) -> frozenset[str]:
        return frozenset(path[0] if path else "" for path in (*self.hidden, *self.read_only))

    def check(self, path: str, access: Access, *, folder: bool = False) -> None:
        level = self.level(path)
        if level is Protection.HIDDEN:
            raise PathClosed(
                f"The path is protected: {path}",
                hint="The path holds secrets of the server or of its user.",
                path=path,
                rule="protected",
            )
        if level is Protection.READ_ONLY and access is Access.WRITE:
            raise read_only_error(path)

    def check_tree(self, path: str) -> None:
        """Raise PathClosed for a folder with something protected in it: it can be neither moved nor removed."""
        names = fold_path(path)
        if any(protected[: len(names)] == names for protected in (*self.hidden, *self.read_only)):
            raise PathClosed(
                f"The folder holds protected files: {path}",
                hint="Change single files in it instead.",
                path=path,
                rule="protected",
            )

    def snapshot(self) -> ProtectedPaths:
        """Return the protected paths as they are now, for a pure decision."""
        return self

    def find_link_targets(self) -> Mapping[str, Protection]:
        """Return where protected names that are links lead now, with the links on the way, relative to the root."""
        return {}

    def may_hold(self, path: str) -> bool:
        """Return False: `check_tree` knows the protected paths, and protected names stay so wherever they go."""
        return False

    def hidden_among(self, folder: str, names: Sequence[str], folders: FindFolders = tuple) -> Collection[str]:
        hidden = self.hidden_names(folder)
        return [name for name in names if name.casefold() in hidden] if hidden else ()

    def hidden_names(self, folder: str) -> frozenset[str]:
        return self._hidden_in.get(folder.casefold(), _NO_NAMES)

    def read_only_names(self, folder: str) -> frozenset[str]:
        """Return the casefolded names in `folder` that can be read but not changed."""
        return self._read_only_in.get(folder.casefold(), _NO_NAMES).union(READ_ONLY_NAMES)

    # Listings ask for every folder, and there are many protected paths when the root is the home folder.

    @cached_property
    def _hidden_in(self) -> dict[str, frozenset[str]]:
        return _by_folder(self.hidden)

    @cached_property
    def _read_only_in(self) -> dict[str, frozenset[str]]:
        return _by_folder(self.read_only)

    def names_leading_to_hidden(self, folder: str) -> frozenset[str]:
        names = fold_path(folder)
        depth = len(names)
        return frozenset(path[depth] for path in self.hidden if len(path) > depth + 1 and path[:depth] == names)


_NO_NAMES: frozenset[str] = frozenset()


def read_only_error(path: str) -> PathClosed:
    return PathClosed(
        f"The path is read-only: {path}",
        hint="Programs obey or execute what stands there, so only a person changes it.",
        path=path,
        rule="protected",
    )


def _by_folder(paths: Iterable[tuple[str, ...]]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for path in paths:
        if path:
            found.setdefault("/".join(path[:-1]) or ".", set()).add(path[-1])
    return {folder: frozenset(names) for folder, names in found.items()}


def fold_path(path: str) -> tuple[str, ...]:
    """Return the names of a path relative to the root, without case."""
    return tuple(name.casefold() for name in split_path(path))
