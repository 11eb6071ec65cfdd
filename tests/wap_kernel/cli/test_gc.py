"""`wap gc`: what it frees, and what a dry run would free."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.cli import main
from wap_kernel.state import schema
from wap_kernel.state.audit import hash_chain

LONG_AGO = "2001-01-01T00:00:00.000Z"
NOTHING = {"runs": 0, "outputs": 0, "beforeImages": 0, "tokens": 0, "auditRecords": 0, "freedBytes": 0}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """With a run of long ago, its output of 3 KiB, and two audit records of that time before one of now."""
    folder = tmp_path / "state"
    folder.mkdir()
    connection = schema.connect(str(folder))
    connection.execute(
        "INSERT INTO runs (id, workspace, status, caller, asker, dialect, options, operations, count, started_at,"
        " completed_at) VALUES ('r', 'w', 'completed', '{}', '', 'd', '{}', '[]', 0, ?, ?)",
        (LONG_AGO, LONG_AGO),
    )
    row = {**dict.fromkeys(hash_chain.COLUMNS), "operation_id": "o", "phase": "outcome", "operation": "readFile"}
    row |= {"workspace": "w", "user": "me", "summary": "{}", "outcome": "ok"}
    hash_chain.append_records(
        connection, [{**row, "at": at} for at in (LONG_AGO, LONG_AGO, "2999-01-01T00:00:00.000Z")]
    )
    connection.close()
    (folder / "outputs" / "r").mkdir(parents=True)
    (folder / "outputs" / "r" / "0.stdout").write_bytes(b"x" * 3072)
    return folder


@pytest.fixture
def wap_gc(capsys: pytest.CaptureFixture[str], state: Path) -> Callable[..., str]:
    def run(*arguments: str) -> str:
        assert main.main(["gc", "--state-dir", str(state), *arguments]) == 0
        written = capsys.readouterr()
        assert written.err == ""
        return written.out

    return run


def test_it_says_what_it_would_free_and_then_what_it_freed(wap_gc: Callable[..., str], state: Path) -> None:
    removed = "1 runs, 1 folders of output, 2 audit records: 3 KiB of files.\n"
    assert wap_gc("--dry-run") == f"Would remove {removed}"
    assert (state / "outputs" / "r").exists()
    said, _, anchor = wap_gc().partition("The audit begins after 2:")
    assert said == f"Removed {removed}"
    assert anchor[64:] == ": store this head with those of the server's log.\n"
    assert not (state / "outputs" / "r").exists()
    assert wap_gc() == "There is nothing to remove.\n"
    assert main.main(["audit", "verify", "--state-dir", str(state)]) == 0


def test_for_programs(wap_gc: Callable[..., str]) -> None:
    freed = {**NOTHING, "runs": 1, "outputs": 1, "auditRecords": 2, "freedBytes": 3072}
    assert json.loads(wap_gc("--json", "--dry-run")) == {"dryRun": True, **freed}
    told = json.loads(wap_gc("--json"))
    assert told == {"dryRun": False, **freed, "auditAnchor": told["auditAnchor"]}
    assert json.loads(wap_gc("--json")) == {"dryRun": False, **NOTHING}


def test_progress_is_for_terminals(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main.main(["gc", "--state-dir", str(state)]) == 0
    shown = capsys.readouterr()
    assert "runs: 0 of 1" in shown.err and "audit: 0 of 2" in shown.err
    assert shown.err.endswith("\r\x1b[K")
    assert "\r" not in shown.out


def test_it_works_beside_a_living_workspace(make_tools: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    tools = make_tools()
    tools.writeFile(path="a", content="1")
    assert main.main(["gc", "--state-dir", str(tools.state), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"dryRun": False, **NOTHING}
    tools.writeFile(path="a", content="2")
    assert main.main(["audit", "verify", "--state-dir", str(tools.state)]) == 0


def test_without_a_state_nothing_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["gc", "--state-dir", str(tmp_path / "nothing")]) == main.FAILURE
    assert "There is no state in" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
