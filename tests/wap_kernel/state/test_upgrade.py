"""Upgrades: a state folder that any earlier version wrote opens in this one, with everything that stood in it.

`data/schema-N.sql` is a dump of what the version with schema N wrote. A new schema adds one; none is ever changed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_ext.tokens.store import AgentTokens
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import Code, WapError
from wap_kernel.model.operations import CreateDirectory
from wap_kernel.policy.grant_store import Grants
from wap_kernel.runs.store import rows
from wap_kernel.runs.store.run_store import RunStore
from wap_kernel.state import schema as store
from wap_kernel.state.audit import hash_chain, query
from wap_kernel.state.audit.log import Audit
from wap_kernel.state.audit.query import Page
from wap_kernel.state.database import Database
from wap_kernel.state.undo.change_store import Changes

DATA = Path(__file__).parent / "data"
VERSIONS = range(1, len(store.MIGRATIONS) + 1)
WORKSPACE = "0123456789abcdef"
LOG = logging.getLogger("test")


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture
def state(tmp_path: Path, version: int) -> Path:
    """As that version left it."""
    folder = tmp_path / "old"
    folder.mkdir()
    connection = sqlite3.connect(folder / "state.db")
    connection.executescript((DATA / f"schema-{version}.sql").read_text("utf-8"))
    connection.close()
    return folder


def tables(connection: sqlite3.Connection) -> dict[str, list[str]]:
    """Their columns."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return {name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for (name,) in names.fetchall()}


def contents(connection: sqlite3.Connection, columns: dict[str, list[str]]) -> dict[str, list[Any]]:
    return {
        name: connection.execute(f"SELECT {', '.join(each)} FROM {name} ORDER BY rowid").fetchall()
        for name, each in columns.items()
    }


def test_the_dump_is_what_that_version_had(state: Path, version: int) -> None:
    """So an entry of MIGRATIONS that was changed after its release shows."""

    def schema(connection: sqlite3.Connection) -> set[tuple[str, str, str]]:
        rows = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
        return {(kind, name, " ".join(sql.split())) for kind, name, sql in rows}

    fresh = sqlite3.connect(":memory:")
    for script in store.MIGRATIONS[:version]:
        fresh.executescript(script)
    old = sqlite3.connect(state / "state.db")
    assert schema(old) == schema(fresh)
    assert old.execute("PRAGMA user_version").fetchone() == (version,)
    assert all(contents(old, tables(old)).values()), "a table without a row"
    fresh.close()
    old.close()


def test_everything_that_stood_in_it_still_does(state: Path) -> None:
    old = sqlite3.connect(state / "state.db")
    columns = tables(old)
    before = contents(old, columns)
    old.close()
    now = store.connect(str(state))
    assert contents(now, columns) == before
    assert now.execute("PRAGMA user_version").fetchone() == (len(store.MIGRATIONS),)
    fresh = sqlite3.connect(":memory:")
    for script in store.MIGRATIONS:
        fresh.executescript(script)
    assert tables(now) == tables(fresh)
    fresh.close()
    now.close()


def test_the_audit_is_clean_and_goes_on(state: Path, version: int) -> None:
    database = Database(str(state), LOG)
    first = database.read(hash_chain.verify)
    assert first.problem is None
    assert first.unchained == (4 if version < 3 else 0)
    audit = Audit(database, WORKSPACE, LOG)
    record = audit.record(CreateDirectory(path="new"), Caller(user="ann"))
    audit.intent(record)()
    audit.outcome(record, "ok")
    audit.close()
    report = database.read(hash_chain.verify)
    assert (report.head.id, report.problem) == (7 if version >= 3 else 6, None)
    shown = database.read(lambda connection: query.read(connection, Page(10, workspace=WORKSPACE)))
    assert [(each["tool"], each["user"], each["outcome"]) for each in shown["records"]] == [
        ("createDirectory", "ann", "ok"),
        *([("gc", "ann", "ok")] if version >= 3 else []),
        ("executeCommand" if version >= 3 else "runCommand", "bob", "unfinished"),
        ("readFile", "ann", "denied"),
        ("createFile" if version >= 3 else "writeFile", "ann", "ok"),
    ]
    database.close()


