"""Digest what changes would do now, so that an approval holds for what it showed and for nothing else."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator

from wap_kernel.files.contained.root import Root
from wap_kernel.model.changes import Change
from wap_kernel.state.changes.tree_manifest import walk_tree

_CHUNK = 1024 * 1024


def digest_effect(root: Root, upper: str, changes: Iterable[Change]) -> str:
    """Return a digest of changes whose new files are in the folder `upper`, and of the folders that they move.

    A file is known by its inode and the time of its last change, which no command can set.
    """
    hashed = hashlib.sha256()
    for row in _describe_changes(root, upper, changes):
        hashed.update(json.dumps(row).encode() + b"\n")
    return hashed.hexdigest()


def digest_contents(upper: str, changes: Iterable[Change]) -> str:
    """Return a digest of changes that is the same where the same is done again: of paths, modes and contents."""
    hashed = hashlib.sha256()
    for change in changes:
        hashed.update(json.dumps([*_describe(change), change.after.size]).encode() + b"\n")
        if change.after.kind == "file":
            descriptor = os.open(os.path.join(upper, change.path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                while chunk := file.read(_CHUNK):
                    hashed.update(chunk)
    return hashed.hexdigest()


def _describe(change: Change) -> list[object]:
    after = change.after
    return [change.path, change.kind.value, change.source, change.before.kind, after.kind, after.mode, after.target]


def _describe_changes(root: Root, upper: str, changes: Iterable[Change]) -> Iterator[list[object]]:
    for change in changes:
        yield _describe(change)
        if change.after.kind == "file":
            yield _identify(os.lstat(os.path.join(upper, change.path)))
        if change.source is not None:
            yield from _describe_tree(root, change.source)


def _describe_tree(root: Root, path: str) -> Iterator[list[object]]:
    """Yield everything in a folder of the workspace, which moves with it."""
    try:
        location = root.locate(path)
    except OSError:
        return
    with location:
        yield _identify(os.stat(location.name, dir_fd=location.fd, follow_symlinks=False))
        for below, found, target in walk_tree(location.fd, location.name):
            yield [below, target, *_identify(found)]


def _identify(found: os.stat_result) -> list[object]:
    return [found.st_ino, found.st_mode, found.st_ctime_ns]
