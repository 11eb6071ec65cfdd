"""`wap audit` on the state folder of a workspace, without a server."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wap_kernel.cli import main
from wap_kernel.state import schema
from wap_kernel.state.audit import hash_chain
from wap_kernel.state.directory import default_state_dir

WapAudit = Callable[..., tuple[int, str, str]]


@pytest.fixture
def wap_audit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> WapAudit:
    """`wap audit ... --state-dir`: exit status, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main.main(["audit", *arguments, "--state-dir", str(tmp_path / "state")])
        written = capsys.readouterr()
        return status, written.out, written.err

    return run


@pytest.fixture
def tools(make_tools: Callable[..., Any]) -> Any:
    """With five operations done."""
    tools = make_tools()
    tools.writeFile(path="a.txt", content="SECRET")
    tools.readFile(path="a.txt")
    tools.refuse("readFile", path="missing.txt")
    tools.refuse("writeFile", path="../outside", content="")
    tools.createDirectory(path="new\nline \x1b[2J\u202e")
    return tools


@pytest.fixture
def damage(tools: Any) -> Callable[[str], None]:
    def execute(statement: str) -> None:
        connection = sqlite3.connect(tools.state / "state.db")
        with connection:
            connection.execute(statement)
        connection.close()

    return execute


@pytest.fixture
def newest(tools: Any) -> int:
    """The number of records. It varies: the intent of a read is written only if the read is not over by then."""
    found: int = tools.workspace.database.read(hash_chain.read_head).id
    return found


def test_show_is_a_line_an_operation_newest_first(tools: Any, wap_audit: WapAudit) -> None:
    status, out, _ = wap_audit("show")
    assert status == 0
    lines = out.splitlines()
    assert len(lines) == 5
    assert lines[0].endswith(r"createDirectory  by tester  path=new\nline \x1b[2J\u202e")
    assert "denied" in lines[1] and "PERMISSION_DENIED: The path leaves the workspace: ../outside" in lines[1]
    assert "failed" in lines[2] and "FILE_NOT_FOUND" in lines[2]
    assert "SECRET" not in out


def test_show_filters_and_limits(tools: Any, wap_audit: WapAudit) -> None:
    def paths(*arguments: str) -> list[str]:
        answer = json.loads(wap_audit("show", "--json", *arguments)[1])
        return [record["summary"].get("path", "") for record in answer["records"]]

    assert paths("--tool", "readFile") == ["missing.txt", "a.txt"]
    assert paths("--tool", "readFile", "--limit", "1") == ["missing.txt"]
    assert paths("--outcome", "failed") == ["missing.txt"]
    assert paths("--outcome", "unfinished") == []
    assert wap_audit("show", "--tool", "nothing")[1] == "No record matches.\n"


@pytest.mark.parametrize("limit", ["0", "1001", "x", "-1"])
def test_a_limit_that_is_none_is_a_mistake(tools: Any, wap_audit: WapAudit, limit: str) -> None:
    with pytest.raises(SystemExit) as ended:
        wap_audit("show", "--limit", limit)
    assert ended.value.code == main.USAGE_ERROR


def test_verify_says_clean_and_names_the_head(newest: int, wap_audit: WapAudit) -> None:
    status, out, _ = wap_audit("verify")
    assert status == 0
    assert out.startswith(f"{newest} records are as they were written. The head is {newest}:")
    found = json.loads(wap_audit("verify", "--json")[1])
    assert found == {"ok": True, "records": newest, "cut": 0, "head": found["head"]}
    assert wap_audit("verify", "--head", found["head"])[0] == 0


def test_verify_says_broken_and_where(newest: int, wap_audit: WapAudit, damage: Callable[[str], None]) -> None:
    head = json.loads(wap_audit("verify", "--json")[1])["head"]
    damage(f"DELETE FROM audit WHERE id = {newest}")
    assert wap_audit("verify")[0] == 0
    status, out, _ = wap_audit("verify", "--head", head)
    assert (status, out[:31]) == (1, f"BROKEN. Record {newest} was noted and ")
    damage("UPDATE audit SET user = 'nobody' WHERE id = 4")
    status, out, _ = wap_audit("verify", "--json")
    assert status == 1
    assert json.loads(out)["problem"].startswith("Record 4 does not fit its hash")


def test_verify_says_what_retention_has_cut_and_who_made_it_do_so(tools: Any, wap_audit: WapAudit) -> None:
    tools.workspace.database.write(lambda connection: hash_chain.cut_records(connection, 3, "2026-01-01", "ann\x1b"))
    status, out, _ = wap_audit("verify")
    assert status == 0
    assert r"Retention has cut the records up to 3 (2026-01-01 by ann\x1b)." in out