def test_a_workspace_opens_on_it_and_works(state: Path, make_tools: Callable[..., Any]) -> None:
    tools = make_tools(state=state)
    tools.writeFile(path="a.txt", content="x")
    assert tools.readFile(path="a.txt")["content"] == "x"
    asyncio.run(tools.workspace.close())
    connection = store.connect(str(state))
    assert hash_chain.verify(connection).problem is None
    connection.close()


def test_its_grants_and_tokens_are_there(state: Path, version: int) -> None:
    async def tokens() -> list[tuple[str, bool]]:
        opened = AgentTokens(str(state), WORKSPACE, LOG)
        found, _ = await opened.page(10)
        await opened.close()
        return [(token.id, token.revoked_at is None) for token in found]

    grants = Grants(str(state), WORKSPACE)
    found = [grant.commands[0].words for grant in grants.all().values()]
    grants.close()
    assert found == ([] if version < 2 else [("git", "push")])
    assert asyncio.run(tokens()) == ([] if version < 2 else [("ffffffffffff", False), ("0a1b2c3d4e5f", True)])


def test_its_runs_are_there(state: Path, version: int) -> None:
    database = Database(str(state), LOG)
    ledger = RunStore(database, WORKSPACE)
    found = {run.id: run for run in ledger.page(None, None, 10, None)}
    if version < 3:
        assert found == {}
    else:
        assert {name: run.status.value for name, run in found.items()} == {
            **{"run-4": "completed", "run-3": "running", "run-2": "awaiting_approval", "run-1": "completed"}
        }
        assert [step.operation.summary() for step in ledger.require("run-1").steps] == [{"path": "notes/été.txt"}]
        assert [found[name].problems for name in ("run-1", "run-2")] == [0, 0 if version < 4 else 1]
        waiting, decided = ledger.pending("run-2"), ledger.approvals("run-1")[0]
        assert waiting is not None and waiting.shown == {"command": "rm -rf data/"}
        assert decided.decision == "approved" and decided.grant is not None
        (change,) = Changes(database).of("run-1")
        assert (change.path, change.before.kind, change.after and change.after.size) == ("notes/été.txt", "absent", 1)
    database.close()


EVENTS = {
    '{"type":"createFile","success":true}': 0,
    '{"type":"readFile","content":"{\\"success\\":false}","success":true}': 0,
    '{"type":"shell","success":false,"simulated":false}': 0,
    '{"type":"approvalRequired","operationId":"a"}': 0,
    '{"type":"deleteFile","success":false}': 1,
    '{"type": "deleteFile", "success": false}': 1,
    '{"type": "policyDenied", "operationId": "a"}': 1,
    '{"type":"error","category":"system"}': 1,
}
"""As earlier versions have written them, and whether they tell of a problem."""


def test_problems_of_earlier_runs_are_counted(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "state.db")
    connection.executescript((DATA / "schema-3.sql").read_text("utf-8"))
    log = [(f"run-{number}", body) for number, body in enumerate(EVENTS, 100)]
    connection.executemany("INSERT INTO run_log (run, kind, body) VALUES (?, 'event', ?)", [*log, *log])
    connection.commit()
    connection.close()
    now = store.connect(str(tmp_path))
    counted = dict(now.execute("SELECT run, problems FROM problems").fetchall())
    now.close()
    assert [counted.get(run, 0) for run, _ in log] == [2 * count for count in EVENTS.values()]
    assert [rows.is_problem(json.loads(body)) for body in EVENTS] == [bool(count) for count in EVENTS.values()]


def test_a_later_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    later = len(store.MIGRATIONS) + 1
    connection = store.connect(str(tmp_path))
    connection.execute("CREATE TABLE later (id INTEGER)")
    connection.execute(f"PRAGMA user_version = {later}")
    connection.close()
    shutil.copy(tmp_path / "state.db", tmp_path / "copy")
    with pytest.raises(WapError, match=f"a later version of wap .schema {later}") as caught:
        store.connect(str(tmp_path))
    assert caught.value.code is Code.PROVIDER_UNAVAILABLE
    assert "Upgrade wap" in caught.value.text
    assert (tmp_path / "state.db").read_bytes() == (tmp_path / "copy").read_bytes()
