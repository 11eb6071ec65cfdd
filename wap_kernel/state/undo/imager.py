"""Taking images of what stands at a path, with the content hashed or kept; what is known already is not read again."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import TypeVar

from wap_kernel.files.interface import Files, FileKind, LinkStat, OpenFile
from wap_kernel.files.tree_walk import try_open
from wap_kernel.state.undo.blob_store import CHUNK, Blobs
from wap_kernel.state.undo.file_image import Image
from wap_kernel.state.undo.manifest import RACY_NS

MAX_REMEMBERED = 200_000
"""Hashes, each some 300 bytes."""
TRIES = 3
"""A file that is being written to, such as a log, may never hold still."""

T = TypeVar("T")
_Key = tuple[int, int, int, int, int]


class Budget:
    """How much more may be read."""

    def __init__(self, per_file: int, total: int) -> None:
        self.per_file = per_file
        self.total = total
        self._left = total

    @property
    def limit(self) -> int:
        return min(self.per_file, self._left)

    def spend(self, size: int) -> None:
        self._left = max(0, self._left - size)

    def refusal(self, size: int) -> str:
        if size > self.per_file:
            return f"it has {size} bytes, more than {self.per_file}"
        return f"all that is kept together would be more than {self.total} bytes"


class Imager:
    def __init__(self, files: Files, blobs: Blobs) -> None:
        self._files = files
        self._blobs = blobs
        self._known: dict[_Key, str] = {}

    def image(self, path: str, budget: Budget) -> Image:
        """Of what stands there now, for a comparison; the content is hashed as far as the budget goes."""
        return self.image_of(path, self._files.lstat(path), budget)

    def image_of(self, path: str, look: LinkStat | None, budget: Budget) -> Image:
        if look is None or look.kind is not FileKind.FILE:
            return Image.of(look)
        known = self._known.get(_key(look))
        if known is not None:
            return Image.of(look, known)
        image, _ = self._read(path, look, budget, _hash)
        return image

    def keep(self, path: str, look: LinkStat, budget: Budget) -> tuple[Image, str | None]:
        """With the content in the store, or the reason why it is not."""
        if look.kind is not FileKind.FILE:
            return Image.of(look), "it is no file" if look.kind is FileKind.SPECIAL else None
        known = self._known.get(_key(look))
        if known is not None and look.size <= budget.limit and self._blobs.touch(known, look.size):
            budget.spend(look.size)
            return Image.of(look, known), None
        return self._read(path, look, budget, self._store)

    def _store(self, file: OpenFile, limit: int) -> str | None:
        kept = self._blobs.keep(file, limit)
        return None if kept is None else kept.digest

    def _read(
        self, path: str, look: LinkStat, budget: Budget, read: Callable[[OpenFile, int], str | None]
    ) -> tuple[Image, str | None]:
        for attempt in range(1, TRIES + 1):
            if look.size > budget.limit:
                return Image.of(look), budget.refusal(look.size)
            began = time.time_ns()
            file = try_open(self._files.open, path)
            if file is None:
                return Image.of(self._files.lstat(path)), "it cannot be read"
            with file:
                digest = read(file, budget.limit) if file.stat.path == path else None
            now = self._files.lstat(path)
            if now is None or now.kind is not FileKind.FILE:
                return Image.of(now), None
            if digest is not None and (now == look or attempt == TRIES):
                self._remember(look, digest, began)
                budget.spend(look.size)
                return Image.of(now, digest), None
            look = now
        return Image.of(look), budget.refusal(look.size)

    def _remember(self, look: LinkStat, digest: str, began: int) -> None:
        if look.ctime_ns < began - RACY_NS:
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            self._known[_key(look)] = digest


def _key(look: LinkStat) -> _Key:
    return look.device, look.inode, look.size, look.mtime_ns, look.ctime_ns


def _hash(file: OpenFile, limit: int) -> str | None:
    digest, size = hashlib.sha256(), 0
    while chunk := file.read(min(CHUNK, max(file.stat.size - size, 0) + 1)):
        size += len(chunk)
        if size > limit:
            return None
        digest.update(chunk)
    return digest.hexdigest()
