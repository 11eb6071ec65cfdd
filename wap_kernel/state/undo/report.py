"""Describe what a run changed and what a revert would do: one entry per path, with a diff of text files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wap_kernel.files.edit import unified_diff
from wap_kernel.files.tree_walk import try_open
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import Conflict
from wap_kernel.model.operations import RevertRun
from wap_kernel.model.paths import render_path
from wap_kernel.model.safe_text import escape_one_line
from wap_kernel.state.undo.change_recorder import ChangeRecorder, Nameable, Readable
from wap_kernel.state.undo.change_store import Note, RecordedChange
from wap_kernel.state.undo.file_image import FileImage
from wap_kernel.state.undo.revert import RevertSurvey, RunReverter, check_survey

MAX_DIFFED = 256 * 1024
"""Size of the largest file that gets a diff; larger ones are described by their sizes."""
MAX_DIFFS = 1024 * 1024
"""Characters of all diffs together."""

UNKNOWN = {"path": ".", "reason": "a command is under way or was interrupted: what it changed is not known"}
SURVEY_SECONDS = 30.0
DIFF_SECONDS = 1.0
"""Seconds for all diffs together: any caller may ask, and often."""
MAX_ENTRIES = 5000
MAX_NAMED = 200
"""Paths that an approval names."""
MAX_NAMES = 20_000
"""Characters of all these paths together."""


def describe_changes(
    snapshots: ChangeRecorder, reverting: RunReverter, run: str, readable: Readable, nameable: Nameable
) -> dict[str, Any]:
    """Return the changes of a run, and what a revert would do.

    Contents and sizes are only shown of `readable` paths; that a path changed is no secret to a caller who may see the
    run. A file that was not stored need not have changed, so only `nameable` ones are named.
    """
    survey = reverting.survey(run, Deadline(SURVEY_SECONDS))
    planned = survey.planned
    conflicts, lost = set(planned.conflicts), {*planned.lost, *survey.unreachable}
    diffs = _Diffs(snapshots)
    entries = []
    changes = sorted(survey.changes, key=lambda change: change.path)
    for change in changes[:MAX_ENTRIES]:
        path, now = change.path, survey.images[change.path]
        entry: dict[str, Any] = {"path": render_path(path), "change": _kind_of(change, now)}
        if readable(path):
            entry |= diffs.of(change, now)
        entry["revertible"] = path not in lost
        if path in conflicts:
            entry["conflict"] = True
        entries.append(entry)
    more = len(changes) - len(entries)
    return {
        "changes": entries,
        **({"more": more} if more else {}),
        "notKept": [*_list_losses(survey.notes, nameable), *(() if survey.is_known else (UNKNOWN,))],
        "notUndone": survey.not_undone,
    }


@dataclass(frozen=True)
class RevertPreview:
    """The effect that a revert would have now."""

    summary: Mapping[str, Any] = field(default_factory=dict)
    """The note and the diff for the person who approves."""
    evidence: Mapping[str, str] = field(default_factory=dict)
    """Facts that must still hold when the revert is approved."""
    is_private: bool = False
    """True if the caller may not read all that the diff shows."""


def preview_revert(
    snapshots: ChangeRecorder,
    reverting: RunReverter,
    operation: RevertRun,
    open_to_people: Readable,
    readable: Readable,
) -> RevertPreview:
    """Return the preview of a revert, with all paths named.

    The diff shows the paths that policy does not close, also those that the caller could only read with an approval.
    """
    run = operation.run
    survey = reverting.survey(run, Deadline(SURVEY_SECONDS))
    now, planned = survey.images, survey.planned.changes
    back = [RecordedChange(path, now[path], planned[path].before) for path in sorted(planned)]
    diffs = _Diffs(snapshots)
    entries = {change.path: diffs.of(change, change.before) for change in back if open_to_people(change.path)}
    refusal = "" if operation.force else _refusal(survey)
    summary: dict[str, Any] = {"note": f"It would take back what {run} changed: {_named(back)}.{refusal}"}
    if diff := "".join(one.get("diff", "") for one in entries.values()):
        summary["diff"] = diff
    if any("isDiffTruncated" in one for one in entries.values()):
        summary["isDiffTruncated"] = True
    stands = [part for change in back for part in (change.path, _state(change.before))]
    stands += [*sorted(survey.planned.conflicts), refusal]
    digest = hashlib.sha256("\0".join(stands).encode("utf-8", "surrogateescape")).hexdigest()
    return RevertPreview(summary, {f"what {run} changed": digest}, not all(map(readable, entries)))


_BACK = {
    "created": "put back",
    "folder created": "put back",
    "deleted": "removed",
    "folder deleted": "removed",
    "link": "the link as it was",
    "mode": "its mode as it was",
    "modified": "as it was",
}


_MADE = ("deleted", "folder deleted")
"""Kinds of changes that remove what the run had made."""


def _named(back: Sequence[RecordedChange]) -> str:
    names: list[str] = []
    room = MAX_NAMES
    # Files of the person come first: thousands of new files must not hide them.
    ordered = sorted(back, key=lambda change: _kind_of(change, change.before) in _MADE)
    for change in ordered[:MAX_NAMED]:
        name = f"{_apart(unified_diff.quote_path(render_path(change.path)))} ({_BACK[_kind_of(change, change.before)]})"
        room -= len(name)
        if room < 0:
            break
        names.append(name)
    more = f" and {len(back) - len(names)} more" if len(back) > len(names) else ""
    return (", ".join(names) or "nothing") + more


def _apart(name: str) -> str:
    """Return the name in quotes if it could be read as several."""
    return f'"{name}"' if not name.startswith('"') and (", " in name or "(" in name) else name


def _refusal(survey: RevertSurvey) -> str:
    """Return why the revert would be refused now, or nothing."""
    try:
        check_survey(survey)
    except Conflict as error:
        return f" As things stand it will be refused. {escape_one_line(error.text)}"
    return ""


def _state(image: FileImage) -> str:
    """Return the image as text, without the stamp if the content is known: a rewrite changes the stamp."""
    return (image if image.digest is None else replace(image, stamp=None)).dump()


def _kind_of(change: RecordedChange, now: FileImage) -> str:
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


class _Diffs:
    def __init__(self, snapshots: ChangeRecorder) -> None:
        self._snapshots = snapshots
        self._room = MAX_DIFFS
        self._deadline = Deadline(DIFF_SECONDS)

    def of(self, change: RecordedChange, now: FileImage) -> dict[str, Any]:
        """Return the diff of a change, empty if there are no files or contents to compare."""
        before, after = change.before, change.after or now
        if "file" not in (before.kind, after.kind) or before.has_content_of(after):
            return {}
        if self._room <= 0 or not self._deadline.remaining:
            return {"isDiffTruncated": True}
        text, is_truncated = self._compared(change.path, before, after, now)
        if text is None:
            return {}
        self._room -= len(text)
        if self._room < 0:
            return {"isDiffTruncated": True}
        return {"diff": text, **({"isDiffTruncated": True} if is_truncated else {})}

    def _compared(self, path: str, before: FileImage, after: FileImage, now: FileImage) -> tuple[str | None, bool]:
        named = unified_diff.quote_path(render_path(path))
        sizes = f"{named}: {before.size or 0} bytes before, {after.size or 0} bytes after\n"
        if max(before.size or 0, after.size or 0) > MAX_DIFFED:
            return f"Large file {sizes}", True
        old = _content(self._snapshots, before, path, now)
        new = _content(self._snapshots, after, path, now)
        if old is None or new is None:
            return None, False
        if b"\0" in old or b"\0" in new:
            return f"Binary file {sizes}", False
        return unified_diff.render_diff(render_path(path), old, new)


def _content(snapshots: ChangeRecorder, image: FileImage, path: str, now: FileImage) -> bytes | None:
    """Return the content of an image from the store, or from the workspace if it is still there."""
    if image.kind != "file":
        return b""
    stored = None if image.digest is None else snapshots.blobs.read(image.digest)
    if stored is not None or not now.has_content_of(image):
        return stored
    file = try_open(snapshots.files.open, path)
    if file is None:
        return None
    with file:
        return file.read(MAX_DIFFED + 1) if file.stat.path == path else None


def _list_losses(notes: Iterable[Note], nameable: Nameable) -> list[dict[str, str]]:
    named = {item["path"]: item for note in notes for item in note.get("notKept", ())}
    return [item for path, item in named.items() if nameable(path)]
