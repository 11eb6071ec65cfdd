"""Take the images of entries and of whole folders, by which later changes are noticed."""

from __future__ import annotations

import json
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from wap_kernel.files.contained.changer import make_stamp
from wap_kernel.files.contained.copies import open_folder
from wap_kernel.model.changes import ABSENT, FileImage, ImageKind

_KINDS: Mapping[int, ImageKind] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


def take_image(folder: int, name: str) -> FileImage:
    """Return the image of an entry of an open folder."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return make_image(found, os.readlink(name, dir_fd=folder) if stat.S_ISLNK(found.st_mode) else None)
    except FileNotFoundError:
        return ABSENT


def make_image(found: os.stat_result, target: str | None = None) -> FileImage:
    """Return an image; a folder's stamp is its inode alone, for its size and times change with its entries."""
    kind = _KINDS.get(stat.S_IFMT(found.st_mode), "special")
    if kind == "file":
        return FileImage("file", stat.S_IMODE(found.st_mode), found.st_size, stamp=make_stamp(found))
    if kind == "link":
        return FileImage("link", target=target, stamp=make_stamp(found))
    return FileImage(kind, stat.S_IMODE(found.st_mode), stamp=str(found.st_ino))


@dataclass(frozen=True)
class TreeManifest:
    """The images of everything below a folder, by path relative to the folder."""

    images: Mapping[str, FileImage]

    @classmethod
    def take(cls, folder: int, name: str) -> TreeManifest:
        """Return the manifest of an entry of an open folder, which is empty unless the entry is a folder."""
        images: dict[str, FileImage] = {}
        with suppress(FileNotFoundError, NotADirectoryError):
            for path, found, target in walk_tree(folder, name):
                images[path] = make_image(found, target)
        return cls(images)

    @classmethod
    def load(cls, data: bytes) -> TreeManifest:
        return cls({path: FileImage(*values) for path, values in json.loads(zlib.decompress(data)).items()})

    def dump(self) -> bytes:
        rows = {path: list(vars(image).values()) for path, image in self.images.items()}
        return zlib.compress(json.dumps(rows).encode(), 1)

    @property
    def size(self) -> int:
        """Return the bytes of all files."""
        return sum(image.size or 0 for image in self.images.values())

    def find_foreign(
        self, now: TreeManifest, is_same: Callable[[FileImage, FileImage], bool] = FileImage.is_like
    ) -> list[str]:
        """Return the files and links of `now` that are not in this manifest, or not as they are in it."""
        return [
            path
            for path, image in now.images.items()
            if image.kind != "folder" and (path not in self.images or not is_same(image, self.images[path]))
        ]


def walk_tree(folder: int, name: str) -> Iterator[tuple[str, os.stat_result, str | None]]:
    """Yield the path, the lstat and the target of everything below the folder `name`; no link is followed.

    A folder that is closed to its owner is open to him while the walk is in it.
    """
    with ExitStack() as opened:
        stack = [_OpenFolder("", folder, name, opened)]
        while stack:
            here = stack[-1]
            entry = next(here.names, None)
            if entry is None:
                stack.pop().close()
                continue
            try:
                found = os.stat(entry, dir_fd=here.fd, follow_symlinks=False)
                target = os.readlink(entry, dir_fd=here.fd) if stat.S_ISLNK(found.st_mode) else None
            except FileNotFoundError:
                continue
            path = here.prefix + entry
            yield path, found, target
            if stat.S_ISDIR(found.st_mode):
                with suppress(FileNotFoundError, NotADirectoryError):
                    stack.append(_OpenFolder(f"{path}/", here.fd, entry, opened))


class _OpenFolder:
    def __init__(self, prefix: str, folder: int, name: str, opened: ExitStack) -> None:
        self.prefix = prefix
        self._stack = ExitStack()
        self.fd = self._stack.enter_context(open_folder(folder, name))
        opened.callback(self.close)
        with os.scandir(self.fd) as entries:
            self.names = iter(sorted(entry.name for entry in entries))

    def close(self) -> None:
        self._stack.close()
