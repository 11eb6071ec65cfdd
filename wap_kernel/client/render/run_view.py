"""Render a run: its status, the outcome of each operation, the output of commands, and its pending approval."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from wap_kernel.client.render import approval_view, effect_view, event_rows, file_view, units
from wap_kernel.client.render.blocks import (
    SHELL_PREFIX,
    Block,
    Fold,
    Header,
    Room,
    Row,
    Span,
    Tone,
    count_lines,
    muted_row,
    preformatted,
    python_hint,
    split_lines,
)
from wap_kernel.client.render.output_view import FullOutput, output_blocks
from wap_kernel.dialects.hints import reword_for_person
from wap_kernel.model.hints import address_person

Event = Mapping[str, Any]

NOTE = "wap: not applied"
"""The beginning of the server's lines in stderr about changes that were not applied."""
FIRST_DISPLAY = "This approval was not shown here before. To approve it, run the same line again."
OMISSION_MARK = " bytes left out ...]"
"""The mark in an output whose middle the event omits."""
STATUSES: dict[str, Tone] = {
    "completed": "ok",
    "running": "busy",
    "awaiting_approval": "asks",
    "cancelled": "failed",
    "error": "failed",
}
_BROKEN_OFF = ("cancelled", "error")
"""Statuses of runs that may have skipped operations."""
_COUNTED = {word: word for word in ("done", "would", "undone", "failed", "denied", "asks", "skipped", "not run")}
_COUNTED["would"] = "would be done"
_UNDOABLE = ("createFile", "editFile", "deleteFile", "moveFile", "copyFile", "createDirectory")
_READING = ("message", "readFile")
_PATH_LABELS = {
    "left": "left as they are",
    "notUndone": "not undone",
    "paths": "in the way",
    "conflicts": "changed meanwhile, and left as they are now",
}
"""Fields of an event that hold paths, and the words before them."""
_CONTENTS = ("diff", "stdout", "stderr", "content")


def run_blocks(data: Mapping[str, Any], request: Mapping[str, Any], room: Room, prefix: str) -> list[Block]:
    run_id, status = str(data["runId"]), str(data["status"])
    sent = event_rows.map_by_id(request.get("operations", ()))
    operations = {**event_rows.map_approved_operations(data["events"]), **sent}
    pending = data.get("pendingApproval")
    # A decided approval has an event of its operation after it, and the pending one is rendered below. In a dry run
    # the event says that the operation was left out.
    events: list[Event] = [
        event for event in data["events"] if event["type"] != "approvalRequired" or "simulated" in event
    ]
    events = [_add_change(event, request.get("changes")) for event in events]
    reword = address_person if prefix == SHELL_PREFIX else reword_for_person
    outcomes = [
        event_rows.summarize_event(event, operations.get(str(event.get("operationId")), {}), reword) for event in events
    ]
    if (not_undone := _find_not_undone(data["events"])) is not None:
        outcomes = [_mark_undone(one, event, not_undone) for one, event in zip(outcomes, events, strict=True)]
    if status in _BROKEN_OFF:
        started = {str(event.get("operationId")) for event in data["events"]}
        left = [operation for name, operation in sent.items() if name not in started]
        position = next((n for n, one in enumerate(outcomes) if not one.is_operation), len(outcomes))
        outcomes[position:position] = map(event_rows.summarize_skipped, left)  # events of the whole run come last
        events[position:position] = [{} for _ in left]
    chosen = _choose_rows(outcomes, room.rows)
    bodies = _Bodies(run_id, events, chosen, room, prefix)
    blocks: list[Block] = [_head(data, status, outcomes)]
    after = 0
    for index in chosen:
        blocks += _gap(outcomes[after:index], prefix)
        blocks += [outcomes[index].row, *bodies.render(index)]
        after = index + 1
    blocks += _gap(outcomes[after:], prefix)
    blocks += _other_changes(events, request, room)
    if pending is not None and request.get("is_first_display"):
        blocks.append(Row((Span(FIRST_DISPLAY, "strong"),)))
    if pending is not None:
        blocks += approval_view.approval_blocks(run_id, pending, room, prefix)
    return [*blocks, *_next_lines(data, status, run_id, prefix)]


def _add_change(event: Event, changes: Mapping[str, Event] | None) -> Event:
    """Return the event of a written file with the recorded change of its path: its event does not say what it was."""
    if event["type"] != "createFile" or not event.get("success") or "diff" in event or changes is None:
        return event
    change = changes.get(posixpath.normpath(str(event.get("path", ""))), {})
    is_same = not change or change.get("diff") == ""  # the file itself is another one all the same
    name = "unchanged" if is_same else str(change["change"])
    diff = {"diff": change["diff"]} if name == "modified" and change.get("diff") else {}
    return {**event, **diff, "truncated": change.get("isDiffTruncated"), "change": name}


