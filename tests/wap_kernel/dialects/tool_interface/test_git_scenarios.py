"""The scenarios of the workspace-tool-interface for git, the audit and providers, under their names, on every provider.

Those of remotes are in `tests/wap_kernel/git/test_remote.py`.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.tool_interface import BOT, Interface


@pytest.fixture
def tools(on_each: Interface) -> Interface:
    return on_each


# -- git


@pytest.mark.usefixtures("statx")
def test_git_status(tools: Interface) -> None:
    tools.repository()
    tools.file("staged.txt", "1")
    tools.git("add", "staged.txt")
    tools.file("README.md", "changed\n")
    tools.file("new.txt", "1")
    answer = tools("git", action="status")
    assert (answer["branch"], answer["ahead"], answer["behind"]) == ("main", 0, 0)
    assert answer["staged"] == [{"path": "/workspace/staged.txt", "kind": "added"}]
    assert answer["changed"] == [{"path": "/workspace/README.md", "kind": "modified"}]
    assert answer["untracked"] == ["/workspace/new.txt"] and answer["conflicts"] == []


@pytest.mark.usefixtures("statx")
def test_git_commit(tools: Interface) -> None:
    tools.repository()
    tools.file("src/server.ts", "port = 8080\n")
    tools.file("other.txt", "1")
    answer = tools("git", action="commit", message="fix: update port", files=["src/server.ts"])
    assert answer["exit_code"] == 0 and answer["id"] == tools.git("rev-parse", "HEAD").strip()
    assert tools.git("show", "--format=%an <%ae> %s", "--name-only").split("\n") == [
        f"{BOT.name} <{BOT.email}> fix: update port",
        "",
        "src/server.ts",
        "",
    ]


@pytest.mark.usefixtures("statx")
def test_git_diff(tools: Interface) -> None:
    tools.repository()
    tools.file("README.md", "staged\n")
    tools.git("add", "README.md")
    tools.file("README.md", "staged\nand not\n")
    answer = tools("git", action="diff")
    for name, plain in (("staged", tools.git("diff", "--cached")), ("unstaged", tools.git("diff"))):
        (file,) = answer[name]["files"]
        assert (file["path"], file["kind"], file["patch"]) == ("/workspace/README.md", "modified", plain)
    assert (answer["staged"]["files"][0]["added"], answer["staged"]["files"][0]["deleted"]) == (1, 1)


@pytest.mark.usefixtures("statx")
def test_git_branch_operations(tools: Interface) -> None:
    tools.repository()
    answer = tools("git", action="checkout", branch="feature/new-thing")
    assert (answer["branch"], answer["created"]) == ("feature/new-thing", True)
    assert tools.git("branch", "--show-current") == "feature/new-thing\n"
    assert tools("git", action="checkout", branch="main")["created"] is False


# -- audit


def logged(tools: Interface, number: int) -> list[dict[str, Any]]:
    """The newest records, the oldest of them first, each with what every record has."""
    records = tools.audit(number)[::-1]
    for record in records:
        assert (record["dialect"], record["session"], record["agent"]) == ("tool_interface", "s1", "opencode")
        assert record["at"].endswith("Z") and record["durationMs"] >= 0 and record["workspaceId"]
        assert not any(word in str(record) for word in ("CONTENT", "WRITTEN", "EDITED", "MESSAGE"))
    return records


def test_successful_operation_logged(tools: Interface) -> None:
    tools.file("a.txt", "CONTENT")
    tools("bash", command="cat a.txt")
    tools("read", file_path="a.txt")
    tools("write", file_path="b.txt", content="WRITTEN")
    tools("edit", file_path="b.txt", old_string="WRITTEN", new_string="EDITED")
    tools("glob", pattern="*.txt")
    tools("grep", pattern="CON.ENT", path="/workspace")
    assert [(record["tool"], record["outcome"], record["summary"]) for record in logged(tools, 6)] == [
        ("bash", "ok", {"command": "cat a.txt", "cwd": ".", "environment": []}),
        ("read", "ok", {"path": "a.txt"}),
        ("write", "ok", {"path": "b.txt"}),
        ("edit", "ok", {"path": "b.txt"}),
        ("glob", "ok", {"path": ".", "include": ["*.txt"]}),
        ("grep", "ok", {"paths": ["."], "query": "CON.ENT"}),
    ]


@pytest.mark.usefixtures("statx")
def test_successful_operation_of_git_logged(tools: Interface) -> None:
    tools.repository()
    tools.file("a.txt", "CONTENT")
    tools("git", action="commit", message="MESSAGE", files=["a.txt"])
    (record,) = logged(tools, 1)
    assert (record["tool"], record["outcome"]) == ("git", "ok")
    assert record["summary"] == {"command": "git commit", "cwd": ".", "files": ["a.txt"]}


def test_failed_operation_logged(tools: Interface) -> None:
    tools.file("a.txt", "CONTENT")
    tools.refuse("bash", command="true", workdir="/workspace/nothing")
    tools.refuse("read", file_path="nothing")
    tools.refuse("read", file_path="/etc/passwd")
    tools.refuse("write", file_path="x", contents="WRITTEN")
    tools.refuse("edit", file_path="a.txt", old_string="WRITTEN", new_string="EDITED")
    tools.refuse("glob", pattern="*", path="nothing")
    tools.refuse("grep", pattern="(")
    tools.refuse("git", action="push")
    records = logged(tools, 8)
    assert [(record["tool"], record["outcome"], record["code"]) for record in records] == [
        ("bash", "failed", "FILE_NOT_FOUND"),
        ("read", "failed", "FILE_NOT_FOUND"),
        ("read", "denied", "PERMISSION_DENIED"),
        ("write", "failed", "INVALID_ARGUMENT"),
        ("edit", "failed", "EDIT_NOT_FOUND"),
        ("glob", "failed", "FILE_NOT_FOUND"),
        ("grep", "failed", "INVALID_ARGUMENT"),
        ("git", "asked", "APPROVAL_REQUIRED"),
    ]
    assert all(record["error"] for record in records)
    assert records[0]["summary"]["command"] == "true" and records[1]["summary"] == {"path": "nothing"}


@pytest.mark.usefixtures("statx")
def test_failed_operation_of_git_logged(tools: Interface) -> None:
    tools("git", action="status")
    tools.repository()
    tools("git", action="add", files=["CONTENT"])
    tools("git", action="commit", message="MESSAGE")
    records = tools.audit()[2::-1]
    assert [(record["tool"], record["outcome"], record["code"]) for record in records] == [
        ("git", "failed", "EXECUTION_FAILED")
    ] * 3
    assert [record["error"].partition(":")[0] for record in records] == ["no-repository", "unknown-path", "nothing"]
    assert not any(word in record["error"] for record in records for word in ("fatal", "CONTENT", "MESSAGE"))


def test_a_command_that_says_it_failed_is_logged_with_its_exit_code(tools: Interface) -> None:
    tools("bash", command="exit 3")
    tools("bash", command="true")
    records = logged(tools, 2)
    assert [(record["outcome"], record["summary"].get("exitCode")) for record in records] == [("ok", 3), ("ok", None)]


# -- providers


def test_same_tool_behavior_across_providers(tools: Interface) -> None:
    answer = tools("bash", command='echo "hello"')
    assert answer.pop("duration_ms") >= 0
    assert answer.pop("isolation", None) == ("shared" if tools.provider == "local" else None)
    assert answer == {
        "stdout": "hello\n",
        "stderr": "",
        "exit_code": 0,
        "truncated": False,
        "total_stdout_bytes": 6,
        "total_stderr_bytes": 0,
    }


def test_provider_abstraction_for_file_operations(tools: Interface) -> None:
    tools("bash", command="printf 'one\\n\\ttwo' > made.txt")
    assert tools("read", file_path="/workspace/made.txt")["content"] == "1: one\n2: \ttwo"
