"""A run: how it ended, what became of each operation, what commands wrote, and what it waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from wap_kernel.client.render import ansi, approval_view, cutting, diffs, event_rows, units
from wap_kernel.client.render.blocks import (
    Block,
    Fold,
    Head,
    Line,
    Pre,
    Room,
    Row,
    Span,
    Tone,
    counted_lines,
    held,
    lines_of,
    muted,
    preformatted,
)

Event = Mapping[str, Any]

SHOWN_TAIL = 12
"""Lines of a command's output that are not folded."""
LEFT_OUT = " bytes left out ...]"
"""In an output whose middle its event does not have."""
STATUSES: dict[str, Tone] = {
    "completed": "ok",
    "running": "busy",
    "awaiting_approval": "asks",
    "cancelled": "failed",
    "error": "failed",
}
_BROKEN_OFF = ("cancelled", "error")
"""Statuses of runs that may have left out operations."""
_COUNTED = {word: word for word in ("done", "would", "undone", "failed", "denied", "asks", "skipped", "not run")}
_COUNTED["would"] = "would be done"
_UNDOABLE = ("createFile", "editFile", "deleteFile", "moveFile", "copyFile", "createDirectory")
_LOOKING = ("message", "readFile")
_CONTENTS = ("diff", "stdout", "stderr", "content")


def blocks(data: Mapping[str, Any], asked: Mapping[str, Any], room: Room, prefix: str) -> list[Block]:
    run_id, status = str(data["runId"]), str(data["status"])
    sent = event_rows.by_id(asked.get("operations", ()))
    operations = {**event_rows.asked_about(data["events"]), **sent}
    pending = data.get("pendingApproval")
    # Questions that were answered have an event after them, and the open one stands below.
    told: list[Event] = [event for event in data["events"] if event["type"] != "approvalRequired"]
    outcomes = [event_rows.outcome(event, operations.get(str(event.get("operationId")), {})) for event in told]
    if (taken_back := _taken_back(data["events"])) is not None:
        outcomes = [_undone(one, event, taken_back) for one, event in zip(outcomes, told, strict=True)]
    if status in _BROKEN_OFF:
        begun = {str(event.get("operationId")) for event in data["events"]}
        left = [operation for name, operation in sent.items() if name not in begun]
        place = next((n for n, one in enumerate(outcomes) if not one.is_operation), len(outcomes))
        outcomes[place:place] = map(event_rows.not_run, left)  # what is said of the run as a whole comes last
        told[place:place] = [{} for _ in left]
    shown = _chosen(outcomes, room.rows)
    bodies = _Bodies(run_id, told, shown, room, prefix)
    found: list[Block] = [_head(data, status, outcomes)]
    after = 0
    for index in shown:
        found += _gap(outcomes[after:index], prefix)
        found += [outcomes[index].row, *bodies.of(index)]
        after = index + 1
    found += _gap(outcomes[after:], prefix)
    if pending is not None:
        found += approval_view.blocks(run_id, pending, room, prefix)
    return [*found, *_next(data, status, run_id, prefix)]


def _taken_back(told: Sequence[Event]) -> Sequence[str] | None:
    """The paths that an atomic run could not undo; None where it has undone nothing."""
    said = [event.get("details", {}) for event in told if event["type"] == "error"]
    left = next((details.get("notUndone", ()) for details in said if details.get("atomic")), None)
    return None if left is None or "." in left else left


def _undone(outcome: event_rows.Outcome, event: Event, left: Sequence[str]) -> event_rows.Outcome:
    """What a command changed is not known, so that it is undone where everything is."""
    is_undone = event.get("path", event.get("destination")) not in left if event["type"] in _UNDOABLE else not left
    if outcome.tone != "ok" or event["type"] in _LOOKING or not is_undone:
        return outcome
    return replace(outcome, tone="plain", said="undone")


def _head(data: Event, status: str, outcomes: Sequence[event_rows.Outcome]) -> Head:
    counts = Counter(one.word for one in outcomes if one.is_operation)
    facts = [f"{counts[word]:,} {name}" for word, name in _COUNTED.items() if counts[word]]
    took = units.between(data.get("startedAt"), data.get("completedAt"))
    facts += [units.duration(took)] if took is not None else []
    facts += [name for name, flag in (("dry run", "dryRun"), ("atomic", "atomic")) if data.get(flag)]
    facts += [f"undoes {data['reverts']}"] if data.get("reverts") else []
    tone, word = STATUSES.get(status, "plain"), status.replace("_", " ")
    if status == "completed" and any(one.tone in ("failed", "denied") for one in outcomes):
        tone, word = "failed", "completed with problems"
    return Head(tone, word, (), tuple(facts), str(data["runId"]))


