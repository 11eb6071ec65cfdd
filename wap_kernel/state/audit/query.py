"""Read the audit for people: one record per operation, newest first, made of its intent and its outcome."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wap_kernel.model.errors import InvalidArgument

UNFINISHED = "unfinished"
"""The outcome of an intent without one: the operation runs, or the process died."""
OUTCOMES = ("ok", "asked", "denied", "failed", UNFINISHED)

_FROM_FIRST = {
    "id": "operation_id",
    "at": "at",
    "dialect": "dialect",
    "operation": "operation",
    "workspaceId": "workspace",
    "user": "user",
    "agent": "agent",
    "session": "session",
    "notebook": "notebook",
    "token": "token",
    "runId": "run",
    "operationId": "step",
}
"""Columns of the operation's first row by the field of a record."""
_FROM_LAST = {"outcome": "outcome", "code": "code", "error": "error", "durationMs": "duration_ms"}

# An operation that was denied or asked about has no intent, and retention may have cut one: such an outcome is a record
# of its own.
_QUERY = """
SELECT a.id AS number, COALESCE(o.summary, a.summary) AS summary, a.tool AS tool, {columns}
FROM audit a LEFT JOIN audit o ON a.phase = 'intent' AND o.operation_id = a.operation_id AND o.phase = 'outcome'
WHERE a.id < :before AND (a.phase = 'intent' OR NOT EXISTS (
    SELECT 1 FROM audit i WHERE i.operation_id = a.operation_id AND i.phase = 'intent'))
{conditions}
ORDER BY a.id DESC LIMIT :limit
""".replace(
    "{columns}",
    ", ".join(
        [f"a.{column} AS {field}" for field, column in _FROM_FIRST.items()]
        + [f"CASE a.phase WHEN 'intent' THEN o.{c} ELSE a.{c} END AS {field}" for field, c in _FROM_LAST.items()]
    ),
)
_OUTCOME = "CASE a.phase WHEN 'intent' THEN o.outcome ELSE a.outcome END"


@dataclass(frozen=True)
class AuditQuery:
    """A page of records to read. `tool` is the dialect's own name or the engine's."""

    limit: int
    cursor: str | None = None
    tool: str | None = None
    outcome: str | None = None
    workspace: str | None = None
    """The workspace's id, None for every workspace that the state folder serves."""


def read_records(connection: sqlite3.Connection, page: AuditQuery) -> dict[str, Any]:
    """Return `{"records": [...], "nextCursor"?}`."""
    values: dict[str, Any] = {"before": _position(page.cursor), "limit": page.limit + 1}
    conditions: list[str] = []
    if page.workspace is not None:
        conditions.append("AND a.workspace = :workspace")
        values["workspace"] = page.workspace
    if page.tool is not None:
        conditions.append("AND (a.tool = :tool OR a.operation = :tool)")
        values["tool"] = page.tool
    if page.outcome == UNFINISHED:
        conditions.append(f"AND {_OUTCOME} IS NULL")
    elif page.outcome is not None:
        conditions.append(f"AND {_OUTCOME} = :outcome")
        values["outcome"] = page.outcome
    cursor = connection.cursor()
    cursor.row_factory = sqlite3.Row
    rows = cursor.execute(_QUERY.replace("{conditions}", "\n".join(conditions)), values).fetchall()
    answer: dict[str, Any] = {"records": [_record(dict(row)) for row in rows[: page.limit]]}
    if len(rows) > page.limit:
        answer["nextCursor"] = str(rows[page.limit - 1]["number"])
    return answer


def _position(cursor: str | None) -> int:
    if cursor is None:
        return 2**63 - 1
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 18):
        raise InvalidArgument("There is no such cursor.", hint="Take nextCursor from the page before.")
    return int(cursor)


def _record(row: Mapping[str, Any]) -> dict[str, Any]:
    whole = {
        **{field: row[field] for field in _FROM_FIRST},
        "tool": row["tool"] or row["operation"],
        **{field: row[field] for field in _FROM_LAST},
        "outcome": row["outcome"] or UNFINISHED,
        "summary": _summary(row["summary"]),
    }
    return {field: value for field, value in whole.items() if value is not None}


def _summary(text: str) -> dict[str, Any]:
    """Return the summary; one that was tampered with must not keep people from reading the other records."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        found = None
    return found if isinstance(found, dict) else {"unreadable": str(text)}
