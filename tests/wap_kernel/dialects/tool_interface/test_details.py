"""Details that the spec leaves open: limits, paths, endings, concurrency, approval, the words of errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.time_limits import growing
from tests.support.tool_interface import AGENT, Interface, opened
from wap_kernel.dialects.tool_interface import tools as interface_tools
from wap_kernel.model.caller import Caller, Scope
from wap_kernel.model.errors import Code, WapError
from wap_kernel.model.policy import FilesystemPolicy, Policy
from wap_kernel.policy import presets


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Interface]:
    with opened(tmp_path) as tools:
        yield tools


# -- requests


@pytest.mark.parametrize(
    ("tool", "fields", "field"),
    [
        ("bash", {"command": "x", "timeoutMs": 1}, "timeoutMs: Unknown field. Did you mean timeout_ms?"),
        ("bash", {"command": "x", "timeout_ms": 0}, "timeout_ms"),
        ("bash", {}, "command: This field is required."),
        ("bash", {"command": "x", "isolation": "none"}, "isolation: Input should be 'layer' or 'shared'"),
        ("bash", {"command": "a\0b"}, "NUL"),
        ("read", {"file_path": "a", "offset": 0}, "offset"),
        ("read", {"file_path": ".", "offset": 2}, "offset 2 is past the end: the folder has 1 entries."),
        ("read", {"file_path": ""}, "file_path"),
        ("write", {"file_path": "folder/", "content": ""}, "names a folder"),
        ("edit", {"file_path": "a", "old_string": "", "new_string": "x"}, "old_string"),
        ("grep", {"pattern": "("}, "regular expression"),
        ("grep", {"pattern": "(?=x)"}, "look-around and no back-references; put a backslash before a character"),
        ("grep", {"pattern": "x", "context": 101}, "context"),
        ("glob", {"pattern": "*", "path": "a"}, "Not a folder: /workspace/a. Read it with read."),
        ("git", {"action": "rebase"}, "action"),
        ("git", {"action": "commit"}, "message: This field is required for commit."),
        ("git", {"action": "status", "branch": "x"}, "branch: This field does not belong to status."),
        ("git", {"action": "branch", "delete": True}, "branch: This field is required with delete."),
        ("git", {"action": "clone", "url": "https://h/o/n", "path": "n", "depth": 1}, "Shallow clones"),
        ("git", {"action": "clone", "url": "http://h/o/n", "path": "n"}, "by https only"),
        ("git", {"action": "push", "branch": "-x"}, "Not a name for a branch"),
        ("git", {"action": "show", "ref": "a\nb"}, "control characters"),
    ],
)
def test_a_request_that_is_not_valid(tools: Interface, tool: str, fields: dict[str, Any], field: str) -> None:
    tools.file("a", "x")
    error = tools.refuse(tool, **fields)
    assert error.code is Code.INVALID_ARGUMENT and field in error.text, error.text


@pytest.mark.parametrize("path", ["readFile.txt", "exploreFiles/a", "a longer timeout", "startLine 7 is past the end"])
def test_what_an_error_names_is_left_as_it_is(tools: Interface, path: str) -> None:
    assert tools.refuse("read", file_path=path).text == f"No such file or folder: /workspace/{path}"


def test_an_unknown_tool_is_told_the_known_ones(tools: Interface) -> None:
    error = tools.refuse("cat", file_path="a")
    assert error.code is Code.NOT_FOUND and all(name in error.text for name in interface_tools.TOOLS)


def test_a_password_in_an_address_is_written_nowhere(tools: Interface) -> None:
    for url in ("https://ada:hunter2@h/o/n", "git@ada:hunter2@h", "ssh://git@h/o/n?hunter2"):
        error = tools.refuse("git", action="clone", url=url, path="n")
        assert error.code is Code.INVALID_ARGUMENT and "hunter2" not in error.text
    assert "hunter2" not in json.dumps(tools.audit())


# -- paths


@pytest.mark.parametrize("path", ["/workspace/a/b.txt", "a/b.txt", "./a/b.txt", "/workspace/a/../a/b.txt"])
def test_a_path_by_each_of_its_names(tools: Interface, path: str) -> None:
    tools.file("a/b.txt", "x")
    assert tools("read", file_path=path)["content"] == "1: x"
    assert tools("read", file_path=str(tools.root / "a/b.txt"))["content"] == "1: x"


@pytest.mark.parametrize("path", ["/etc/passwd", "/workspaces/a", "../outside", "/workspace/../outside", "link"])
@pytest.mark.parametrize("tool", ["read", "write", "edit"])
def test_a_path_that_leaves_the_workspace(tools: Interface, tool: str, path: str) -> None:
    (tools.root.parent / "outside").write_text("secret")
    (tools.root / "link").symlink_to(tools.root.parent / "outside")
    more = {"write": {"content": "x"}, "edit": {"old_string": "secret", "new_string": "x"}}.get(tool, {})
    assert tools.refuse(tool, file_path=path, **more).code is Code.PERMISSION_DENIED
    assert (tools.root.parent / "outside").read_text() == "secret"


def test_the_root_itself(tools: Interface) -> None:
    tools.file("a.txt", "x")
    assert tools("read", file_path="/workspace")["content"] == "a.txt"
    assert tools("glob", pattern="/workspace/*.txt")["matches"] == ["/workspace/a.txt"]
    assert tools("grep", pattern="x", path="/workspace/a.txt")["count"] == 1


# -- write and edit


def test_expected_hash(tools: Interface) -> None:
    file = tools.file("a.txt", "one\n")
    seen = tools("read", file_path="a.txt")["hash"]
    file.write_text("two\n")
    for tool, more in (("write", {"content": "x"}), ("edit", {"old_string": "two", "new_string": "x"})):
        error = tools.refuse(tool, file_path="a.txt", expected_hash=seen, **more)
        assert error.code is Code.CONFLICT
        assert error.details["current_hash"] == tools("read", file_path="a.txt")["hash"]
        assert "expected" not in error.text
    now = tools("read", file_path="a.txt")["hash"]
    answer = tools("edit", file_path="a.txt", old_string="two", new_string="3", expected_hash=now)
    assert answer["hash"] == tools("read", file_path="a.txt")["hash"]


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [("b", "x", 1), ("b\n", "x\n", 1), ("b", "x\ny", 2), ("a\nb\nc", "x", 3), ("b\n", "", 1), ("a\nb", "1\n2\n3\n", 3)],
)
def test_lines_changed(tools: Interface, old: str, new: str, changed: int) -> None:
    tools.file("a.txt", "a\nb\nc\n")
    assert tools("edit", file_path="a.txt", old_string=old, new_string=new)["lines_changed"] == changed


def test_a_binary_file_is_not_edited(tools: Interface) -> None:
    tools.file("a.bin", b"x\0y")
    error = tools.refuse("edit", file_path="a.bin", old_string="x", new_string="y")
    assert error.code is Code.BINARY_FILE and "command" in error.text


# -- glob and grep


def test_limits_and_totals(tools: Interface) -> None:
    for number in range(1050):
        tools.file(f"many/{number:04}.txt", "match\nmatch\n" if number == 0 else "match\n")
    found = tools("glob", pattern="**/*.txt")
    assert (len(found["matches"]), found["count"], found["truncated"]) == (1000, 1050, True)
    lines = tools("grep", pattern="m.tch")
    assert (len(lines["matches"]), lines["count"], lines["truncated"]) == (1000, 1051, True)
    assert [(each["file_path"], each["line_number"]) for each in lines["matches"][:3]] == [
        ("/workspace/many/0000.txt", 1),
        ("/workspace/many/0000.txt", 2),
        ("/workspace/many/0001.txt", 1),
    ]


def test_context(tools: Interface) -> None:
    tools.file("a.txt", "1\n2\nhere\n4\n")
    (match,) = tools("grep", pattern="here", context=2)["matches"]
    assert (match["context_before"], match["context_after"]) == (["1", "2"], ["4"])


def test_an_include_with_a_folder_is_relative_to_the_path(tools: Interface) -> None:
    for name in ("src/a.ts", "src/sub/b.ts", "lib/src/c.ts"):
        tools.file(name, "x\n")
    found = tools("grep", pattern="x", include="src/*.ts")["matches"]
    assert [match["file_path"] for match in found] == ["/workspace/src/a.ts"]
    found = tools("grep", pattern="x", include="*.{ts,js}", path="/workspace/src")["matches"]
    assert [match["file_path"] for match in found] == ["/workspace/src/a.ts", "/workspace/src/sub/b.ts"]


# -- bash


def test_output_that_is_not_text(tools: Interface) -> None:
    answer = tools("bash", command="head -c 200000 /dev/zero | tr '\\0' '\\377'")
    assert answer["total_stdout_bytes"] == 200_000 and answer["truncated"] is True
    assert len(answer["stdout"].encode()) <= 50 * 1024


def test_partial_output_of_a_timeout_is_cut_as_well(tools: Interface) -> None:
    for seconds in growing(0.5):
        error = tools.refuse("bash", command="seq 1 100000; sleep 600", timeout_ms=round(seconds * 1000))
        assert error.code is Code.TIMEOUT
        if error.details["stdout"].endswith("\n100000\n"):
            break
    assert len(error.details["stdout"]) <= 50 * 1024 and error.details["stdout"].endswith("\n100000\n")
    assert (error.details["truncated"], error.details["total_stdout_bytes"]) == (True, 588_895)


# -- policy


def test_what_a_person_must_agree_to(tmp_path: Path) -> None:
    with opened(tmp_path, policy=Policy(name="asking", confirmation_required=("read", "edit", "git"))) as tools:
        tools.repository()
        tools.file("a.txt", "x\n")
        error = tools.refuse("read", file_path="a.txt")
        assert error.code is Code.APPROVAL_REQUIRED and {"runId", "approvalId"} <= set(error.details)
        tools.forget_questions()
        assert tools.refuse("read", file_path="/workspace").code is Code.APPROVAL_REQUIRED
        tools.forget_questions()
        assert tools.decided(True, "edit", file_path="a.txt", old_string="x", new_string="y")["replacements"] == 1
        assert tools.decided(True, "git", action="status")["untracked"] == ["/workspace/a.txt"]
        failed = tools.decided(True, "git", action="commit", message="m", files=["nothing"])
        assert (failed["exit_code"], failed["reason"]) == (128, "unknown-path")
        assert "nothing" in failed["stderr"]


ASKING = Policy(name="asking", confirmation_required=("edit", "read", "runCommand"))


@pytest.mark.parametrize(
    ("tool", "fields"),
    [
        ("edit", {"file_path": "a.txt", "old_string": "z", "new_string": "y"}),
        ("edit", {"file_path": "a.txt", "old_string": "x", "new_string": "y"}),
        ("edit", {"file_path": "none.txt", "old_string": "x", "new_string": "y"}),
        ("read", {"file_path": "a.txt", "offset": 9}),
        ("bash", {"command": "echo out; seq 1 100000 >&2; sleep 600", "timeout_ms": 500}),
    ],
)
def test_the_error_of_a_call_that_was_agreed_to_has_the_same_words(
    tmp_path: Path, tool: str, fields: dict[str, Any]
) -> None:
    """For who waits, and in the run, which keeps it."""

    def told(error: WapError) -> tuple[str, dict[str, Any]]:
        # How much a command had printed by then is another thing each time.
        return error.text, dict.fromkeys(error.details) if tool == "bash" else error.details

    with opened(tmp_path) as tools:
        tools.file("a.txt", "x\nx\n")
        direct = tools.refuse(tool, **fields)
    with opened(tmp_path, policy=ASKING) as tools:
        waited = tools.decided_badly(tool, **fields)
        ((run,), _) = tools._wait(tools.runner.page(AGENT, None, 10, None))
        kept = tools._wait(tools.runner.get(run.id, AGENT)).response
        assert kept is not None
    assert told(waited) == told(WapError.from_dict(kept)) == told(direct)
    assert not any(letter.isupper() for name in kept.get("details", {}) for letter in name)
    assert waited.details.get("stderr", "").count("left out") <= 1


def test_denied_paths_are_not_there(tmp_path: Path) -> None:
    with opened(tmp_path, policy=presets.load_preset("standard")) as tools:
        tools.file(".env", "TOKEN=1\n")
        tools.file("a.txt", "TOKEN\n")
        assert tools.refuse("read", file_path=".env").code is Code.PERMISSION_DENIED
        assert tools("read", file_path="/workspace")["content"] == "a.txt"
        assert tools("grep", pattern="TOKEN")["count"] == 1
        assert tools("glob", pattern="**/.*")["matches"] == []


def test_a_denied_folder_is_not_told_from_a_file(tmp_path: Path) -> None:
    policy = Policy(name="closed", filesystem=FilesystemPolicy(denied_paths=("secret",)))
    texts = []
    for make in (lambda path: path.mkdir(), lambda path: path.write_text("x"), lambda path: None):
        folder = tmp_path / str(len(texts))
        folder.mkdir()
        with opened(folder, policy=policy) as tools:
            make(tools.root / "secret")
            texts.append(tools.refuse("read", file_path="secret").text)
    assert len(set(texts)) == 1


def test_a_token_that_nothing_confines_gets_neither_bash_nor_git(tools: Interface) -> None:
    tools.repository()
    agent = Caller(user="ada", agent="bot", token="0" * 12, scope=Scope())
    for tool, fields in (("bash", {"command": "true"}), ("git", {"action": "status"})):
        error = tools.refuse(tool, caller=agent, **fields)
        assert error.code is Code.PROVIDER_UNAVAILABLE and "confines" in error.text
