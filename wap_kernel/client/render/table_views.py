"""Render lists: runs, audit records, verdicts of policy, grants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wap_kernel.client.render import approval_view, event_rows, units
from wap_kernel.client.render.blocks import (
    Block,
    Header,
    Room,
    Row,
    Span,
    Table,
    Tone,
    code_spans,
    muted_row,
    python_hint,
    text_spans,
)
from wap_kernel.client.render.effect_text import summarize_effect
from wap_kernel.client.render.run_view import STATUSES

Data = Mapping[str, Any]
Cells = tuple[tuple[Span, ...], ...]

_SIGNS: dict[Tone, str] = {"ok": "✓", "failed": "✗", "denied": "⊘", "asks": "?", "busy": "●", "plain": ""}
_OUTCOMES: dict[str, Tone] = {"ok": "ok", "asked": "asks", "denied": "denied", "failed": "failed", "unfinished": "busy"}
_VERDICTS: dict[str, tuple[Tone, str]] = {"allow": ("ok", "allow"), "ask": ("asks", "ask"), "deny": ("denied", "deny")}
LONGEST_CELL = 300


def runs(data: Data, request: Data, room: Room, prefix: str) -> list[Block]:
    listed: Sequence[Data] = data["runs"]
    waiting = sum(1 for run in listed if run.get("status") == "awaiting_approval")
    is_cut = bool(data.get("nextCursor"))
    facts = (f"{waiting:,} {'of them ' if is_cut else ''}waiting for approval",) if waiting else ()
    title = f"{'the newest ' if is_cut else ''}{units.format_count(len(listed), 'run')}"
    head = Header("asks" if waiting else "plain", "", text_spans(title), facts)
    rows = [_run_cells(run) for run in listed[: room.rows]]
    found: list[Block] = [
        head,
        Table(("run", "status", "operations", "started", "took", "by"), tuple(rows), wide=5),
    ]
    found = found if rows else [head]
    return [
        *found,
        *_more_rows(len(listed) - len(rows), prefix),
        *_older_rows(data),
        *(waiting_row(run, prefix) for run in _waiting_runs(listed, room)),
    ]


def approval_notice(data: Data, request: Data, room: Room, prefix: str) -> list[Block]:
    """Render the runs of agents that have begun to wait."""
    listed: Sequence[Data] = data["runs"]
    title = "An agent waits for your approval" if len(listed) == 1 else f"{len(listed):,} runs of agents wait for you"
    rows = [waiting_row(run, prefix, approval_view.name_caller(run)) for run in listed[: room.rows]]
    return [Header("asks", title), *rows, *_more_rows(len(listed) - len(rows), prefix)]


def _run_cells(run: Data) -> Cells:
    status = str(run.get("status", ""))
    tone: Tone = STATUSES.get(status, "plain")
    problems = run.get("problems")
    if tone == "ok" and problems != 0:  # completed, but the summary has no count of problems
        tone = "failed" if problems else "plain"
    found = f", {units.format_count(problems, 'problem')}" if problems and isinstance(problems, int) else ""
    label = f"{status.replace('_', ' ')}{found}"
    took = units.elapsed_milliseconds(run.get("startedAt"), run.get("completedAt"))
    return (
        code_spans(_shorten(run.get("runId", ""))),
        text_spans(f"{_SIGNS[tone]} {label}".strip()),
        text_spans(_shorten(_describe_run(run))),
        text_spans(_shorten(units.format_time(run.get("startedAt")))),
        text_spans("" if took is None else units.format_duration(took)),
        text_spans(_shorten(approval_view.name_caller(run))),
    )


def _describe_run(run: Data) -> str:
    """Return how many operations a run has, or what it is: a revert, an apply, a single call of a tool."""
    if run.get("reverts"):
        return f"undoes {run['reverts']}"
    if run.get("tool"):
        return f"call of {run['tool']}"
    return "apply" if run.get("dialect") == "apply" else str(run.get("operations", ""))


def _waiting_runs(listed: Sequence[Data], room: Room) -> list[Data]:
    return [run for run in listed if run.get("pendingApproval")][: max(room.rows // 10, 1)]


def waiting_row(run: Data, prefix: str, caller: str = "") -> Row:
    """Return a row for a run that waits for approval: its operation, the caller if named, the line that shows it."""
    pending = run["pendingApproval"]
    operation = pending.get("operation", {})
    subject = event_rows.first_line(event_rows.subject({**operation, **pending}))
    label = f"{_shorten(caller)} waits to {event_rows.verb(operation.get('type', ''))} ".lstrip()
    line = f"{prefix}show {run.get('runId', '')}"
    effect = f", which {summarize_effect(pending['effect'])}" if pending.get("effect") else ""
    spans = (Span(label), Span(subject, "code"), Span(effect), Span(", see ", "muted"), Span(line, "type"))
    return Row(spans, "asks", event_rows.WORDS["asks"])


def audit(data: Data, request: Data, room: Room, prefix: str) -> list[Block]:
    records: Sequence[Data] = data["records"]
    rows = [_record_cells(record) for record in records[: room.rows]]
    head = Header("plain", "", text_spans(units.format_count(len(records), "record")), ("newest first",))
    table = Table(("time", "outcome", "what", "by", "run"), tuple(rows), wide=2)
    return [head, *([table] if rows else []), *_more_rows(len(records) - len(rows), prefix), *_older_rows(data)]


def _record_cells(record: Data) -> Cells:
    outcome = str(record.get("outcome", ""))
    tone: Tone = _OUTCOMES.get(outcome, "plain")
    summary = record.get("summary") or {}
    what = [Span(f"{event_rows.verb(record.get('tool', ''))} "), Span(_shorten(event_rows.subject(summary)), "code")]
    what += [Span(" (dry run)", "muted")] if summary.get("dryRun") else []
    what += [Span(f" {_shorten(record['error'])}", "muted")] if record.get("error") else []
    return (
        text_spans(_shorten(units.format_time(record.get("at")))),
        text_spans(f"{_SIGNS[tone]} {outcome}".strip()),
        tuple(what),
        text_spans(_shorten(approval_view.name_caller(record))),
        code_spans(_shorten(record.get("runId", ""))),
    )


def verdicts(data: Data, request: Data, room: Room, prefix: str) -> list[Block]:
    listed: Sequence[Data] = data["verdicts"]
    operations = event_rows.map_by_id(request.get("operations", ()))
    answers = [str(one.get("verdict")) for one in listed]
    counts = tuple(f"{answers.count(name):,} {name}" for name in _VERDICTS if name in answers)
    head = Header("plain", "", text_spans("What policy says"), counts)
    found: list[Block] = [head]
    for verdict in listed[: room.rows]:
        tone, word = _VERDICTS.get(str(verdict.get("verdict")), ("plain", str(verdict.get("verdict"))))
        operation = operations.get(str(verdict.get("operationId")), {})
        spans = [Span(event_rows.verb(operation.get("type") or verdict.get("operationId", "")))]
        if subject := event_rows.first_line(event_rows.subject(operation)):
            spans += [Span(" "), Span(subject, "code")]
        why = event_rows.join_sentences(verdict.get("reason"), verdict.get("suggestion"))
        spans.append(Span(f": {units.truncate_line(why, LONGEST_CELL)}"))
        found.append(Row(tuple(spans), tone, word, (f"rule {_shorten(verdict.get('rule', ''))}",)))
    return [*found, *_more_rows(len(listed) - room.rows, prefix)]


def grants(data: Data, request: Data, room: Room, prefix: str) -> list[Block]:
    listed: Sequence[Data] = data["grants"]
    head = Header(
        "plain", "", text_spans(units.format_count(len(listed), "grant")), ("allowed for good, without an approval",)
    )
    if not listed:
        always = Span(f"{prefix}approve RUN --always", "type")
        return [head, Row((Span("To allow something for good: ", "muted"), always))]
    rows = tuple(
        (
            code_spans(_shorten(grant.get("id", ""))),
            text_spans(_shorten(grant.get("allows", ""))),
            text_spans(_shorten(units.format_time(grant.get("createdAt")))),
            text_spans(_shorten(approval_view.name_caller({"user": grant.get("createdBy")}))),
        )
        for grant in listed[: room.rows]
    )
    table = Table(("grant", "allows", "since", "by"), rows, wide=1)
    revoke = Span(f"{prefix}grants --revoke {_shorten(listed[0].get('id', ''))}", "type")
    again = Row((Span("To be asked again: ", "muted"), revoke))
    return [head, table, *_more_rows(len(listed) - len(rows), prefix), again]


def _shorten(value: object) -> str:
    return units.truncate_line(str(value), LONGEST_CELL)


def _older_rows(data: Data) -> list[Block]:
    return [muted_row("… there are older ones: ask for more with --limit")] if data.get("nextCursor") else []


def _more_rows(count: int, prefix: str) -> list[Block]:
    return [muted_row(f"… {count:,} more{python_hint(prefix, '_.to_dict() holds them')}")] if count > 0 else []
