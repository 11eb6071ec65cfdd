"""Render a pending approval: everything that a person needs to decide, and the lines to type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wap_kernel.client.render import effect_view, event_rows, file_view, units
from wap_kernel.client.render.blocks import (
    Block,
    Fields,
    Room,
    Row,
    Span,
    code_spans,
    muted_row,
    preformatted,
    python_hint,
    text_spans,
)
from wap_kernel.model.hints import address_person

MAX_COMMITS = 10
MAX_BOUND = 10
"""Files that a line names as bound to the decision."""


def approval_blocks(target: str, pending: Mapping[str, Any], room: Room, prefix: str) -> list[Block]:
    """Render an approval; `target` is the id of the run in the lines to type, and options that name its workspace."""
    operation = pending.get("operation", {})
    command = pending.get("command")
    is_replacement = operation.get("type") == "createFile" and event_rows.is_replacement(pending)
    kind = "replace" if is_replacement else event_rows.verb(operation.get("type", ""))
    subject = "a command" if command else units.truncate_line(event_rows.subject({**operation, **pending}))
    blocks: list[Block] = [
        Row((Span(f"Wants to {kind} "), Span(subject, "" if command else "code"), Span(_describe_flags(operation))))
    ]
    blocks += _command(str(command), room, prefix) if command else _diff(pending, room)
    if effect := pending.get("effect"):
        blocks += effect_view.effect_blocks(effect, room, prefix)
    rows = [(name, spans) for name, spans in _fields(pending) if spans]
    return [*blocks, Fields((*rows, *_decision_lines(target, pending, prefix)))]


def name_caller(record: Mapping[str, Any]) -> str:
    """Return the caller of a run or record: the agent, the user for whom it works, and the notebook."""
    user, agent = str(record.get("user") or ""), str(record.get("agent") or record.get("token") or "")
    names = f"{agent}, for {user}" if agent and user else agent or user
    notebook = record.get("notebook")
    return f"{names}, in {notebook}" if notebook else names


def _describe_flags(operation: Mapping[str, Any]) -> str:
    flags = [name for name in ("recursive", "overwrite") if operation.get(name)]
    return f" ({', '.join(flags)})" if flags else ""


def _command(command: str, room: Room, prefix: str) -> list[Block]:
    cut = units.take_head(command, room.characters // 2, room.lines, longest=len(command))
    where = python_hint(prefix, "_.pending holds the whole command")
    more = [muted_row(f"… {cut.describe_omission()}{where}")] if cut.describe_omission() else []
    return [preformatted(cut.text, bar="$"), *more]


def _diff(pending: Mapping[str, Any], room: Room) -> list[Block]:
    note = [muted_row(str(pending["note"]))] if pending.get("note") else []
    is_cut = bool(pending.get("isDiffTruncated"))
    diff = str(pending.get("diff", ""))
    return [*file_view.diff_blocks(diff, room.characters // 2, room.lines, is_cut=is_cut, is_open=True), *note]


def _fields(pending: Mapping[str, Any]) -> list[tuple[str, tuple[Span, ...]]]:
    why = address_person(event_rows.join_sentences(pending.get("reason"), pending.get("suggestion")))
    folder = pending.get("cwd", ".")
    environment = ", ".join(f"{name}={value}" for name, value in dict(pending.get("env", {})).items())
    is_shared = pending.get("isolation") == "shared"
    return [
        ("why", text_spans(units.truncate_line(why)) if why else ()),
        ("rule", code_spans(units.truncate_line(str(pending["rule"]))) if pending.get("rule") else ()),
        *_commits("new there", pending.get("commits", ())),
        *_commits("lost there", pending.get("overwritten", ())),
        ("in folder", code_spans(units.truncate_line(str(folder))) if folder != "." else ()),
        ("with", code_spans(units.truncate_line(environment)) if environment else ()),
        ("undo", text_spans(effect_view.NO_UNDO) if is_shared else ()),
        *_bound_files(pending),
        ("asked by", text_spans(units.truncate_line(name_caller(pending))) if name_caller(pending) else ()),
        ("until", text_spans(units.format_deadline(pending["expiresAt"])) if pending.get("expiresAt") else ()),
    ]


def _bound_files(pending: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Span, ...]]]:
    """Yield the files whose content the decision is bound to, and those that are too large for it."""
    bound, total = pending.get("boundTo", ()), int(pending.get("boundToCount") or 0)
    for label, paths, count in (("bound to", bound, total), ("not bound to", pending.get("notBound", ()), 0)):
        if paths:
            names = units.truncate_line(", ".join(map(str, paths[:MAX_BOUND])))
            more = max(count, len(paths)) - min(len(paths), MAX_BOUND)
            yield label, (*code_spans(names), Span(f" and {more:,} more" if more else "", "muted"))


def _commits(label: str, commits: Sequence[object]) -> Iterator[tuple[str, tuple[Span, ...]]]:
    """Yield a row for each commit of a push, with its id and subject."""
    for index, commit in enumerate(commits[:MAX_COMMITS]):
        yield "" if index else label, text_spans(units.truncate_line(str(commit)))
    if len(commits) > MAX_COMMITS:
        yield "", (Span("… and older ones", "muted"),)


def _decision_lines(target: str, pending: Mapping[str, Any], prefix: str) -> list[tuple[str, tuple[Span, ...]]]:
    lines = [("to allow it", f"approve {target}"), ("to refuse it", f"deny {target}")]
    if pending.get("remember"):
        lines.insert(1, ("always, here", f"approve {target} --always"))
    rows: list[tuple[str, tuple[Span, ...]]] = [(name, (Span(prefix + line, "type"),)) for name, line in lines]
    if pending.get("remember"):
        rows.insert(
            2, ("", (Span("which allows ", "muted"), *code_spans(units.truncate_line(str(pending["remember"])))))
        )
    return rows
