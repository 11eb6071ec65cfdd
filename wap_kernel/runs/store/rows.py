"""Between the rows of the state database and what a run is: one function for each way."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wap_kernel.model.caller import Caller
from wap_kernel.model.run import Approval, BatchOptions, Run, RunStatus
from wap_kernel.policy.grant_store import grant_in

Event = Mapping[str, Any]

RUN_COLUMNS = (
    "number, id, status, caller, dialect, options, count, {operations}, COALESCE(position, 0), owner, "
    "cancel_requested, started_at, completed_at, reverts, response, "
    "COALESCE((SELECT problems FROM problems WHERE problems.run = runs.id), 0)"
)
"""The columns of a run, with `operations` or NULL for a glance."""
APPROVAL_COLUMNS = (
    "id, run, position, operation_id, digest, files, shown, granted, created_at, expires_at, decision, decided_by, "
    "reason"
)


def insert_log(connection: sqlite3.Connection, run: str, kind: str, bodies: Iterable[Event | str]) -> None:
    connection.executemany(
        "INSERT INTO run_log (run, kind, body) VALUES (?, ?, ?)",
        [(run, kind, body if isinstance(body, str) else json.dumps(body)) for body in bodies],
    )


def store_position(connection: sqlite3.Connection, run: str, position: int) -> None:
    """In a table of its own: a row of `runs` holds all operations and is long to write."""
    connection.execute("INSERT OR REPLACE INTO positions VALUES (?, ?)", (run, position))


def store_response(connection: sqlite3.Connection, run: str, response: Mapping[str, Any]) -> None:
    connection.execute("UPDATE runs SET response = ? WHERE id = ?", (json.dumps(response), run))


def is_problem(event: Event) -> bool:
    """Whether it tells that something failed or was denied. What a dry run leaves out did not fail."""
    is_failure = event.get("success") is False and event.get("simulated") is not False
    return is_failure or event["type"] in ("policyDenied", "error")


def add_problems(connection: sqlite3.Connection, run: str, count: int) -> None:
    """Most runs have none, and no row."""
    if count:
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
            *(json.dumps(dict(approval.files)), json.dumps(dict(approval.shown))),
            None if approval.grant is None else approval.grant.model_dump_json(),
            *(approval.created_at, approval.expires_at),
        ),
    )


def store_decision(connection: sqlite3.Connection, decided: Approval) -> bool:
    """Once and never again."""
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
    (identifier, run, position, operation_id, digest, files, shown, granted, created, expires, *decided) = row
    grant = None if granted is None else grant_in(granted)
    known = (json.loads(files), json.loads(shown), grant)
    return Approval(identifier, run, position, operation_id, digest, *known, created, expires, *decided)