def test_verify_says_that_a_cut_was_forged(tools: Any, wap_audit: WapAudit, damage: Callable[[str], None]) -> None:
    damage("INSERT INTO audit_anchors SELECT id, hash, at FROM audit WHERE id = 3")
    damage("DELETE FROM audit WHERE id <= 3")
    status, out, _ = wap_audit("verify")
    assert status == 1
    assert out.startswith("BROKEN. The records up to 3 are gone, and no record says that retention cut them.")


def test_verify_says_that_the_hashes_are_gone(tools: Any, wap_audit: WapAudit, damage: Callable[[str], None]) -> None:
    damage("UPDATE audit SET hash = NULL, user = 'nobody'")
    status, out, _ = wap_audit("verify")
    assert (status, out[:33]) == (1, "BROKEN. Record 1 carries no hash.")


def test_an_audit_that_cannot_be_read_is_said(tools: Any, wap_audit: WapAudit, damage: Callable[[str], None]) -> None:
    tools.writeFile(path="a", content="x")
    damage("DROP TABLE audit")
    assert wap_audit("verify")[:2] == (
        1,
        "BROKEN. The audit cannot be read: no such table: audit. 0 records fit together before it.\n",
    )
    for command in ("show", "export"):
        status, out, err = wap_audit(command)
        assert (status, out) == (1, "")
        assert err.startswith("wap: The audit cannot be read: no such table: audit.")


def test_a_head_that_is_none_is_a_mistake(tools: Any, wap_audit: WapAudit) -> None:
    status, out, err = wap_audit("verify", "--head", "12")
    assert (status, out) == (1, "")
    assert "is not the head of an audit" in err


def test_the_chain_can_be_checked_from_the_export_alone(newest: int, wap_audit: WapAudit) -> None:
    lines = wap_audit("export")[1].splitlines()
    assert len(lines) == newest
    previous = ""
    for number, line in enumerate(lines, start=1):
        row = json.loads(line)
        assert row["id"] == number
        assert row["hash"] == hash_chain.hash_record(previous, row)
        previous = row["hash"]


def test_what_is_broken_is_exported_all_the_same(
    newest: int, wap_audit: WapAudit, damage: Callable[[str], None]
) -> None:
    damage("DELETE FROM audit WHERE id = 3")
    status, out, _ = wap_audit("export")
    assert status == 0
    assert [json.loads(line)["id"] for line in out.splitlines()] == [1, 2, *range(4, newest + 1)]


def test_a_table_for_spreadsheets_holds_no_formulas(
    make_tools: Callable[..., Any], wap_audit: WapAudit, tmp_path: Path
) -> None:
    tools = make_tools()
    database = tools.workspace.database
    row = {
        **dict.fromkeys(hash_chain.COLUMNS),
        "operation_id": "o",
        "phase": "outcome",
        "operation": "=cmd|' /C calc'!A0",
    }
    row |= {"at": "x", "workspace": "w", "user": "a\r\nb", "summary": "{}"}
    database.write(lambda connection: hash_chain.append_records(connection, [row]))
    target = tmp_path / "audit.csv"
    status, out, _ = wap_audit("export", "--format", "csv", "-o", str(target))
    assert (status, out) == (0, "")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    (found,) = csv.DictReader(io.StringIO(target.read_text()))
    assert found["operation"] == "'=cmd|' /C calc'!A0"
    assert found["user"] == r"a\r\nb"
    assert len(found["hash"]) == 64


def test_a_file_that_cannot_be_written_is_said(tools: Any, wap_audit: WapAudit, tmp_path: Path) -> None:
    status, _, err = wap_audit("export", "-o", str(tmp_path / "no" / "such" / "folder"))
    assert status == 1
    assert "cannot be written" in err


def test_the_state_is_found_by_the_folder_that_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    assert main.main(["audit", "verify"]) == main.FAILURE
    assert "There is no state in" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()  # asking makes nothing
    os.makedirs(default_state_dir("."))
    schema.connect(default_state_dir(".")).close()
    assert main.main(["audit", "verify"]) == 0
    assert main.main(["audit", "verify", "--root", str(tmp_path)]) == 0
    capsys.readouterr()


def test_a_reader_who_leaves_is_no_error(tools: Any) -> None:
    """`wap audit export | head -1`, with more than a pipe holds."""
    rows = [
        {**dict.fromkeys(hash_chain.COLUMNS), "operation_id": "o", "phase": "outcome", "at": "x"} for _ in range(2000)
    ]
    for row in rows:
        row |= {"operation": "x" * 100, "workspace": "w", "user": "u", "summary": "{}"}
    tools.workspace.database.write(lambda connection: hash_chain.append_records(connection, rows))
    command = [sys.executable, "-m", "wap_kernel.cli", "audit", "export", "--state-dir", str(tools.state)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == main.FAILURE