def _other_changes(events: Sequence[Event], request: Mapping[str, Any], room: Room) -> list[Block]:
    """Return the changes of the run that no row has, where a person wants to see all of it."""
    if not request.get("is_detailed"):
        return []
    named = {posixpath.normpath(str(event.get("path", ""))) for event in events if event.get("diff")}
    named |= {posixpath.normpath(str(event.get("path", ""))) for event in events if event.get("change")}
    others = [change for path, change in (request.get("changes") or {}).items() if path not in named]
    return effect_view.recorded_blocks(others, int(request.get("more_changes") or 0), room)


def _find_not_undone(events: Sequence[Event]) -> Sequence[str] | None:
    """Return the paths that an atomic run could not undo, or None where it has undone nothing."""
    errors = [event.get("details", {}) for event in events if event["type"] == "error"]
    left = next((details.get("notUndone", ()) for details in errors if details.get("atomic")), None)
    return None if left is None or "." in left else left


def _mark_undone(outcome: event_rows.EventSummary, event: Event, left: Sequence[str]) -> event_rows.EventSummary:
    """Return the outcome as undone; a command, whose changes are not known, is undone where everything is."""
    is_undone = event.get("path", event.get("destination")) not in left if event["type"] in _UNDOABLE else not left
    if outcome.tone != "ok" or event["type"] in _READING or not is_undone:
        return outcome
    return replace(outcome, tone="plain", status_word="undone")


def _head(data: Event, status: str, outcomes: Sequence[event_rows.EventSummary]) -> Header:
    counts = Counter(one.word for one in outcomes if one.is_operation)
    facts = [f"{counts[word]:,} {name}" for word, name in _COUNTED.items() if counts[word]]
    took = units.elapsed_milliseconds(data.get("startedAt"), data.get("completedAt"))
    facts += [units.format_duration(took)] if took is not None else []
    facts += [name for name, flag in (("dry run", "dryRun"), ("atomic", "atomic")) if data.get(flag)]
    facts += [f"undoes {data['reverts']}"] if data.get("reverts") else []
    tone, word = STATUSES.get(status, "plain"), status.replace("_", " ")
    if status == "completed" and any(one.tone in ("failed", "denied") for one in outcomes):
        tone, word = "failed", "completed with problems"
    return Header(tone, word, (), tuple(facts), str(data["runId"]))


