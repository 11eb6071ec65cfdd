"""The image of a path for undo: kind, hash of the content, mode, target of a link. Pure data."""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass, replace
from typing import Literal

from wap_kernel.files.interface import FileKind, LinkStat

ImageKind = Literal["absent", "file", "link", "folder", "special"]


@dataclass(frozen=True)
class FileImage:
    """A path's state; a before-image with a `digest` has its content in the store."""

    kind: ImageKind = "absent"
    mode: int | None = None
    size: int | None = None
    target: str | None = None
    digest: str | None = None
    stamp: str | None = None
    """Inode, size and time of a file, which stand for the content of one too large to be hashed."""

    @classmethod
    def of(cls, link_stat: LinkStat | None, digest: str | None = None) -> FileImage:
        if link_stat is None:
            return ABSENT
        mode = stat.S_IMODE(link_stat.mode)
        if link_stat.kind is FileKind.FILE:
            return cls(
                "file",
                mode,
                link_stat.size,
                digest=digest,
                stamp=f"{link_stat.inode}:{link_stat.size}:{link_stat.mtime_ns}",
            )
        if link_stat.kind is FileKind.LINK:
            return cls("link", target=link_stat.target)
        return cls("folder" if link_stat.kind is FileKind.FOLDER else "special", mode)

    @classmethod
    def load(cls, text: str) -> FileImage:
        return cls(**json.loads(text))

    def dump(self) -> str:
        return json.dumps({name: value for name, value in vars(self).items() if value is not None})

    @property
    def can_be_restored(self) -> bool:
        return self.kind != "special" and (self.kind != "file" or self.digest is not None)

    def has_content_of(self, other: FileImage) -> bool:
        """Return whether both are the same but for the mode."""
        if self.kind != other.kind:
            return False
        if self.kind == "link":
            return self.target == other.target
        if self.kind == "file":
            if self.digest is not None and other.digest is not None:
                return self.digest == other.digest
            return self.stamp == other.stamp
        return True

    def is_like(self, other: FileImage) -> bool:
        return self.has_content_of(other) and self.mode == other.mode

    def opened(self) -> FileImage:
        """Return a folder's image with write permission for its owner, as while files are restored in it."""
        return replace(self, mode=(self.mode or 0) | 0o700) if self.kind == "folder" else self


ABSENT = FileImage()
