"""The paths that an operation names, and how it uses them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class Access(Enum):
    """The use of a path: reading or writing."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True)
class PathAccess:
    """A path that an operation reads or writes."""

    path: str
    access: Access
    follow: bool = True
    """True if a link in the last position is followed."""
    folder: bool = False
    """True if the path is or may be a folder that is not read as a file; the file primitives check when they act."""

    def with_path(self, path: str) -> PathAccess:
        """Return the same access to `path`, the resolved form of this path."""
        return replace(self, path=path)
