"""Lists: runs, what was recorded, verdicts of policy, grants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wap_kernel.client.render import approval_view, cutting, event_rows, units
from wap_kernel.client.render.blocks import Block, Head, Room, Row, Span, Table, Tone, code, held, muted, plain
from wap_kernel.client.render.run_view import STATUSES

Data = Mapping[str, Any]
Cells = tuple[tuple[Span, ...], ...]

_SIGNS: dict[Tone, str] = {"ok": "✓", "failed": "✗", "denied": "⊘", "asks": "?", "busy": "●", "plain": ""}
_OUTCOMES: dict[str, Tone] = {"ok": "ok", "denied": "denied", "failed": "failed", "unfinished": "busy"}
_VERDICTS: dict[str, tuple[Tone, str]] = {"allow": ("ok", "allow"), "ask": ("asks", "ask"), "deny": ("denied", "deny")}
LONGEST_CELL = 300


def runs(data: Data, asked: Data, room: Room, prefix: str) -> list[Block]:
    listed: Sequence[Data] = data["runs"]
    waiting = sum(1 for run in listed if run.get("status") == "awaiting_approval")
    is_cut = bool(data.get("nextCursor"))
    facts = (f"{waiting:,} {'of them ' if is_cut else ''}waiting for approval",) if waiting else ()
    said = f"{'the newest ' if is_cut else ''}{units.counted(len(listed), 'run')}"
    head = Head("asks" if waiting else "plain", "", plain(said), facts)
    rows = [_run(run) for run in listed[: room.rows]]
    found: list[Block] = [
        head,
        Table(("run", "status", "operations", "started (UTC)", "took", "by"), tuple(rows), wide=5),
    ]
    found = found if rows else [head]
    return [
        *found,
        *_more(len(listed) - len(rows), prefix),
        *_older(data),
        *(waiting_row(run, prefix) for run in _asking(listed, room)),
    ]


def _run(run: Data) -> Cells:
    status = str(run.get("status", ""))
    tone: Tone = STATUSES.get(status, "plain")
    problems = run.get("problems")
    if tone == "ok" and problems != 0:  # it has come to its end; an older server does not say with which outcomes
        tone = "failed" if problems else "plain"
    found = f", {units.counted(problems, 'problem')}" if problems and isinstance(problems, int) else ""
    told = f"{status.replace('_', ' ')}{found}"
    took = units.between(run.get("startedAt"), run.get("completedAt"))
    what = f"undoes {run['reverts']}" if run.get("reverts") else str(run.get("operations", ""))
    return (
        code(_short(run.get("runId", ""))),
        plain(f"{_SIGNS[tone]} {told}".strip()),
        plain(_short(what)),
        plain(_short(units.moment(run.get("startedAt")))),
        plain("" if took is None else units.duration(took)),
        plain(_short(approval_view.asker(run))),
    )


def _asking(listed: Sequence[Data], room: Room) -> list[Data]:
    return [run for run in listed if run.get("pendingApproval")][: max(room.rows // 10, 1)]


def waiting_row(run: Data, prefix: str) -> Row:
    """One line for a run that waits: what for, and how to look at it."""
    pending = run["pendingApproval"]
    operation = pending.get("operation", {})
    subject = event_rows.short(event_rows.subject({**operation, **pending}))
    said = f"waits to {event_rows.verb(operation.get('type', ''))} "
    look = f"{prefix}show {run.get('runId', '')}"
    spans = (Span(said), Span(subject, "code"), Span(", see ", "muted"), Span(look, "type"))
    return Row(spans, "asks", event_rows.WORDS["asks"])


def audit(data: Data, asked: Data, room: Room, prefix: str) -> list[Block]:
    records: Sequence[Data] = data["records"]
    rows = [_record(record) for record in records[: room.rows]]
    head = Head("plain", "", plain(units.counted(len(records), "record")), ("newest first",))
    table = Table(("time (UTC)", "outcome", "what", "by", "run"), tuple(rows), wide=2)
    return [head, *([table] if rows else []), *_more(len(records) - len(rows), prefix), *_older(data)]


def _record(record: Data) -> Cells:
    outcome = str(record.get("outcome", ""))
    tone: Tone = _OUTCOMES.get(outcome, "plain")
    summary = record.get("summary") or {}
    what = [Span(f"{event_rows.verb(record.get('tool', ''))} "), Span(_short(event_rows.subject(summary)), "code")]
    what += [Span(" (dry run)", "muted")] if summary.get("dryRun") else []
    what += [Span(f" {_short(record['error'])}", "muted")] if record.get("error") else []
    return (
        plain(_short(units.moment(record.get("at")))),
        plain(f"{_SIGNS[tone]} {outcome}".strip()),
        tuple(what),
        plain(_short(approval_view.asker(record))),
        code(_short(record.get("runId", ""))),
    )


def verdicts(data: Data, asked: Data, room: Room, prefix: str) -> list[Block]:
    listed: Sequence[Data] = data["verdicts"]
    operations = event_rows.by_id(asked.get("operations", ()))
    answers = [str(one.get("verdict")) for one in listed]
    counts = tuple(f"{answers.count(name):,} {name}" for name in _VERDICTS if name in answers)
    head = Head("plain", "", plain("What policy says"), counts)
    found: list[Block] = [head]
    for verdict in listed[: room.rows]:
        tone, word = _VERDICTS.get(str(verdict.get("verdict")), ("plain", str(verdict.get("verdict"))))
        operation = operations.get(str(verdict.get("operationId")), {})
        spans = [Span(event_rows.verb(operation.get("type") or verdict.get("operationId", "")))]
        if subject := event_rows.short(event_rows.subject(operation)):
            spans += [Span(" "), Span(subject, "code")]
        why = event_rows.sentences(verdict.get("reason"), verdict.get("suggestion"))
        spans.append(Span(f": {cutting.line(why, LONGEST_CELL)}"))
        found.append(Row(tuple(spans), tone, word, (f"rule {_short(verdict.get('rule', ''))}",)))
    return [*found, *_more(len(listed) - room.rows, prefix)]


def grants(data: Data, asked: Data, room: Room, prefix: str) -> list[Block]:
    listed: Sequence[Data] = data["grants"]
    head = Head("plain", "", plain(units.counted(len(listed), "grant")), ("allowed for good, without a question",))
    if not listed:
        always = Span(f"{prefix}approve RUN --always", "type")
        return [head, Row((Span("To allow something for good: ", "muted"), always))]
    rows = tuple(
        (
            code(_short(grant.get("id", ""))),
            plain(_short(grant.get("allows", ""))),
            plain(_short(units.moment(grant.get("createdAt")))),
            plain(_short(approval_view.asker({"user": grant.get("createdBy")}))),
        )
        for grant in listed[: room.rows]
    )
    table = Table(("grant", "allows", "since (UTC)", "by"), rows, wide=1)
    revoke = Span(f"{prefix}grants --revoke {_short(listed[0].get('id', ''))}", "type")
    again = Row((Span("To be asked again: ", "muted"), revoke))
    return [head, table, *_more(len(listed) - len(rows), prefix), again]


def _short(value: object) -> str:
    return cutting.line(str(value), LONGEST_CELL)


def _older(data: Data) -> list[Block]:
    return [muted("… there are older ones: ask for more with --limit")] if data.get("nextCursor") else []


def _more(count: int, prefix: str) -> list[Block]:
    return [muted(f"… {count:,} more{held(prefix, '_.to_dict() holds them')}")] if count > 0 else []
