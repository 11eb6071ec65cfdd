"""After a crash: which of the changes that were under way are the run's own work.

What an operation leaves can be told from the operation and from what it found, which was kept. What is neither that nor
as it was may be somebody else's: nobody knows, and undo leaves it alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from wap_kernel.files import content_hash
from wap_kernel.files.edit import apply
from wap_kernel.model.deadline import Deadline
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
from wap_kernel.state.undo.change_recorder import Snapshots
from wap_kernel.state.undo.file_image import ABSENT, Image

EDIT_SECONDS = 10.0
"""For the edits of one operation, which are worked out once more."""

_MAKE_FOLDERS = (WriteFile, CopyFile, MoveFile, CreateDirectory)


def settle(snapshots: Snapshots, run: Run) -> list[int]:
    """Store how they ended, where that is known; the positions of the operations that had begun to change files."""
    begun = snapshots.changes.under_way(run.id)
    found: dict[int, dict[str, Image]] = {}
    for change in begun:
        found.setdefault(change.position, {})[change.path] = change.before
    for number, position, path, before in begun:
        if position < run.position:
            continue  # how it ended could not be stored, and what came after it is not its work
        with suppress(OSError, WapError):
            now = snapshots.imager.image(path, snapshots.hashed())
            operation = run.steps[position].operation
            if now.is_like(before) or _is_work_of(snapshots, operation, path, now, found[position]):
                snapshots.changes.end({path: before}, [number], {path: now})
    return sorted({change.position for change in begun})


def _is_work_of(snapshots: Snapshots, operation: Operation, path: str, now: Image, found: Mapping[str, Image]) -> bool:
    """`found`: by the operation, at all the paths that it would change."""
    if isinstance(operation, DeleteFile):
        return now == ABSENT
    if isinstance(operation, MoveFile) and _is_moved(snapshots, operation, path, now, found):
        return True
    if now.kind == "folder":
        return found[path] == ABSENT and isinstance(operation, _MAKE_FOLDERS)
    return now.digest is not None and now.digest == _digest_left(snapshots, operation, found[path])


def _is_moved(snapshots: Snapshots, operation: MoveFile, path: str, now: Image, found: Mapping[str, Image]) -> bool:
    source = snapshots.files.resolve(operation.source, follow=False)
    destination = snapshots.files.resolve(operation.destination, follow=False)
    if _is_below(path, source):
        return now == ABSENT
    moved = found.get(source + path[len(destination) :]) if _is_below(path, destination) else None
    return moved is not None and now.is_like(moved)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _digest_left(snapshots: Snapshots, operation: Operation, before: Image) -> str | None:
    """Of the file that the operation leaves where `before` stood."""
    if isinstance(operation, CopyFile):
        return snapshots.imager.image(snapshots.files.resolve(operation.source), snapshots.hashed()).digest
    content = _content_left(snapshots, operation, before)
    return None if content is None else content_hash.hash_bytes(content).removeprefix("sha256:")


def _content_left(snapshots: Snapshots, operation: Operation, before: Image) -> bytes | None:
    if isinstance(operation, WriteFile) and (operation.mode != "append" or before == ABSENT):
        return operation.content
    kept = None if before.digest is None else snapshots.blobs.read(before.digest)
    if kept is None:
        return None
    if isinstance(operation, WriteFile):
        return kept + operation.content
    if isinstance(operation, ModifyFile):
        deadline = Deadline(EDIT_SECONDS)
        return apply.apply_edits(kept, operation.edits, max_size=MAX_HASHED_BYTES, deadline=deadline)
    return None
