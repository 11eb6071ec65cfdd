"""Encode a run for clients: as an events message, as an entry of a list, as pages of output."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from wap_kernel.model.command import Stream
from wap_kernel.model.errors import NotFound
from wap_kernel.model.limits import MAX_SPILLED_BYTES
from wap_kernel.model.run import Run, RunStatus
from wap_kernel.runs.store.outputs import OutputStore
from wap_kernel.runs.store.run_store import RunStore

PROTOCOL_VERSION = "1.0"


def encode_message(store: RunStore, run: Run, *, is_person: bool) -> bytes:
    """Return the events message of a run as JSON; its events are stored as JSON and are not parsed."""
    head: dict[str, Any] = {"protocolVersion": PROTOCOL_VERSION, "runId": run.id, "status": run.status.value}
    tail: dict[str, Any] = {"startedAt": run.started_at}
    if run.completed_at is not None:
        tail["completedAt"] = run.completed_at
    tail |= {field: True for name, field in _OPTION_FIELDS.items() if getattr(run.options, name)}
    if run.reverts is not None:
        tail["reverts"] = run.reverts
    if (pending := _pending_approval(store, run, is_person)) is not None:
        tail["pendingApproval"] = pending
    if run.response is not None:
        tail["response"] = run.response
    before, after = f'{json.dumps(head)[:-1]}, "events": [', f"], {json.dumps(tail)[1:]}"
    return b"".join((before.encode(), b",".join(store.events(run.id)), after.encode()))


_OPTION_FIELDS = {"atomic": "atomic", "dry_run": "dryRun"}


def summarize_run(store: RunStore, run: Run, redact: Callable[[str], str], *, is_person: bool) -> dict[str, Any]:
    """Return a run's entry in a list; names that callers choose may hold credentials, which are redacted."""
    entry: dict[str, Any] = {"runId": run.id, "status": run.status.value}
    if run.caller.agent is not None:
        entry["agent"] = redact(run.caller.agent)
    entry |= {
        "user": redact(run.caller.user),
        "dialect": run.dialect,
        **({} if run.options.call is None else {"tool": run.options.call}),
        "startedAt": run.started_at,
        "operations": run.count,
    }
    entry["problems"] = run.problems
    if run.completed_at is not None:
        entry["completedAt"] = run.completed_at
    if run.reverts is not None:
        entry["reverts"] = run.reverts
    if (pending := _pending_approval(store, run, is_person)) is not None:
        entry["pendingApproval"] = pending
    return entry


def _pending_approval(store: RunStore, run: Run, is_person: bool) -> dict[str, Any] | None:
    approval = store.pending_approval(run.id) if run.status is RunStatus.AWAITING_APPROVAL else None
    return None if approval is None else approval.render_for(is_person)


def read_output(
    outputs: OutputStore, run: Run, operation_id: str, stream: Stream, offset: int, limit: int
) -> dict[str, Any]:
    position = next((number for number, step in enumerate(run.steps) if step.id == operation_id), None)
    if position is None:
        raise NotFound(f"The run has no operation {operation_id!r}.", runId=run.id)
    has_ended = run.status.is_final or run.position > position
    text, after = outputs.read(run.id, position, stream, offset, limit, ended=has_ended)
    size = outputs.size(run.id, position, stream)
    page: dict[str, Any] = {
        "operationId": operation_id,
        "stream": stream,
        "offset": offset,
        "content": text,
        "totalBytes": size,
        "isComplete": has_ended and after >= size,
    }
    if not page["isComplete"]:
        page["nextOffset"] = after
    if size >= MAX_SPILLED_BYTES:
        page["isTruncated"] = True
    return page
