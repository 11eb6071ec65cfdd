"""Encode runs, events and approvals as rows of the state database, and decode them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wap_kernel.model.caller import Caller
from wap_kernel.model.run import Approval, BatchOptions, Run, RunStatus
from wap_kernel.model.text import utc_now
from wap_kernel.policy.grant_store import decode_grant
from wap_kernel.runs.store.records import NewRun, sender_key

Event = Mapping[str, Any]

MAX_LOG_READ_CHARACTERS = 4 * 1024 * 1024
"""Characters of a log that one query returns, up to a last entry of any size."""
RUN_COLUMNS = (
    "number, id, status, caller, dialect, options, count, {operations}, COALESCE(position, 0), owner, "
    "cancel_requested, started_at, completed_at, reverts, response, "
    "COALESCE((SELECT problems FROM problems WHERE problems.run = runs.id), 0)"
)
"""Columns of a run; `{operations}` stands for that column, or for NULL in a header."""
APPROVAL_COLUMNS = (
    "id, run, position, operation_id, digest, files, shown, granted, created_at, expires_at, decision, decided_by, "
    "reason"
)


def insert_run(connection: sqlite3.Connection, workspace: str, new: NewRun, operations: str) -> None:
    connection.execute(
        "INSERT INTO runs (id, workspace, status, caller, asker, dialect, options, operations, size, count,"
        " owner, idempotency_key, request_digest, reverts, started_at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        (
            *(new.id, workspace, new.status.value, new.caller.model_dump_json(), sender_key(new.caller)),
            *(new.dialect, new.options.model_dump_json(), operations, len(operations)),
            *(len(new.steps), new.owner),
            *(new.key, new.digest, new.reverts, utc_now()),
        ),
    )


def insert_log(connection: sqlite3.Connection, run: str, kind: str, bodies: Iterable[Event | str]) -> None:
    connection.executemany(
        "INSERT INTO run_log (run, kind, body) VALUES (?, ?, ?)",
        [(run, kind, body if isinstance(body, str) else json.dumps(body)) for body in bodies],
    )


def store_position(connection: sqlite3.Connection, run: str, position: int) -> None:
    """Store the position of the next operation.

    It has a table of its own: a row of `runs` holds all operations and takes long to write.
    """
    connection.execute("INSERT OR REPLACE INTO positions VALUES (?, ?)", (run, position))


def store_response(connection: sqlite3.Connection, run: str, response: Mapping[str, Any]) -> None:
    connection.execute("UPDATE runs SET response = ? WHERE id = ?", (json.dumps(response), run))


def is_problem(event: Event) -> bool:
    """Return whether an event reports a failure or a denial; an operation that a dry run leaves out did not fail."""
    is_failure = event.get("success") is False and event.get("simulated") is not False
    return is_failure or event["type"] in ("policyDenied", "error")


def add_problems(connection: sqlite3.Connection, run: str, count: int) -> None:
    if count:  # most runs have no problem, and no row
        connection.execute(
            "INSERT INTO problems VALUES (?, ?)"
            " ON CONFLICT (run) DO UPDATE SET problems = problems.problems + excluded.problems",
            (run, count),
        )


def insert_approval(connection: sqlite3.Connection, approval: Approval) -> None:
    connection.execute(
        "INSERT INTO approvals (id, run, position, operation_id, digest, files, shown, granted, created_at, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(approval.id, approval.run, approval.position, approval.operation_id, approval.digest),
            *(json.dumps(dict(approval.files)), json.dumps(dict(approval.details))),
            None if approval.grant is None else approval.grant.model_dump_json(),
            *(approval.created_at, approval.expires_at),
        ),
    )


def store_decision(connection: sqlite3.Connection, decided: Approval) -> bool:
    """Store a person's decision; return False if the approval is decided already."""
    return bool(
        connection.execute(
            "UPDATE approvals SET decision = ?, decided_by = ?, decided_at = strftime('%s', 'now'), reason = ?"
            " WHERE id = ? AND decision IS NULL",
            (decided.decision, decided.decided_by, decided.reason, decided.id),
        ).rowcount
    )


def decode_run(row: Sequence[Any]) -> Run:
    (number, identifier, status, caller, dialect, options, count, operations, position, owner, cancel, *rest) = row
    started_at, completed_at, reverts, response, problems = rest
    return Run(
        number=number,
        id=identifier,
        status=RunStatus(status),
        caller=Caller.model_validate_json(caller),
        dialect=dialect,
        options=BatchOptions.model_validate_json(options),
        count=count,
        operations=operations,
        position=position,
        owner=owner,
        cancel_requested=bool(cancel),
        started_at=started_at,
        completed_at=completed_at,
        reverts=reverts,
        response=None if response is None else json.loads(response),
        problems=problems,
    )


def decode_approval(row: Sequence[Any]) -> Approval:
    (identifier, run, position, operation_id, digest, files, details, granted, created, expires, *decision) = row
    grant = None if granted is None else decode_grant(granted)
    content = (json.loads(files), json.loads(details), grant)
    return Approval(identifier, run, position, operation_id, digest, *content, created, expires, *decision)


def take_page(cursor: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
    """Return the first rows of a query, at least one, until their bodies exceed the limit."""
    page: list[Sequence[Any]] = []
    size = 0
    for row in cursor:
        page.append(row)
        size += len(row[-1])
        if size > MAX_LOG_READ_CHARACTERS:
            break
    return page
