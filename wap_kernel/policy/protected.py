"""Paths that are protected always, in every preset and layer.

Unreadable: the state folder and Jupyter's runtime folder, whose files hold the server's token; reading one would undo
everything. Read-only: what a later start of a shell, an interpreter, Jupyter or git would execute or obey.

Names are compared without case: on a filesystem that ignores case `.GIT/hooks` is `.git/hooks`, and elsewhere nobody
misses a `.GIT`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

from wap_kernel.errors import PermissionDenied
from wap_kernel.files.paths import below, split
from wap_kernel.files.primitives import Access


class Level(IntEnum):
    OPEN = 0
    READ_ONLY = 1
    HIDDEN = 2


READ_ONLY_NAMES = (".cws-policy.json",)
"""Protected wherever they stand, whether or not they exist."""

READ_ONLY_PAIRS = ((".git", "hooks"), (".git", "config"))
"""A folder name and a name directly in it."""

HOME_FILES = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".xprofile"),
    *(".config/fish", ".config/environment.d", ".config/autostart", ".pam_environment", ".xsessionrc"),
    *(".gitconfig", ".config/git", ".ssh", ".condarc", ".npmrc", ".pypirc", ".config/pip", ".pip"),
)
"""Read by shells, logins, git and installers when they start; relative to the home folder."""


@dataclass(frozen=True)
class ProtectedPaths:
    """A `Guard`. `hidden` and `read_only` are paths relative to the root, as tuples of folded names."""

    hidden: frozenset[tuple[str, ...]]
    read_only: frozenset[tuple[str, ...]]

    def level(self, path: str) -> Level:
        """How far `path`, a resolved path relative to the root, is protected."""
        names = _fold(path)
        level = Level.OPEN
        for end in range(len(names) + 1):
            prefix = names[:end]
            if prefix in self.hidden:
                return Level.HIDDEN
            if prefix in self.read_only:
                level = Level.READ_ONLY
        if level is Level.OPEN and _obeyed_by_others(names):
            level = Level.READ_ONLY
        return level

    def check(self, path: str, access: Access) -> None:
        level = self.level(path)
        if level is Level.HIDDEN:
            raise PermissionDenied(
                f"The path is protected: {path}", hint="It belongs to the server itself.", path=path, rule="protected"
            )
        if level is Level.READ_ONLY and access is Access.WRITE:
            raise PermissionDenied(
                f"The path is read-only: {path}",
                hint="Programs obey or execute what stands there, so only a person changes it.",
                path=path,
                rule="protected",
            )

    def check_tree(self, path: str) -> None:
        """A folder that holds something protected cannot be moved or removed, nor can one become `.git`."""
        names = _fold(path)
        holds = any(protected[: len(names)] == names for protected in (*self.hidden, *self.read_only))
        if holds or names[-1:] == (".git",):
            raise PermissionDenied(
                f"The folder holds protected files: {path}",
                hint="Change single files in it instead.",
                path=path,
                rule="protected",
            )

    def hidden_names(self, folder: str) -> frozenset[str]:
        names = _fold(folder)
        return frozenset(path[-1] for path in self.hidden if path and path[:-1] == names)


def _fold(path: str) -> tuple[str, ...]:
    return tuple(name.casefold() for name in split(path))


def _obeyed_by_others(names: tuple[str, ...]) -> bool:
    if any(name in READ_ONLY_NAMES for name in names):
        return True
    return any(pair in READ_ONLY_PAIRS for pair in pairwise(names))


def protected_paths(
    root: str, state_dir: str, *, environment: Mapping[str, str] | None = None, home: str | None = None
) -> ProtectedPaths:
    """What is protected on this machine below `root`."""
    from jupyter_core.paths import (
        jupyter_config_dir,
        jupyter_config_path,
        jupyter_data_dir,
        jupyter_path,
        jupyter_runtime_dir,
    )

    environment = os.environ if environment is None else environment
    home = os.path.expanduser("~") if home is None else home
    ipython = environment.get("IPYTHONDIR") or os.path.join(home, ".ipython")
    prefixes = (sys.prefix, sys.base_prefix, environment.get("CONDA_PREFIX") or sys.prefix)
    hidden = (state_dir, jupyter_runtime_dir())
    read_only = (
        *(jupyter_config_dir(), jupyter_data_dir(), *jupyter_config_path(), *jupyter_path(), ipython),
        *(os.path.join(home, name) for name in HOME_FILES),
        *prefixes,
    )
    return ProtectedPaths(
        hidden=frozenset(_relative(root, hidden, ancestors=True)),
        # A root inside sys.prefix is somebody's work, so only what lies strictly below the root counts here.
        read_only=frozenset(_relative(root, read_only, ancestors=False)),
    )


def _relative(root: str, paths: Iterable[str], *, ancestors: bool) -> Iterable[tuple[str, ...]]:
    real_root = os.path.realpath(root)
    for path in paths:
        for name in {os.path.realpath(path), os.path.abspath(path)}:
            relative = below(name, real_root)
            if relative:
                yield _fold(relative)
            elif ancestors and below(real_root, name) is not None:
                yield ()
