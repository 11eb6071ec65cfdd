"""What stands at a path, as far as undo cares: kind, content by hash, mode, where a link points. Pure data."""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass, replace
from typing import Literal

from wap_kernel.files.interface import FileKind, LinkStat

What = Literal["absent", "file", "link", "folder", "special"]


@dataclass(frozen=True)
class Image:
    """`digest` in a before-image says that the content was kept."""

    kind: What = "absent"
    mode: int | None = None
    size: int | None = None
    target: str | None = None
    digest: str | None = None
    stamp: str | None = None
    """Of a file: what tells its content from another where it was too large to be hashed."""

    @classmethod
    def of(cls, look: LinkStat | None, digest: str | None = None) -> Image:
        if look is None:
            return ABSENT
        mode = stat.S_IMODE(look.mode)
        if look.kind is FileKind.FILE:
            return cls("file", mode, look.size, digest=digest, stamp=f"{look.inode}:{look.size}:{look.mtime_ns}")
        if look.kind is FileKind.LINK:
            return cls("link", target=look.target)
        return cls("folder" if look.kind is FileKind.FOLDER else "special", mode)

    @classmethod
    def load(cls, text: str) -> Image:
        return cls(**json.loads(text))

    def dump(self) -> str:
        return json.dumps({name: value for name, value in vars(self).items() if value is not None})

    @property
    def can_be_restored(self) -> bool:
        return self.kind != "special" and (self.kind != "file" or self.digest is not None)

    def has_content_of(self, other: Image) -> bool:
        """Whether it is the same but for the mode."""
        if self.kind != other.kind:
            return False
        if self.kind == "link":
            return self.target == other.target
        if self.kind == "file":
            if self.digest is not None and other.digest is not None:
                return self.digest == other.digest
            return self.stamp == other.stamp
        return True

    def is_like(self, other: Image) -> bool:
        return self.has_content_of(other) and self.mode == other.mode

    def opened(self) -> Image:
        """A folder while something is put back in it: its owner may write there."""
        return replace(self, mode=(self.mode or 0) | 0o700) if self.kind == "folder" else self


ABSENT = Image()
