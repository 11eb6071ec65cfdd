"""Rename files that a command created at protected paths.

A mount can guard only what exists: there is no mount point for a `.bash_profile` that is not there. So a file that
appears there while a command runs is renamed, to a name that no program looks for. It is not deleted: it may be a
person's own.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable

from wap_kernel.files.interface import Files
from wap_kernel.model.errors import WapError

MARK = "set-aside"


def find_missing(files: Files, paths: Iterable[str]) -> tuple[str, ...]:
    """Return those of `paths` that do not exist."""
    return tuple(path for path in paths if not _is_there(files, path))


def quarantine_files(files: Files, paths: Collection[str]) -> list[tuple[str, str]]:
    """Rename those of `paths` that exist now, and return the old and new paths; what cannot be renamed stays."""
    moved = []
    for path in sorted(paths):  # a folder comes first, and takes along what is below
        if not _is_there(files, path):
            continue
        new = f"{path}.{MARK}-{secrets.token_hex(4)}"
        try:
            files.rename(path, new)
        except (OSError, WapError):
            continue
        moved.append((path, new))
    return moved


def _is_there(files: Files, path: str) -> bool:
    try:
        files.stat(path, follow=False)
    except (OSError, WapError):
        return False
    return True
