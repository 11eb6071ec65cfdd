"""The state folder: audit, locks and leases."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import Code, InvalidArgument, PermissionDenied, WapError
from wap_kernel.state import schema
from wap_kernel.state.directory import open_state_dir
from wap_kernel.state.path_locks import PathLocks


def rows(state: Path) -> list[dict[str, Any]]:
    connection = sqlite3.connect(state / "state.db")
    connection.row_factory = sqlite3.Row
    found = [dict(row) for row in connection.execute("SELECT * FROM audit ORDER BY id")]
    connection.close()
    return found


def test_the_folder_is_closed_to_others(tools: Any) -> None:
    assert stat.S_IMODE(tools.state.stat().st_mode) == 0o700


def test_every_operation_is_audited_also_denied_and_failed_ones(make_tools: Callable[..., Any]) -> None:
    tools = make_tools()
    tools.writeFile(path="a.txt", content="TOP SECRET CONTENT")
    tools.readFile(path="a.txt")
    tools.refuse("readFile", path="missing")
    tools.refuse("readFile", path="../x")
    tools.refuse("writeFile", path=".cws-policy.json", content="TOP SECRET CONTENT")
    tools.executeCommand(command="echo TOP; cat a.txt", environment={"MY_KEY": "SECRET VALUE"})
    tools.createDirectory(path="so-that-everything-before-is-written")
    # The intent of a read stands there only if it was written before the read was over.
    found = [row for row in rows(tools.state) if (row["operation"], row["phase"]) != ("readFile", "intent")]
    summary = [(row["operation"], row["phase"], row["outcome"], row["code"]) for row in found[:-2]]
    assert summary == [
        ("writeFile", "intent", None, None),
        ("writeFile", "outcome", "ok", None),
        ("readFile", "outcome", "ok", None),
        ("readFile", "outcome", "failed", "FILE_NOT_FOUND"),
        ("readFile", "outcome", "denied", "PERMISSION_DENIED"),
        ("writeFile", "outcome", "denied", "PERMISSION_DENIED"),
        ("runCommand", "intent", None, None),
        ("runCommand", "outcome", "ok", None),
    ]
    assert json.loads(found[0]["summary"]) == {"path": "a.txt"}
    assert json.loads(found[6]["summary"]) == {"command": "echo TOP; cat a.txt", "cwd": ".", "environment": ["MY_KEY"]}
    assert {row["user"] for row in found} == {"tester"}
    assert all(row["at"].endswith("Z") for row in found)
    assert all(row["duration_ms"] >= 0 for row in found if row["phase"] == "outcome")
    for file in tools.state.glob("state.db*"):
        assert b"SECRET CONTENT" not in file.read_bytes()
        assert b"SECRET VALUE" not in file.read_bytes()


def test_a_path_with_a_newline_stays_one_record(tools: Any) -> None:
    tools.writeFile(path="a\nb\x1b[31m", content="")
    (intent, outcome) = rows(tools.state)
    assert json.loads(intent["summary"]) == {"path": "a\nb\x1b[31m"}
    assert "\n" not in intent["summary"]
    assert outcome["outcome"] == "ok"


def test_when_the_intent_cannot_be_written_nothing_changes(
    make_tools: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    tools = make_tools()
    breaker = sqlite3.connect(tools.state / "state.db")
    breaker.execute("DROP TABLE audit")
    breaker.close()
    with pytest.raises(WapError) as caught:
        tools.writeFile(path="f", content="x")
    assert caught.value.code is Code.PROVIDER_UNAVAILABLE
    assert "nothing was changed" in caught.value.message
    assert os.listdir(tools.root) == []


def test_a_refused_request_is_recorded(tools: Any) -> None:
    tools.workspace.audit_refusal(
        "readFile", PermissionDenied("The path leaves the workspace: /etc/x"), Caller(user="me")
    )
    tools.workspace.audit_refusal("readFile", InvalidArgument("path: required"), Caller(user="me"))
    tools.createDirectory(path="so-that-everything-before-is-written")
    found = [(row["operation"], row["phase"], row["outcome"], row["code"]) for row in rows(tools.state)[:2]]
    assert found == [
        ("readFile", "outcome", "denied", "PERMISSION_DENIED"),
        ("readFile", "outcome", "failed", "INVALID_ARGUMENT"),
    ]


def test_a_closed_workspace_refuses(make_tools: Callable[..., Any]) -> None:
    tools = make_tools()
    asyncio.run(tools.workspace.close())
    assert tools.refuse("readFile", path="x").code is Code.PROVIDER_UNAVAILABLE


@pytest.mark.parametrize("version", [schema.VERSION - 1, schema.VERSION + 1])
def test_a_database_of_another_schema_is_refused_and_left_alone(tmp_path: Path, version: int) -> None:
    state = open_state_dir(str(tmp_path / "s"))
    connection = schema.connect(state)
    connection.execute("CREATE TABLE other (id INTEGER)")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    before = Path(state, "state.db").read_bytes()
    with pytest.raises(WapError, match=f"state.db has schema {version}, .* has schema {schema.VERSION}") as caught:
        schema.connect(state)
    assert caught.value.code is Code.PROVIDER_UNAVAILABLE
    assert "Move the state folder away" in caught.value.text
    assert Path(state, "state.db").read_bytes() == before


def test_a_database_that_cannot_be_used_is_refused_with_what_to_do(tmp_path: Path) -> None:
    state = open_state_dir(str(tmp_path / "s"))
    Path(state, "state.db").write_text("not a database at all" * 100)
    with pytest.raises(WapError, match="state database") as caught:
        schema.connect(state)
    assert caught.value.code is Code.PROVIDER_UNAVAILABLE
    assert "state.db" in caught.value.text


def test_of_two_writers_with_the_same_hash_exactly_one_wins(tools: Any) -> None:
    tools.writeFile(path="f", content="0")
    known = tools.readFile(path="f")["hash"]
    results: list[str] = []
    barrier = threading.Barrier(8)

    def write(number: int) -> None:
        barrier.wait()
        try:
            tools.writeFile(path="f", content=f"writer {number}", expectedHash=known)
            results.append("won")
        except WapError as error:
            results.append(error.code.value)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["CONFLICT"] * 7 + ["won"]


def _count(state: str, file: str, times: int) -> None:
    locks = PathLocks(state)
    for _ in range(times):
        with locks.hold("path"):
            number = int(Path(file).read_text())
            Path(file).write_text(str(number + 1))


def test_locks_hold_between_processes_and_threads(tmp_path: Path) -> None:
    state = open_state_dir(str(tmp_path / "s"))
    counter = tmp_path / "counter"
    counter.write_text("0")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_count, args=(state, str(counter), 200)) for _ in range(2)]
    threads = [threading.Thread(target=_count, args=(state, str(counter), 200)) for _ in range(2)]
    for worker in (*processes, *threads):
        worker.start()
    for worker in (*processes, *threads):
        worker.join()
    assert counter.read_text() == "800"
