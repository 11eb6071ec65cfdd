"""Take images of paths, with the content hashed or stored; a content that is known is not read again."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import TypeVar

from wap_kernel.files.interface import FileKind, Files, LinkStat, OpenFile
from wap_kernel.files.tree_walk import try_open
from wap_kernel.state.undo.blob_store import CHUNK, BlobStore
from wap_kernel.state.undo.file_image import FileImage
from wap_kernel.state.undo.manifest import RACY_NS

MAX_REMEMBERED = 200_000
"""Hashes that are cached, each some 300 bytes."""
TRIES = 3
"""Attempts to read a file that changes meanwhile, such as a log."""

T = TypeVar("T")
_Key = tuple[int, int, int, int, int]


class Budget:
    """The bytes that may still be read."""

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
    """Takes images, and caches hashes."""

    def __init__(self, files: Files, blobs: BlobStore) -> None:
        self._files = files
        self._blobs = blobs
        self._known: dict[_Key, str] = {}

    def image(self, path: str, budget: Budget) -> FileImage:
        """Return the present image of a path, hashed as far as the budget goes."""
        return self.image_of(path, self._files.lstat(path), budget)

    def image_of(self, path: str, link_stat: LinkStat | None, budget: Budget) -> FileImage:
        if link_stat is None or link_stat.kind is not FileKind.FILE:
            return FileImage.of(link_stat)
        known = self._known.get(_key(link_stat))
        if known is not None:
            return FileImage.of(link_stat, known)
        image, _ = self._read(path, link_stat, budget, _hash)
        return image

    def keep(self, path: str, link_stat: LinkStat, budget: Budget) -> tuple[FileImage, str | None]:
        """Return the image with its content stored, or the reason why it is not."""
        if link_stat.kind is not FileKind.FILE:
            return FileImage.of(link_stat), "it is no file" if link_stat.kind is FileKind.SPECIAL else None
        known = self._known.get(_key(link_stat))
        if known is not None and link_stat.size <= budget.limit and self._blobs.mark_used(known, link_stat.size):
            budget.spend(link_stat.size)
            return FileImage.of(link_stat, known), None
        return self._read(path, link_stat, budget, self._store)

    def _store(self, file: OpenFile, limit: int) -> str | None:
        stored = self._blobs.keep(file, limit)
        return None if stored is None else stored.digest

    def _read(
        self, path: str, link_stat: LinkStat, budget: Budget, read: Callable[[OpenFile, int], str | None]
    ) -> tuple[FileImage, str | None]:
        for attempt in range(1, TRIES + 1):
            if link_stat.size > budget.limit:
                return FileImage.of(link_stat), budget.refusal(link_stat.size)
            began = time.time_ns()
            file = try_open(self._files.open, path)
            if file is None:
                return FileImage.of(self._files.lstat(path)), "it cannot be read"
            with file:
                digest = read(file, budget.limit) if file.stat.path == path else None
            now = self._files.lstat(path)
            if now is None or now.kind is not FileKind.FILE:
                return FileImage.of(now), None
            if digest is not None and (now == link_stat or attempt == TRIES):
                self._remember(link_stat, digest, began)
                budget.spend(link_stat.size)
                return FileImage.of(now, digest), None
            link_stat = now
        return FileImage.of(link_stat), budget.refusal(link_stat.size)

    def _remember(self, link_stat: LinkStat, digest: str, began: int) -> None:
        if link_stat.ctime_ns < began - RACY_NS:
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            self._known[_key(link_stat)] = digest


def _key(link_stat: LinkStat) -> _Key:
    return link_stat.device, link_stat.inode, link_stat.size, link_stat.mtime_ns, link_stat.ctime_ns


def _hash(file: OpenFile, limit: int) -> str | None:
    digest, size = hashlib.sha256(), 0
    while chunk := file.read(min(CHUNK, max(file.stat.size - size, 0) + 1)):
        size += len(chunk)
        if size > limit:
            return None
        digest.update(chunk)
    return digest.hexdigest()
