"""What a command made at a protected place that was empty when it started is set aside when it ends.

A mount can guard what exists, and nothing else: there is no mount point for a `.bash_profile` that is not there. So
what appears there meanwhile is renamed, to where no program looks for it. It is not deleted: it may be a person's own.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable

from wap_kernel.files.interface import Files
from wap_kernel.model.errors import WapError

MARK = "set-aside"


def find_missing(files: Files, paths: Iterable[str]) -> tuple[str, ...]:
    """Those of `paths` at which nothing stands."""
    return tuple(path for path in paths if not _is_there(files, path))


def quarantine_files(files: Files, paths: Collection[str]) -> list[tuple[str, str]]:
    """Rename what stands at one of `paths` now; returns the old and the new paths. What cannot be renamed stays."""
    moved = []
    for path in sorted(paths):  # what is above comes first, and takes along what is below
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
