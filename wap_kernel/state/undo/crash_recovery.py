"""Decide after a crash which unfinished changes are the run's own work.

The result of an operation follows from the operation and from the stored file. A file that is neither that result nor
the stored file may be another process's work: undo leaves it alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from wap_kernel.files import content_hash
from wap_kernel.files.edit import apply
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import WapError
from wap_kernel.model.limits import MAX_HASHED_BYTES
from wap_kernel.model.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    ModifyFile,
    MoveFile,
    Operation,
    WriteFile,
)
from wap_kernel.model.run import Run
from wap_kernel.state.undo.change_recorder import ChangeRecorder
from wap_kernel.state.undo.file_image import ABSENT, FileImage

EDIT_SECONDS = 10.0
"""Seconds for the edits of one operation, which are applied once more."""

_MAKE_FOLDERS = (WriteFile, CopyFile, MoveFile, CreateDirectory)


def recover_changes(snapshots: ChangeRecorder, run: Run) -> list[int]:
    """Store the ends of unfinished changes, where known; return the positions of their operations."""
    unfinished = snapshots.changes.under_way(run.id)
    found: dict[int, dict[str, FileImage]] = {}
    for change in unfinished:
        found.setdefault(change.position, {})[change.path] = change.before
    for number, position, path, before in unfinished:
        if position < run.position:
            continue  # how it ended could not be stored, and what came after it is not its work
        with suppress(OSError, WapError):
            now = snapshots.imager.image(path, snapshots.hashed())
            operation = run.steps[position].operation
            if now.is_like(before) or _is_work_of(snapshots, operation, path, now, found[position]):
                snapshots.changes.end({path: before}, [number], {path: now})
    return sorted({change.position for change in unfinished})


def _is_work_of(
    snapshots: ChangeRecorder, operation: Operation, path: str, now: FileImage, found: Mapping[str, FileImage]
) -> bool:
    """Return whether `operation` left `now` at `path`; `found` are the images before, at all its paths."""
    if isinstance(operation, DeleteFile):
        return now == ABSENT
    if isinstance(operation, MoveFile) and _is_moved(snapshots, operation, path, now, found):
        return True
    if now.kind == "folder":
        return found[path] == ABSENT and isinstance(operation, _MAKE_FOLDERS)
    return now.digest is not None and now.digest == _digest_left(snapshots, operation, found[path])


def _is_moved(
    snapshots: ChangeRecorder, operation: MoveFile, path: str, now: FileImage, found: Mapping[str, FileImage]
) -> bool:
    source = snapshots.files.resolve(operation.source, follow=False)
    destination = snapshots.files.resolve(operation.destination, follow=False)
    if _is_below(path, source):
        return now == ABSENT
    moved = found.get(source + path[len(destination) :]) if _is_below(path, destination) else None
    return moved is not None and now.is_like(moved)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _digest_left(snapshots: ChangeRecorder, operation: Operation, before: FileImage) -> str | None:
    """Return the digest of the file that the operation makes of `before`."""
    if isinstance(operation, CopyFile):
        return snapshots.imager.image(snapshots.files.resolve(operation.source), snapshots.hashed()).digest
    content = _content_left(snapshots, operation, before)
    return None if content is None else content_hash.hash_bytes(content).removeprefix("sha256:")


def _content_left(snapshots: ChangeRecorder, operation: Operation, before: FileImage) -> bytes | None:
    if isinstance(operation, WriteFile) and (operation.mode != "append" or before == ABSENT):
        return operation.content
    stored = None if before.digest is None else snapshots.blobs.read(before.digest)
    if stored is None:
        return None
    if isinstance(operation, WriteFile):
        return stored + operation.content
    if isinstance(operation, ModifyFile):
        deadline = Deadline(EDIT_SECONDS)
        return apply.apply_edits(stored, operation.edits, max_size=MAX_HASHED_BYTES, deadline=deadline)
    return None