def _chosen(outcomes: Sequence[event_rows.Outcome], rows: int) -> list[int]:
    """Which are shown where not all can be: what went wrong, then the first and the last."""
    if len(outcomes) <= rows:
        return list(range(len(outcomes)))
    wrong = [index for index, one in enumerate(outcomes) if one.tone not in ("ok", "plain")][: rows * 2 // 3]
    left = rows - len(wrong)
    ends = [*range(left // 2), *range(len(outcomes) - left // 2, len(outcomes))]
    return sorted({*wrong, *ends})


def _gap(outcomes: Sequence[event_rows.Outcome], prefix: str) -> list[Block]:
    if not outcomes:
        return []
    counts = Counter(one.word for one in outcomes)
    said = ", ".join(f"{count:,} {word}" for word, count in counts.items())
    where = held(prefix, "_.events holds them all")
    return [muted(f"… {units.counted(len(outcomes), 'more operation')} ({said}){where}")]


class _Bodies:
    """What stands below the rows: the room is shared by all of it."""

    def __init__(self, run_id: str, told: Sequence[Event], shown: Sequence[int], room: Room, prefix: str) -> None:
        self._run_id, self._told, self._lines, self._prefix = run_id, told, room.lines, prefix
        keys = [(index, name) for index in shown for name in _CONTENTS if told[index].get(name)]
        sizes = [cutting.cost(str(told[index][name])) for index, name in keys]
        self._room = dict(zip(keys, room.share(sizes), strict=True))

    def of(self, index: int) -> list[Block]:
        event = self._told[index]
        found: list[Block] = []
        command = str(event.get("command", ""))
        if "\n" in command.strip():
            script = cutting.head(command, 4000, self._lines, longest=4000).text
            found.append(Fold(f"script, {counted_lines(command)}", (preformatted(script, bar="$"),)))
        if characters := self._room.get((index, "diff")):
            diff, is_cut = str(event["diff"]), bool(event.get("truncated"))
            found += diffs.blocks(diff, characters, self._lines, is_cut=is_cut)
        for stream, bar in (("stdout", "|"), ("stderr", "!")):
            if characters := self._room.get((index, stream)):
                whole = self._whole(event, stream)
                found += output(str(event[stream]), characters, self._lines, bar, self._prefix, whole)
        if characters := self._room.get((index, "content")):
            found += self._content(event, characters)
        if isinstance(closest := event.get("closest"), dict):
            found += self._closest(closest)
        return [*found, *_lists(event)]

    def _whole(self, event: Event, stream: str) -> Whole | None:
        """Both streams share one word about it, so the mark in the text decides."""
        if not event.get("truncated") or LEFT_OUT not in str(event[stream]):
            return None
        of_stream = "" if stream == "stdout" else f', "{stream}"'
        how = f'connect().output("{self._run_id}", "{event.get("operationId", "")}"{of_stream})'
        return Whole(units.size(event.get(f"{stream}Bytes", "")), how)

    def _content(self, event: Event, characters: int) -> list[Block]:
        if event.get("encoding") == "base64" or event["type"] == "message":
            return []
        content = str(event["content"])
        cut = cutting.head(content, characters, self._lines)
        where = held(self._prefix, "_.events holds them")
        more = [muted(f"… {cut.said()}{where}", is_below=True)] if cut.said() else []
        return [Fold(counted_lines(content), (preformatted(cut.text), *more))]

    def _closest(self, closest: Event) -> list[Block]:
        cut = cutting.head(str(closest.get("text", "")), 2000, 20).text
        start = closest.get("startLine", 1)
        similarity = closest.get("similarity")
        alike = f", {similarity:.0%} alike" if isinstance(similarity, int | float) else ""
        numbers = [str(start + place) for place in range(len(lines_of(cut)))] if isinstance(start, int) else []
        return [muted(f"The closest is at line {start}{alike}:", is_below=True), preformatted(cut, gutter=numbers)]


class Whole(NamedTuple):
    """Of an output that is not whole in its event."""

    size: str
    how: str
    """The Python that answers all of it."""


def output(text: str, characters: int, lines: int, bar: str, prefix: str, whole: Whole | None = None) -> list[Block]:
    """The end of it is what people look at; what came before is folded."""
    cut = cutting.tail(ansi.settled(text), characters, lines)
    styled = tuple(Line(spans) for spans in ansi.spans(lines_of(cut.text)))
    is_long = len(styled) > SHOWN_TAIL + 4
    earlier, tail = (styled[:-SHOWN_TAIL], styled[-SHOWN_TAIL:]) if is_long else ((), styled)
    more: list[Block] = []
    if whole is not None:
        more = [muted(f"… of {whole.size} in all{held(prefix, f'{whole.how} answers it')}", is_below=True)]
    elif cut.said():
        where = held(prefix, "_.to_dict() holds them")
        more = [muted(f"… {cut.said('earlier')} left out{where}", is_below=True)]
    if not is_long:
        return [*more, Pre(tail, bar=bar)] if tail else []
    before = units.counted(cut.left_out + len(earlier), "earlier line")
    label = before if whole is None else f"earlier output, {whole.size} in all"
    return [Fold(label, (*more, Pre(earlier, bar=bar))), Pre(tail, bar=bar)]


def _lists(event: Event) -> list[Block]:
    """Paths that stand in the way of an undo, or were left alone by one."""
    is_of_run = event.get("type") == "error"
    told = event.get("details", {}) if is_of_run else event
    named = {"left": "left as they are", "notUndone": "not undone" if is_of_run else "never undone"}
    found: list[Block] = []
    for field, said in {**named, "paths": "in the way"}.items():
        if paths := told.get(field):
            listed = ", ".join(map(str, paths[:20])) + (f" and {len(paths) - 20} more" if len(paths) > 20 else "")
            found.append(Row((Span(f"{said}: ", "muted"), Span(cutting.line(listed), "code")), is_below=True))
    return found


def _next(data: Event, status: str, run_id: str, prefix: str) -> list[Block]:
    if status == "running":
        return [_advice("It goes on. To see how far it is", f"{prefix}show {run_id}")]
    # A command may have changed anything or nothing; one that somebody had to agree to is worth a word.
    approved = {event.get("operationId") for event in data["events"] if event["type"] == "approvalRequired"}
    done = (event for event in data["events"] if event.get("success"))
    changed = any(event["type"] in _UNDOABLE or event.get("operationId") in approved for event in done)
    is_undone = data.get("dryRun") or (data.get("atomic") and status != "completed")
    if changed and not is_undone and status != "awaiting_approval":
        return [_advice("To undo it", f"{prefix}revert {run_id}")]
    return []


def _advice(said: str, line: str) -> Row:
    return Row((Span(f"{said}: ", "muted"), Span(line, "type")))
