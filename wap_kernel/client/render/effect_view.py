"""Render what a command changed: the effect that an approval shows, and changes that were not applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wap_kernel.client.render import event_rows, file_view, units
from wap_kernel.client.render.blocks import Block, Fold, Room, Row, Span, muted_row
from wap_kernel.client.render.effect_text import CHANGE_VERBS, summarize_changes, summarize_effect
from wap_kernel.client.render.output_view import output_blocks

Data = Mapping[str, Any]

MAX_ROWS = 40
"""Changed paths that have a row of their own."""
MAX_REFUSED = 10
"""Refused changes that have a row of their own."""
NO_UNDO = "The command writes into the workspace directly. This cannot be undone."
NO_UNDO_AFTER = "The command wrote into the workspace directly. A revert does not undo it."


def effect_blocks(effect: Data, room: Room, prefix: str) -> list[Block]:
    """Return the effect of a command that has run on its layer: first its changes, then diffs, then its output."""
    facts = ["timed out"] if effect.get("timedOut") else [f"exit {effect.get('exitCode', '')}"]
    counted = Row(
        (
            Span("It "),
            Span(summarize_effect(effect), "strong"),
            Span(". It has run on a layer; nothing is applied yet.", "muted"),
        ),
        facts=tuple(facts),
    )
    changes = _sort_changes(effect.get("changes", ()))
    diffs, contents = _diffs(changes, room)
    return [
        counted,
        *_change_rows(changes, int(effect.get("more") or 0), min(room.rows, MAX_ROWS)),
        *refused_rows(effect.get("refusedChanges", ())),
        *diffs,
        *_output(effect, room, prefix),
        *contents,
    ]


def simulated_blocks(changes: Sequence[Data], more: int, room: Room) -> list[Block]:
    """Return all changes of a dry run so far."""
    rows = _change_rows(_sort_changes(changes), more, min(room.rows, MAX_ROWS))
    summary = summarize_changes(changes) if not more else f"changes {len(changes) + more:,} paths"
    return [Fold(f"the run so far {summary}", tuple(rows))] if rows else []


_RECORDED_KINDS = {
    "modified": ("changed", "file"),
    "folder created": ("created", "folder"),
    "folder deleted": ("deleted", "folder"),
    "link": ("changed", "link"),
}
"""The change and the noun of the kinds that only the record of a run has."""


def recorded_blocks(changes: Sequence[Data], more: int, room: Room) -> list[Block]:
    """Return the recorded changes of a run that has ended, with their diffs."""
    listed = _sort_changes(map(_from_record, changes))
    rows = _change_rows(listed, more, min(room.rows, MAX_ROWS))
    diffs, contents = _diffs(listed, room)
    summary = summarize_changes(listed) if not more else f"changes {len(listed) + more:,} paths"
    head = Row((Span("The run "), Span(summary, "strong"), Span(".")))
    return [head, *rows, *diffs, *contents] if rows else []


def _from_record(change: Data) -> Data:
    name = str(change.get("change", ""))
    kind, noun = _RECORDED_KINDS.get(name, (name, "file"))
    return {**change, "change": kind, "kind": noun, "source": change.get("from")}


def refused_rows(refused: Sequence[Data]) -> list[Block]:
    """Return the changes that policy refuses, with the reasons."""
    rows: list[Block] = [
        Row(
            (
                Span("not applied: ", "muted"),
                Span(units.truncate_line(str(one.get("path", ""))), "code"),
                Span(f" ({units.truncate_line(str(one.get('reason', '')))})", "muted"),
            ),
            is_below=True,
        )
        for one in refused[:MAX_REFUSED]
    ]
    more = len(refused) - MAX_REFUSED
    return [*rows, muted_row(f"… {more:,} more not applied", is_below=True)] if more > 0 else rows


def _sort_changes(changes: Iterable[Data]) -> list[Data]:
    """Return the changes in the order in which a person reads them: what would be lost comes first."""
    order = {name: number for number, name in enumerate(CHANGE_VERBS)}
    return sorted(changes, key=lambda one: order.get(str(one.get("change")), len(order)))


def _change_rows(changes: Sequence[Data], more: int, limit: int) -> list[Block]:
    rows: list[Block] = [_change_row(one) for one in changes[:limit]]
    omitted = len(changes) - len(rows) + more
    return [*rows, muted_row(f"… {units.format_count(omitted, 'more change')}", is_below=True)] if omitted else rows


def _change_row(change: Data) -> Row:
    kind, path = str(change.get("change", "")), units.truncate_line(str(change.get("path", "")))
    noun = str(change.get("kind", ""))
    spans = [Span(f"{noun} ")] if noun else []
    if change.get("source"):
        spans += [Span(units.truncate_line(str(change["source"])), "code"), Span(" → ")]
    spans.append(Span(path, "code"))
    facts = [event_rows.count_diff_lines(str(change["diff"]))] if change.get("diff") else []
    facts += [units.truncate_line(str(change["note"]))] if change.get("note") else []
    word = "mode of" if kind == "mode" else CHANGE_VERBS.get(kind, kind)
    return Row(tuple(spans), "denied" if kind == "deleted" else "plain", word, tuple(facts))


def _diffs(changes: Sequence[Data], room: Room) -> tuple[list[Block], list[Block]]:
    """Return the diffs of changed and of new files, and folded what the deleted files hold."""
    diffed = [one for one in changes if one.get("diff")][: room.rows]
    shares = Room(room.characters // 2, room.rows, room.lines).share(
        [units.text_cost(str(one["diff"])) for one in diffed]
    )
    diffs: list[Block] = []
    contents: list[Block] = []
    deleted = sum(1 for one in diffed if one.get("change") == "deleted")
    for one, share in zip(diffed, shares, strict=True):
        blocks = contents if one.get("change") == "deleted" else diffs
        blocks.append(Row((Span(units.truncate_line(str(one["path"])), "code"),)))
        blocks += file_view.diff_blocks(str(one["diff"]), share, room.lines, is_cut=bool(one.get("isDiffTruncated")))
    label = f"the content of {units.format_count(deleted, 'deleted file')}"
    return diffs, [Fold(label, tuple(contents))] if contents else []


def _output(effect: Data, room: Room, prefix: str) -> list[Block]:
    found: list[Block] = []
    for stream, bar in (("stdout", "|"), ("stderr", "!")):
        if text := str(effect.get(stream) or ""):
            found += output_blocks(text, room.characters // 8, room.lines, bar, prefix)
    return [muted_row("its output:"), *found] if found else []
