"""The scenarios of the workspace-tool-interface, under their names, on every provider."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wap_kernel.dialects.interface import BOT, Interface, opened
from tests.wap_kernel.providers.scene import ALL, skip_if_lacking, skip_unless_works
from wap_kernel.errors import Code


@pytest.fixture(params=ALL)
def tools(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Interface]:
    skip_unless_works(request.param)
    with opened(tmp_path, provider=request.param) as tools:
        yield tools


@pytest.fixture
def statx(tools: Interface) -> None:
    """For what runs `ls` or git, which an old gvisor cannot."""
    skip_if_lacking(tools.provider, "statx")


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Interface]:
    """For what is no command: every provider here has the same files."""
    with opened(tmp_path) as tools:
        yield tools


# -- bash


@pytest.mark.usefixtures("statx")
def test_successful_command_execution(tools: Interface) -> None:
    tools.file("a.txt", "12345")
    # Without a sandbox there is no /workspace; in one it is a link, which `ls -l` would show instead.
    path = "." if tools.provider == "local" else "/workspace/"
    answer = tools("bash", command=f"ls -la {path}", workdir="/workspace")
    assert (answer["exit_code"], answer["stderr"]) == (0, "")
    assert " a.txt\n" in answer["stdout"]
    assert answer["duration_ms"] >= 0 and answer["total_stdout_bytes"] == len(answer["stdout"])
    assert answer["truncated"] is False


def test_command_with_nonzero_exit_code(tools: Interface) -> None:
    answer = tools("bash", command="echo out; echo err >&2; exit 3")
    assert (answer["stdout"], answer["stderr"], answer["exit_code"]) == ("out\n", "err\n", 3)


def test_command_timeout(tools: Interface) -> None:
    error = tools.refuse("bash", command="echo partial; echo too >&2; sleep 600", timeout_ms=1500)
    assert error.code is Code.TIMEOUT and "1500 ms" in error.text and "timeout_ms" in error.text
    assert (error.details["stdout"], error.details["stderr"]) == ("partial\n", "too\n")
    assert error.details["timeout_ms"] == 1500 and error.details["total_stdout_bytes"] == 8


def test_command_with_custom_working_directory(tools: Interface) -> None:
    tools.file("src/a.txt", "here")
    for workdir in ("/workspace/src", "src", str(tools.root / "src")):
        assert tools("bash", command="cat a.txt", workdir=workdir)["stdout"] == "here"


def test_longrunning_command_output(tools: Interface) -> None:
    answer = tools("bash", command="seq 1 100000; seq 1 20000 >&2")
    assert answer["truncated"] is True
    assert (answer["total_stdout_bytes"], answer["total_stderr_bytes"]) == (588_895, 108_894)
    for stream, last in (("stdout", 100_000), ("stderr", 20_000)):
        text = answer[stream]
        assert 40 * 1024 < len(text) <= 50 * 1024
        assert text.startswith("1\n2\n") and text.endswith(f"{last - 1}\n{last}\n")
        head, marker, tail = text.partition("[... ")
        left_out, _, tail = tail.partition(" bytes left out ...]\n")
        assert marker and len(head) + int(left_out) + len(tail) == answer[f"total_{stream}_bytes"]


# -- read


def test_read_entire_small_file(tools: Interface) -> None:
    tools.file("README.md", "# README\n\n    Content")
    answer = tools("read", file_path="/workspace/README.md")
    assert answer["content"] == "1: # README\n2: \n3:     Content"
    assert (answer["total_lines"], answer["file_size"]) == (3, 21)
    assert (answer["is_dir"], answer["is_binary"], answer["truncated"]) == (False, False, False)


def test_read_file_with_offset_and_limit(files: Interface) -> None:
    files.file("long.txt", "".join(f"line {number}\n" for number in range(1, 301)))
    answer = files("read", file_path="/workspace/long.txt", offset=100, limit=50)
    assert answer["content"] == "\n".join(f"{number}: line {number}" for number in range(100, 150))
    assert answer["total_lines"] == 300
    assert answer["note"] == "Lines 100 to 149 of 300. Go on with offset 150."


def test_read_nonexistent_file(files: Interface) -> None:
    error = files.refuse("read", file_path="/workspace/nothing.txt")
    assert error.code is Code.FILE_NOT_FOUND
    assert error.text == "No such file or folder: /workspace/nothing.txt"


def test_read_directory_listing(files: Interface) -> None:
    files.file("src/b.ts")
    files.file("src/sub/c.ts")
    answer = files("read", file_path="/workspace/src")
    assert (answer["content"], answer["is_dir"], answer["total_lines"]) == ("b.ts\nsub/", True, 2)


def test_read_binary_file(files: Interface) -> None:
    data = b"\x89PNG\r\n\x1a\n" + bytes(100)
    files.file("logo.png", data)
    answer = files("read", file_path="/workspace/logo.png")
    assert (answer["is_binary"], answer["file_size"], answer["file_type"]) == (True, len(data), "image/png")
    assert answer["content"] == ""
    assert files.audit(1)[0]["outcome"] == "ok"


# -- write


def test_write_new_file(files: Interface) -> None:
    answer = files("write", file_path="/workspace/new-file.ts", content="export const x = 1;")
    assert answer["success"] is True and answer["file_path"] == "/workspace/new-file.ts"
    assert (files.root / "new-file.ts").read_text() == "export const x = 1;"


def test_overwrite_existing_file(files: Interface) -> None:
    file = files.file("a.txt", "a long old content")
    files("write", file_path="/workspace/a.txt", content="new")
    assert file.read_text() == "new"


def test_write_with_autocreate_directories(files: Interface) -> None:
    files("write", file_path="/workspace/src/new/deep/file.ts", content="x")
    assert (files.root / "src/new/deep/file.ts").read_text() == "x"


# -- edit


def test_successful_string_replacement(files: Interface) -> None:
    file = files.file("server.ts", "const port = 3000;\nlisten(port);\n")
    answer = files(
        "edit", file_path="/workspace/server.ts", old_string="const port = 3000", new_string="const port = 8080"
    )
    assert (answer["success"], answer["lines_changed"], answer["replacements"]) == (True, 1, 1)
    assert file.read_text() == "const port = 8080;\nlisten(port);\n"


def test_old_string_not_found(files: Interface) -> None:
    file = files.file("server.ts", "a\nconst port = 3000;\nb\n")
    error = files.refuse(
        "edit", file_path="/workspace/server.ts", old_string="const porte = 3000", new_string="const port = 8080"
    )
    assert error.code is Code.EDIT_NOT_FOUND and error.text == "oldString not found in content"
    closest = error.details["closest"]
    assert (closest["start_line"], closest["end_line"], closest["text"]) == (2, 2, "const port = 3000;\n")
    assert file.read_text() == "a\nconst port = 3000;\nb\n"


def test_multiple_matches_for_old_string(files: Interface) -> None:
    file = files.file("a.txt", "x x")
    error = files.refuse("edit", file_path="/workspace/a.txt", old_string="x", new_string="y")
    assert error.code is Code.EDIT_AMBIGUOUS
    assert error.text.startswith("Found multiple matches for oldString")
    assert "more surrounding lines" in error.text and "replace_all" in error.text
    assert error.details["occurrences"] == 2
    assert file.read_text() == "x x"


def test_replace_all_occurrences(files: Interface) -> None:
    file = files.file("a.txt", "one\ntwo\none\n")
    answer = files("edit", file_path="/workspace/a.txt", old_string="one", new_string="1\n2\n3", replace_all=True)
    assert (answer["replacements"], answer["lines_changed"]) == (2, 6)
    assert file.read_text() == "1\n2\n3\ntwo\n1\n2\n3\n"


# -- glob


def test_find_files_by_extension(files: Interface) -> None:
    for age, name in enumerate(("src/new.ts", "src/sub/middle.ts", "src/old.ts")):
        os.utime(files.file(name), ns=(0, 10**18 - age * 10**9))
    files.file("src/other.js")
    files.file("elsewhere.ts")
    answer = files("glob", pattern="**/*.ts", path="/workspace/src")
    expected = ["/workspace/src/new.ts", "/workspace/src/sub/middle.ts", "/workspace/src/old.ts"]
    assert answer == {"matches": expected, "count": 3, "truncated": False}


def test_no_matches_found(files: Interface) -> None:
    assert files("glob", pattern="**/*.ts") == {"matches": [], "count": 0, "truncated": False}


def test_glob_with_specific_directory(files: Interface) -> None:
    for name in ("a.py", "tests/b.py", "tests/sub/c.py"):
        files.file(name)
    answer = files("glob", pattern="**/*.py", path="/workspace/tests")
    assert sorted(answer["matches"]) == ["/workspace/tests/b.py", "/workspace/tests/sub/c.py"]


# -- grep


def test_search_for_pattern_across_files(files: Interface) -> None:
    files.file("src/b.ts", "x\n// TODO b\n")
    files.file("src/a.ts", "// TODO a\n")
    files.file("other.ts", "// TODO elsewhere\n")
    assert files("grep", pattern="TODO", path="/workspace/src") == {
        "matches": [
            {"file_path": "/workspace/src/a.ts", "line_number": 1, "line": "// TODO a"},
            {"file_path": "/workspace/src/b.ts", "line_number": 2, "line": "// TODO b"},
        ],
        "count": 2,
        "truncated": False,
    }


def test_search_with_file_type_filter(files: Interface) -> None:
    for name in ("a.ts", "deep/b.ts", "c.js"):
        files.file(name, "import x\n")
    answer = files("grep", pattern="import", path="/workspace", include="*.ts")
    assert [match["file_path"] for match in answer["matches"]] == ["/workspace/a.ts", "/workspace/deep/b.ts"]


def test_regex_pattern_search(files: Interface) -> None:
    files.file("a.js", "function  main() {}\nfunctional\n")
    answer = files("grep", pattern=r"function\s+\w+")
    assert [match["line"] for match in answer["matches"]] == ["function  main() {}"]


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


@pytest.mark.usefixtures("statx")
def test_successful_operation_logged(tools: Interface) -> None:
    tools.repository()
    tools.file("a.txt", "CONTENT")
    tools("bash", command="cat a.txt")
    tools("read", file_path="a.txt")
    tools("write", file_path="b.txt", content="WRITTEN")
    tools("edit", file_path="b.txt", old_string="WRITTEN", new_string="EDITED")
    tools("glob", pattern="*.txt")
    tools("grep", pattern="CONT", path="/workspace")
    tools("git", action="commit", message="MESSAGE", files=["a.txt"])
    records = tools.audit()[::-1]
    assert [record["tool"] for record in records] == ["bash", "read", "write", "edit", "glob", "grep", "git"]
    assert [record["summary"] for record in records] == [
        {"command": "cat a.txt", "cwd": ".", "environment": []},
        {"path": "a.txt"},
        {"path": "b.txt"},
        {"path": "b.txt"},
        {"path": "."},
        {"paths": ["."], "query": "CONT"},
        {"command": "git commit", "cwd": ".", "files": ["a.txt"]},
    ]
    for record in records:
        assert (record["outcome"], record["dialect"], record["session"]) == ("ok", "tool_interface", "s1")
        assert record["at"].endswith("Z") and record["durationMs"] >= 0 and record["workspaceId"]
        assert not any(word in str(record) for word in ("CONTENT", "WRITTEN", "EDITED", "MESSAGE"))


def test_failed_operation_logged(files: Interface) -> None:
    files.refuse("read", file_path="nothing")
    files.refuse("read", file_path="/etc/passwd")
    files.refuse("write", file_path="x", contents="SECRET")
    files.refuse("git", action="push")
    records = files.audit()[::-1]
    assert [(record["tool"], record["outcome"], record["code"]) for record in records] == [
        ("read", "failed", "FILE_NOT_FOUND"),
        ("read", "denied", "PERMISSION_DENIED"),
        ("write", "failed", "INVALID_ARGUMENT"),
        ("git", "denied", "APPROVAL_REQUIRED"),
    ]
    for record in records:
        assert record["error"] and record["session"] == "s1" and record["dialect"] == "tool_interface"
        assert record["durationMs"] >= 0 and record["at"] and record["workspaceId"]
        assert "SECRET" not in str(record)


# -- providers


def test_same_tool_behavior_across_providers(tools: Interface) -> None:
    answer = tools("bash", command='echo "hello"')
    assert answer.pop("duration_ms") >= 0
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
