"""What a run waits for: everything that a person needs to decide, and the lines to type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wap_kernel.client.render import cutting, diffs, event_rows, units
from wap_kernel.client.render.blocks import Block, Fields, Room, Row, Span, code, held, muted, plain, preformatted

_ANONYMOUS = re.compile("[0-9a-f]{32}")
"""How Jupyter calls whoever comes with the server's token."""
SHOWN_COMMITS = 10


def blocks(run_id: str, pending: Mapping[str, Any], room: Room, prefix: str) -> list[Block]:
    operation = pending.get("operation", {})
    command = pending.get("command")
    kind = event_rows.verb(operation.get("type", ""))
    subject = "a command" if command else cutting.line(event_rows.subject({**operation, **pending}))
    found: list[Block] = [
        Row((Span(f"Wants to {kind} "), Span(subject, "" if command else "code"), Span(_further(operation))))
    ]
    found += _command(str(command), room, prefix) if command else _diff(pending, room)
    rows = [(name, spans) for name, spans in _fields(pending) if spans]
    return [*found, Fields((*rows, *_answers(run_id, pending, prefix)))]


def asker(told: Mapping[str, Any]) -> str:
    """Who asks, or did: the agent, and for whom where that is somebody."""
    user, agent = str(told.get("user") or ""), str(told.get("agent") or told.get("token") or "")
    if _ANONYMOUS.fullmatch(user):
        return agent or "anonymous"  # the number is another one with each request
    return f"{agent}, for {user}" if agent and user else agent or user


def _further(operation: Mapping[str, Any]) -> str:
    flags = [name for name in ("recursive", "overwrite") if operation.get(name)]
    return f" ({', '.join(flags)})" if flags else ""


def _command(command: str, room: Room, prefix: str) -> list[Block]:
    cut = cutting.head(command, room.characters // 2, room.lines, longest=len(command))
    where = held(prefix, "_.pending holds the whole command")
    more = [muted(f"… {cut.said()}{where}")] if cut.said() else []
    return [preformatted(cut.text, bar="$"), *more]


def _diff(pending: Mapping[str, Any], room: Room) -> list[Block]:
    note = [muted(str(pending["note"]))] if pending.get("note") else []
    is_cut = bool(pending.get("isDiffTruncated"))
    diff = str(pending.get("diff", ""))
    return [*diffs.blocks(diff, room.characters // 2, room.lines, is_cut=is_cut, is_open=True), *note]


def _fields(pending: Mapping[str, Any]) -> list[tuple[str, tuple[Span, ...]]]:
    why = event_rows.sentences(pending.get("reason"), pending.get("suggestion"))
    folder = pending.get("cwd", ".")
    environment = ", ".join(f"{name}={value}" for name, value in dict(pending.get("env", {})).items())
    lost = ", ".join(str(item.get("path")) for item in pending.get("notKept", ()))
    return [
        ("why", plain(cutting.line(why)) if why else ()),
        ("rule", code(cutting.line(str(pending["rule"]))) if pending.get("rule") else ()),
        *_commits("new there", pending.get("commits", ())),
        *_commits("lost there", pending.get("overwritten", ())),
        ("in folder", code(cutting.line(str(folder))) if folder != "." else ()),
        ("with", code(cutting.line(environment)) if environment else ()),
        ("no undo for", plain(cutting.line(lost)) if lost else ()),
        ("asked by", plain(cutting.line(asker(pending))) if asker(pending) else ()),
        ("until", plain(units.moment(pending["expiresAt"], date=False)) if pending.get("expiresAt") else ()),
    ]


def _commits(said: str, listed: Sequence[object]) -> Iterator[tuple[str, tuple[Span, ...]]]:
    """Of a push: a row for each, with its id and subject."""
    for place, commit in enumerate(listed[:SHOWN_COMMITS]):
        yield "" if place else said, plain(cutting.line(str(commit)))
    if len(listed) > SHOWN_COMMITS:
        yield "", (Span("… and older ones", "muted"),)


def _answers(run_id: str, pending: Mapping[str, Any], prefix: str) -> list[tuple[str, tuple[Span, ...]]]:
    lines = [("to allow it", f"approve {run_id}"), ("to refuse it", f"deny {run_id}")]
    if pending.get("remember"):
        lines.insert(1, ("always, here", f"approve {run_id} --always"))
    found: list[tuple[str, tuple[Span, ...]]] = [(name, (Span(prefix + line, "type"),)) for name, line in lines]
    if pending.get("remember"):
        found.insert(2, ("", (Span("which allows ", "muted"), *code(cutting.line(str(pending["remember"]))))))
    return found
