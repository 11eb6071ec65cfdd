"""Describe what a run changed and what a revert would do: one entry per path, with a diff of text files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wap_kernel.files.contained.handles import READ_FLAGS
from wap_kernel.files.edit import unified_diff
from wap_kernel.files.interface import Guard
from wap_kernel.model.changes import FileImage
from wap_kernel.model.command import Deadline
from wap_kernel.model.errors import Conflict
from wap_kernel.model.operations import RevertRun
from wap_kernel.model.paths import render_path
from wap_kernel.model.text import escape_one_line
from wap_kernel.state.changes.history import ChangeHistory
from wap_kernel.state.undo.net_changes import NetChange, fold_changes
from wap_kernel.state.undo.revert import RunReverter, check_survey
from wap_kernel.state.undo.survey import RevertSurvey
from wap_kernel.state.undo.virtual_tree import Origin, VirtualTree

MAX_DIFFED = 256 * 1024
"""Size of the largest file that gets a diff; larger ones are described by their sizes."""
MAX_DIFFS = 1024 * 1024
"""Characters of all diffs together."""
SURVEY_SECONDS = 30.0
DIFF_SECONDS = 1.0
"""Seconds for all diffs together: any caller may ask, and often."""
MAX_ENTRIES = 5000
MAX_NAMED = 200
"""Paths that an approval names."""
MAX_NAMES = 20_000
"""Characters of all these paths together."""

NOT_STORED = "its content before the run is not stored"
Readable = Callable[[str], bool]
"""A function that returns whether the caller may read a path."""


def describe_changes(history: ChangeHistory, reverter: RunReverter, run: str, readable: Readable) -> dict[str, Any]:
    """Return the changes of a run, and what a revert would do.

    Contents are only shown of `readable` paths; that a path changed is no secret to a caller who may see the run.
    """
    survey = reverter.survey(run, None, SURVEY_SECONDS)
    changes = fold_changes(history.log.read_own(run), history.log.read_tree)
    diffs = _Diffs(history)
    entries = []
    for change in changes[:MAX_ENTRIES]:
        entry: dict[str, Any] = {"path": render_path(change.path), "change": change.kind}
        if change.source is not None:
            entry["from"] = render_path(change.source)
        if readable(change.path):
            entry |= diffs.show(change)
        entry["revertible"] = change.path not in survey.lost
        if change.path in survey.conflicts:
            entry["conflict"] = True
        entries.append(entry)
    more = len(changes) - len(entries)
    return {
        "changes": entries,
        **({"more": more} if more else {}),
        "notKept": [{"path": render_path(path), "reason": NOT_STORED} for path in survey.lost],
        "notUndone": [],
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
    history: ChangeHistory,
    reverter: RunReverter,
    operation: RevertRun,
    guard: Guard,
    open_to_people: Readable,
    readable: Readable,
) -> RevertPreview:
    """Return the preview of a revert, with all paths named.

    The diff shows the paths that policy does not close, also those that the caller could only read with an approval.
    """
    run = operation.run
    survey = reverter.survey(run, guard, SURVEY_SECONDS, force=operation.force)
    live = VirtualTree(history.root, history.store)
    back = [
        change.turn_back(live.find(change.path).image)
        for change in fold_changes(survey.rows, history.log.read_tree)
        if change.path not in survey.refused and change.path not in survey.lost
    ]
    back = [change for change in back if not history.store.is_same(change.before, change.after)]
    diffs = _Diffs(history)
    entries = {change.path: diffs.show(change) for change in back if open_to_people(change.path)}
    refusal = "" if operation.force else _refusal(survey)
    summary: dict[str, Any] = {"note": f"It would take back what {run} changed: {_name(back)}.{refusal}"}
    if diff := "".join(one.get("diff", "") for one in entries.values()):
        summary["diff"] = diff
    if any("isDiffTruncated" in one for one in entries.values()):
        summary["isDiffTruncated"] = True
    stands = [part for change in back for part in (change.path, replace(change.before, stored=None).dump())]
    stands += [*survey.conflicts, refusal]
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


def _name(back: Sequence[NetChange]) -> str:
    names: list[str] = []
    room = MAX_NAMES
    # Files of the person come first: thousands of new files must not hide them.
    for change in sorted(back, key=lambda change: change.kind in _MADE)[:MAX_NAMED]:
        name = f"{_separate(unified_diff.quote_path(render_path(change.path)))} ({_BACK[change.kind]})"
        room -= len(name)
        if room < 0:
            break
        names.append(name)
    more = f" and {len(back) - len(names)} more" if len(back) > len(names) else ""
    return (", ".join(names) or "nothing") + more


def _separate(name: str) -> str:
    """Return the name in quotes if it could be read as several."""
    return f'"{name}"' if not name.startswith('"') and (", " in name or "(" in name) else name


def _refusal(survey: RevertSurvey) -> str:
    """Return why the revert would be refused now, or nothing."""
    try:
        check_survey(replace(survey, refused=[]))
    except Conflict as error:
        return f" As things stand it will be refused. {escape_one_line(error.text)}"
    return ""


class _Diffs:
    def __init__(self, history: ChangeHistory) -> None:
        self._history = history
        self._live = VirtualTree(history.root, history.store)
        self._room = MAX_DIFFS
        self._deadline = Deadline(DIFF_SECONDS)

    def show(self, change: NetChange) -> dict[str, Any]:
        """Return the diff of a change, empty if there are no files or contents to compare."""
        before, after = change.before, change.after
        if "file" not in (before.kind, after.kind) or change.kind in ("mode", "moved"):
            return {}
        if self._room <= 0 or not self._deadline.remaining:
            return {"isDiffTruncated": True}
        text, is_truncated = self._compare(change.path, before, after)
        if text is None:
            return {}
        self._room -= len(text)
        if self._room < 0:
            return {"isDiffTruncated": True}
        return {"diff": text, **({"isDiffTruncated": True} if is_truncated else {})}

    def _compare(self, path: str, before: FileImage, after: FileImage) -> tuple[str | None, bool]:
        named = unified_diff.quote_path(render_path(path))
        sizes = f"{named}: {before.size or 0} bytes before, {after.size or 0} bytes after\n"
        if max(before.size or 0, after.size or 0) > MAX_DIFFED:
            return f"Large file {sizes}", True
        old, new = self._read(path, before), self._read(path, after)
        if new is not None and old is None and before.size is not None and before.size < (after.size or 0):
            old = self._read_beginning(path, before, after, new)
        if old is None or new is None:
            return None, False
        if b"\0" in old or b"\0" in new:
            return f"Binary file {sizes}", False
        return unified_diff.render_diff(render_path(path), old, new)

    def _read_beginning(self, path: str, before: FileImage, after: FileImage, new: bytes) -> bytes | None:
        """Return what a file had before it was appended to: the file itself is the same one."""
        is_same = (before.stamp or "").partition(":")[0] == (after.stamp or "").partition(":")[0]
        return new[: before.size] if is_same else None

    def _read(self, path: str, image: FileImage) -> bytes | None:
        """Return the content of an image from the workspace if it is still there, or from the store."""
        if image.kind != "file":
            return b""
        store, live = self._history.store, self._live.find(path)
        if live.image.kind == "file" and store.has_same_content(live.image, image):
            return self._read_origin(Origin(path))
        name = store.find(image)
        return None if name is None else self._read_origin(Origin(name, is_stored=True))

    def _read_origin(self, origin: Origin) -> bytes | None:
        try:
            if origin.is_stored:
                descriptor = os.open(origin.path, READ_FLAGS | os.O_NOFOLLOW, dir_fd=self._history.store.fd)
            else:
                with self._history.root.locate(origin.path) as location:
                    descriptor = os.open(location.name, READ_FLAGS | os.O_NOFOLLOW, dir_fd=location.fd)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            return file.read(MAX_DIFFED + 1)
