"""The changes of a command or an operation: a ChangeSet of Changes, each with images before and after. Pure data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from json.encoder import encode_basestring_ascii as quote
from typing import Literal

ImageKind = Literal["absent", "file", "link", "folder", "special"]


@dataclass(frozen=True)
class FileImage:
    """The state of a path."""

    kind: ImageKind = "absent"
    mode: int | None = None
    size: int | None = None
    target: str | None = None
    """The target of a link."""
    stamp: str | None = None
    """Inode, size and time of modification, by which a later change of a file is noticed."""
    stored: str | None = None
    """The name in the ImageStore of the file, link or folder that was displaced here."""

    @classmethod
    def load(cls, text: str) -> FileImage:
        return cls(**json.loads(text))

    def dump(self) -> str:
        """Return the image as JSON, written by hand: a command may change thousands of files."""
        parts = [f'{{"kind": "{self.kind}"']
        if self.mode is not None:
            parts.append(f'"mode": {self.mode}')
        if self.size is not None:
            parts.append(f'"size": {self.size}')
        if self.target is not None:
            parts.append(f'"target": {quote(self.target)}')
        if self.stamp is not None:
            parts.append(f'"stamp": {quote(self.stamp)}')
        if self.stored is not None:
            parts.append(f'"stored": {quote(self.stored)}')
        return ", ".join(parts) + "}"

    def with_stored(self, name: str) -> FileImage:
        return FileImage(self.kind, self.mode, self.size, self.target, self.stamp, name)

    def is_like(self, other: FileImage) -> bool:
        """Return whether nothing has changed between the two images."""
        return (self.kind, self.mode, self.size, self.target, self.stamp) == (
            other.kind,
            other.mode,
            other.size,
            other.target,
            other.stamp,
        )


ABSENT = FileImage()


class ChangeKind(str, Enum):
    """The ways in which a path can change."""

    CREATED = "created"
    CHANGED = "changed"
    """The content of a file or the target of a link is another, or the path has become another kind of file."""
    DELETED = "deleted"
    MOVED = "moved"
    """A folder that was there before has another path now; `Change.source` is its old one."""
    MODE = "mode"
    """The permissions are others, and nothing else."""
    TOUCHED = "touched"
    """The time of modification is another, and nothing else; it is applied and undone, and not shown."""
    APPENDED = "appended"
    """A file operation has appended to a file in place; what was there before is the beginning of the file."""


@dataclass(frozen=True)
class Change:
    """One path that changed. A created or deleted folder has a Change of its own besides those of all paths below."""

    path: str
    """The real path, relative to the root; no link leads there."""
    kind: ChangeKind
    before: FileImage = ABSENT
    after: FileImage = ABSENT
    source: str | None = None


@dataclass(frozen=True)
class ChangeSet:
    """The changes of one command or of one atomic run, folders before what lies below them."""

    changes: tuple[Change, ...] = ()

    def __iter__(self) -> Iterator[Change]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    @property
    def added_bytes(self) -> int:
        """Return the size of all files that were created or changed."""
        return sum(change.after.size or 0 for change in self.changes if change.after.kind == "file")