def _choose_rows(outcomes: Sequence[event_rows.EventSummary], rows: int) -> list[int]:
    """Return the indexes of the rows to show: first those that went wrong, then the first and the last ones."""
    if len(outcomes) <= rows:
        return list(range(len(outcomes)))
    wrong = [index for index, one in enumerate(outcomes) if one.tone not in ("ok", "plain")][: rows * 2 // 3]
    left = rows - len(wrong)
    ends = [*range(left // 2), *range(len(outcomes) - left // 2, len(outcomes))]
    return sorted({*wrong, *ends})


def _gap(outcomes: Sequence[event_rows.EventSummary], prefix: str) -> list[Block]:
    if not outcomes:
        return []
    counts = Counter(one.word for one in outcomes)
    summary = ", ".join(f"{count:,} {word}" for word, count in counts.items())
    where = python_hint(prefix, "_.events holds them all")
    return [muted_row(f"… {units.format_count(len(outcomes), 'more operation')} ({summary}){where}")]


class _Bodies:
    """The blocks below the rows, which share the room."""

    def __init__(self, run_id: str, events: Sequence[Event], chosen: Sequence[int], room: Room, prefix: str) -> None:
        self._run_id, self._events, self._lines, self._prefix = run_id, events, room.lines, prefix
        self._effect_room = room
        self._last_simulated = max((index for index in chosen if events[index].get("changes")), default=None)
        """The event that lists all changes of a dry run: each lists those of the steps before it, too."""
        keys = [(index, name) for index in chosen for name in _CONTENTS if events[index].get(name)]
        sizes = [units.text_cost(str(events[index][name])) for index, name in keys]
        self._room = dict(zip(keys, room.share(sizes), strict=True))

    def render(self, index: int) -> list[Block]:
        event = self._events[index]
        found: list[Block] = []
        command = str(event.get("command", ""))
        if "\n" in command.strip():
            script = units.take_head(command, 4000, self._lines, longest=4000).text
            found.append(Fold(f"script, {count_lines(command)}", (preformatted(script, bar="$"),)))
        if characters := self._room.get((index, "diff")):
            diff, is_cut = str(event["diff"]), bool(event.get("truncated"))
            found += file_view.diff_blocks(diff, characters, self._lines, is_cut=is_cut)
        for stream, bar in (("stdout", "|"), ("stderr", "!")):
            if characters := self._room.get((index, stream)):
                whole = self._full_output(event, stream)
                text = _without_notes(event, stream)
                found += output_blocks(text, characters, self._lines, bar, self._prefix, whole)
        if characters := self._room.get((index, "content")):
            found += self._content(event, characters)
        if isinstance(closest := event.get("closest"), dict):
            found += self._closest(closest)
        if index == self._last_simulated:
            found += effect_view.simulated_blocks(event["changes"], int(event.get("more") or 0), self._effect_room)
        return [*found, *_path_rows(event)]

    def _full_output(self, event: Event, stream: str) -> FullOutput | None:
        """Return how to get the whole output; both streams share one flag, so the mark in the text decides."""
        if not event.get("truncated") or OMISSION_MARK not in str(event[stream]):
            return None
        of_stream = "" if stream == "stdout" else f', "{stream}"'
        how = f'connect().output("{self._run_id}", "{event.get("operationId", "")}"{of_stream})'
        return FullOutput(units.format_size(event.get(f"{stream}Bytes", "")), how)

    def _content(self, event: Event, characters: int) -> list[Block]:
        if event.get("encoding") == "base64" or event["type"] == "message":
            return []
        content = str(event["content"])
        excerpt = units.take_head(content, characters, self._lines)
        where = python_hint(self._prefix, "_.events holds them")
        more = (
            [muted_row(f"… {excerpt.describe_omission()}{where}", is_below=True)] if excerpt.describe_omission() else []
        )
        return [Fold(count_lines(content), (preformatted(excerpt.text), *more))]

    def _closest(self, closest: Event) -> list[Block]:
        excerpt = units.take_head(str(closest.get("text", "")), 2000, 20).text
        start = closest.get("startLine", 1)
        similarity = closest.get("similarity")
        alike = f", {similarity:.0%} alike" if isinstance(similarity, int | float) else ""
        numbers = [str(start + offset) for offset in range(len(split_lines(excerpt)))] if isinstance(start, int) else []
        return [
            muted_row(f"The closest is at line {start}{alike}:", is_below=True),
            preformatted(excerpt, gutter=numbers),
        ]


def _without_notes(event: Event, stream: str) -> str:
    """Return the output without the server's last lines about changes that were not applied: rows name them."""
    text = str(event[stream])
    if stream == "stdout" or not (event.get("refusedChanges") or event.get("conflicts")):
        return text
    lines = text.splitlines(keepends=True)
    while lines and lines[-1].startswith(NOTE):
        lines.pop()
    return "".join(lines)


def _path_rows(event: Event) -> list[Block]:
    """Return the paths in the way of a revert, those that it did not restore, and changes that were not applied."""
    details = event.get("details", {}) if event.get("type") == "error" else event
    found: list[Block] = []
    for field, label in _PATH_LABELS.items():
        if paths := details.get(field):
            listed = ", ".join(map(str, paths[:20])) + (f" and {len(paths) - 20} more" if len(paths) > 20 else "")
            found.append(Row((Span(f"{label}: ", "muted"), Span(units.truncate_line(listed), "code")), is_below=True))
    found += effect_view.refused_rows(details.get("refusedChanges", ()))
    if details.get("isolation") == "shared":
        found.append(muted_row(effect_view.NO_UNDO_AFTER, is_below=True))
    return found


def _next_lines(data: Event, status: str, run_id: str, prefix: str) -> list[Block]:
    if status == "running":
        return [_advice("The run goes on. To see how far it is", f"{prefix}show {run_id}")]
    return [*_apply_lines(data, status, run_id, prefix), *_undo_lines(data, status, run_id, prefix)]


def _apply_lines(data: Event, status: str, run_id: str, prefix: str) -> list[Block]:
    """Return how a person takes the changes of commands that were not applied."""
    events = data["events"]
    if any(event.get("conflicts") or event.get("details", {}).get("conflicts") for event in events):
        return [_advice("To take the command's version instead", f"{prefix}apply {run_id}")]
    is_ended = any(event["type"] == "shell" and _is_interrupted(event) for event in events)
    if status == "cancelled" and is_ended:
        return [_advice("To apply what it had changed so far", f"{prefix}apply {run_id}")]
    return []


def _is_interrupted(event: Event) -> bool:
    """Return whether a command on a layer was ended before it was done."""
    return event.get("success") is False and "durationMs" in event and not {"exitCode", "isolation"} & event.keys()


def _undo_lines(data: Event, status: str, run_id: str, prefix: str) -> list[Block]:
    # A command may have changed anything or nothing; only for one that needed an approval the revert is mentioned.
    approved = {event.get("operationId") for event in data["events"] if event["type"] == "approvalRequired"}
    done = (event for event in data["events"] if event.get("success") and event.get("isolation") != "shared")
    changed = any(event["type"] in _UNDOABLE or event.get("operationId") in approved for event in done)
    is_undone = data.get("dryRun") or (data.get("atomic") and status != "completed")
    if changed and not is_undone and status != "awaiting_approval":
        return [_advice("To undo it", f"{prefix}revert {run_id}")]
    return []


def _advice(label: str, line: str) -> Row:
    return Row((Span(f"{label}: ", "muted"), Span(line, "type")))
