"""What a run changed and what a revert would do, for people and programs: one entry a path, with a diff where there is
something to read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wap_kernel.files.edit import unified_diff
from wap_kernel.files.tree_walk import try_open
from wap_kernel.model.deadline import Deadline
from wap_kernel.model.errors import Conflict
from wap_kernel.model.operations import RevertRun
from wap_kernel.model.paths import render_path
from wap_kernel.model.safe_text import escape_one_line
from wap_kernel.state.undo.change_recorder import Nameable, Readable, Snapshots
from wap_kernel.state.undo.change_store import Change, Note
from wap_kernel.state.undo.file_image import Image
from wap_kernel.state.undo.revert import Reverting, Survey, refuse

MAX_DIFFED = 256 * 1024
"""Bytes of a file; a larger one is told by its sizes."""
MAX_DIFFS = 1024 * 1024
"""Characters of all diffs together."""

UNKNOWN = {"path": ".", "reason": "a command is under way or was interrupted: what it changed is not known"}
LOOK_SECONDS = 30.0
DIFF_SECONDS = 1.0
"""For all diffs together: anybody may ask, and often."""
MAX_ENTRIES = 5000
MAX_NAMED = 200
"""Paths that a question names."""
MAX_NAMES = 20_000
"""Characters of them together."""


def describe(
    snapshots: Snapshots, reverting: Reverting, run: str, readable: Readable, nameable: Nameable
) -> dict[str, Any]:
    """`readable` tells whose contents, and sizes, may be shown; that they changed is no secret to whoever may see the
    run. What was not kept need not have changed, so of that only what is `nameable` is named."""
    survey = reverting.survey(run, Deadline(LOOK_SECONDS))
    planned = survey.planned
    conflicts, lost = set(planned.conflicts), {*planned.lost, *survey.unreachable}
    diffs_shown = _Diffs(snapshots)
    shown = []
    changes = sorted(survey.changes, key=lambda change: change.path)
    for change in changes[:MAX_ENTRIES]:
        path, now = change.path, survey.images[change.path]
        entry: dict[str, Any] = {"path": render_path(path), "change": _kind_of(change, now)}
        if readable(path):
            entry |= diffs_shown.of(change, now)
        entry["revertible"] = path not in lost
        if path in conflicts:
            entry["conflict"] = True
        shown.append(entry)
    more = len(changes) - len(shown)
    return {
        "changes": shown,
        **({"more": more} if more else {}),
        "notKept": [*_not_kept(survey.notes, nameable), *(() if survey.is_known else (UNKNOWN,))],
        "notUndone": survey.not_undone,
    }


@dataclass(frozen=True)
class ForeseenRevert:
    """What a revert would do now."""

    told: Mapping[str, Any] = field(default_factory=dict)
    """For the person who is asked."""
    evidence: Mapping[str, str] = field(default_factory=dict)
    """What must be the same when it is done; see `evidence.py`."""
    is_private: bool = False
    """Whoever asks could not read all that the diff shows."""


def foresee(
    snapshots: Snapshots, reverting: Reverting, operation: RevertRun, open_to_people: Readable, readable: Readable
) -> ForeseenRevert:
    """All paths are named. The diff is of those that policy does not close, for people also where whoever asks could
    not read them without being asked about it."""
    run = operation.run
    survey = reverting.survey(run, Deadline(LOOK_SECONDS))
    now, planned = survey.images, survey.planned.changes
    back = [Change(path, now[path], planned[path].before) for path in sorted(planned)]
    diffs_shown = _Diffs(snapshots)
    shown = {change.path: diffs_shown.of(change, change.before) for change in back if open_to_people(change.path)}
    refusal = "" if operation.force else _refusal(survey)
    told: dict[str, Any] = {"note": f"It would take back what {run} changed: {_named(back)}.{refusal}"}
    if diff := "".join(one.get("diff", "") for one in shown.values()):
        told["diff"] = diff
    if any("isDiffTruncated" in one for one in shown.values()):
        told["isDiffTruncated"] = True
    stands = [part for change in back for part in (change.path, _state(change.before))]
    stands += [*sorted(survey.planned.conflicts), refusal]
    digest = hashlib.sha256("\0".join(stands).encode("utf-8", "surrogateescape")).hexdigest()
    return ForeseenRevert(told, {f"what {run} changed": digest}, not all(map(readable, shown)))


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
"""Kinds of what the run had made."""


def _named(back: Sequence[Change]) -> str:
    names: list[str] = []
    room = MAX_NAMES
    # What a person had comes first: thousands of new files must not hide it.
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
    """So that no name reads like several."""
    return f'"{name}"' if not name.startswith('"') and (", " in name or "(" in name) else name


def _refusal(survey: Survey) -> str:
    """What keeps it from being done, which may have come since it was asked for."""
    try:
        refuse(survey)
    except Conflict as error:
        return f" As things stand it will be refused. {escape_one_line(error.text)}"
    return ""


def _state(image: Image) -> str:
    """Without what is another when the same content is written again, where the content is known."""
    return (image if image.digest is None else replace(image, stamp=None)).dump()


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


class _Diffs:
    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._room = MAX_DIFFS
        self._deadline = Deadline(DIFF_SECONDS)

    def of(self, change: Change, now: Image) -> dict[str, Any]:
        """Nothing where there is nothing to compare: no files, or contents that are not to be had."""
        before, after = change.before, change.after or now
        if "file" not in (before.kind, after.kind) or before.has_content_of(after):
            return {}
        if self._room <= 0 or not self._deadline.remaining:
            return {"isDiffTruncated": True}
        text, is_cut = self._compared(change.path, before, after, now)
        if text is None:
            return {}
        self._room -= len(text)
        if self._room < 0:
            return {"isDiffTruncated": True}
        return {"diff": text, **({"isDiffTruncated": True} if is_cut else {})}

    def _compared(self, path: str, before: Image, after: Image, now: Image) -> tuple[str | None, bool]:
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


def _content(snapshots: Snapshots, image: Image, path: str, now: Image) -> bytes | None:
    """From the store, or from the workspace as long as it is still there."""
    if image.kind != "file":
        return b""
    kept = None if image.digest is None else snapshots.blobs.read(image.digest)
    if kept is not None or not now.has_content_of(image):
        return kept
    file = try_open(snapshots.files.open, path)
    if file is None:
        return None
    with file:
        return file.read(MAX_DIFFED + 1) if file.stat.path == path else None


def _not_kept(notes: Iterable[Note], nameable: Nameable) -> list[dict[str, str]]:
    named = {item["path"]: item for note in notes for item in note.get("notKept", ())}
    return [item for path, item in named.items() if nameable(path)]
