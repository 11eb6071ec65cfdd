"""What a run changed and what a revert would do, for people and programs: one entry a path, with a diff where there is
something to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wap_kernel.files import diffs
from wap_kernel.files.paths import display
from wap_kernel.files.trees import unless_gone
from wap_kernel.runs.changes import Change
from wap_kernel.runs.images import Image
from wap_kernel.runs.restoring import Now, Reverting
from wap_kernel.runs.snapshots import Snapshots

MAX_DIFFED = 1024 * 1024
"""Bytes of a file; a larger one is told by its sizes."""
MAX_DIFFS = 1024 * 1024
"""Characters of all diffs together."""

Readable = Callable[[str], bool]


def describe(snapshots: Snapshots, reverting: Reverting, run: str, readable: Readable) -> dict[str, Any]:
    """`readable` tells whose contents may be shown; that they changed is no secret to whoever may see the run."""
    planned, now = reverting.plan(run)
    conflicts, lost = set(planned.conflicts), set(planned.lost)
    shown, room = [], MAX_DIFFS
    for change in sorted(snapshots.changes.of(run), key=lambda change: change.path):
        path = change.path
        entry: dict[str, Any] = {"path": display(path), "change": _kind_of(change, now.images[path])}
        if readable(path) and (diff := _diff(snapshots, change, now)) is not None:
            text, is_cut = diff
            if len(text) <= room:
                room -= len(text)
                entry["diff"] = text
            if is_cut or "diff" not in entry:
                entry["isDiffTruncated"] = True
        entry["revertible"] = path not in lost
        if path in conflicts:
            entry["conflict"] = True
        shown.append(entry)
    notes = snapshots.changes.notes(run)
    return {
        "changes": shown,
        "notKept": [*_unique(item for note in notes for item in note["notKept"]), *_unknown(notes)],
        "notUndone": sorted({path for note in notes for path in note.get("notUndone", ())}),
    }


def _kind_of(change: Change, now: Image) -> str:
    before, after = change.before, change.after or now
    if before.kind == "absent":
        return "folder created" if after.kind == "folder" else "created"
    if after.kind == "absent":
        return "folder deleted" if before.kind == "folder" else "deleted"
    if "link" in (before.kind, after.kind):
        return "link"
    if before.has_content_of(after) and before.mode != after.mode:
        return "mode"
    return "modified"


def _diff(snapshots: Snapshots, change: Change, now: Now) -> tuple[str, bool] | None:
    """None where there is nothing to compare: no files, or contents that are not to be had."""
    before, after = change.before, change.after or now.images[change.path]
    if "file" not in (before.kind, after.kind) or before.has_content_of(after):
        return None
    sizes = f"{before.size or 0} bytes before, {after.size or 0} bytes after\n"
    if max(before.size or 0, after.size or 0) > MAX_DIFFED:
        return f"Large file: {sizes}", True
    old = _content(snapshots, before, change.path, None)
    new = _content(snapshots, after, change.path, now.images[change.path])
    if old is None or new is None:
        return None
    if b"\0" in old or b"\0" in new:
        return f"Binary file: {sizes}", False
    return diffs.unified(display(change.path), old, new)


def _content(snapshots: Snapshots, image: Image, path: str, now: Image | None) -> bytes | None:
    """From the store, or from the workspace as long as it is still there."""
    if image.kind != "file":
        return b""
    kept = None if image.digest is None else snapshots.blobs.read(image.digest)
    if kept is not None or now is None or not now.has_content_of(image):
        return kept
    file = unless_gone(snapshots.files.open, path)
    if file is None:
        return None
    with file:
        return file.read(MAX_DIFFED + 1) if file.stat.path == path else None


def _unique(items: Any) -> list[dict[str, str]]:
    return list({item["path"]: item for item in items}.values())


def _unknown(notes: list[dict[str, Any]]) -> list[dict[str, str]]:
    """For a command that was interrupted with the server."""
    if all(note.get("isOver", True) for note in notes):
        return []
    return [{"path": ".", "reason": "the server ended while a command ran: what it changed is not known"}]
