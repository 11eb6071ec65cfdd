"""Every code of the catalog, what is said beside it, and that it is recorded."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.support.coding_environment import Coding, play
from tests.support.time_limits import growing
from wap_kernel.dialects.coding_environment import rpc_errors
from wap_kernel.dialects.coding_environment import tools as coding_tools
from wap_kernel.dialects.coding_environment.tools import CATALOG, TOOLS
from wap_kernel.model.caller import Caller, Scope
from wap_kernel.model.errors import Code, InternalError, WapError
from wap_kernel.model.limits import CODING_MAX_EDIT_BYTES, CODING_MAX_READ_BYTES
from wap_kernel.policy import presets
from wap_kernel.policy.parse import merge_policy

EXAMPLE = {
    "allowedPaths": ["**/*"],
    "deniedPaths": [".git/**", "node_modules/**"],
    "maxFileSize": 10485760,
    "maxEditSize": 1048576,
    "allowedCommands": ["python3", "npm", "make"],
    "envAllowlist": ["PATH", "HOME"],
    "confirmationRequired": ["runCommand"],
}
"""The catalog's policy file."""
MISSING: dict[str, dict[str, Any]] = {
    "readFile": {},
    "writeFile": {"path": "a"},
    "searchFiles": {"options": {}},
    "runCommand": {"args": []},
}
INVALID: list[tuple[str, dict[str, Any], str]] = [
    ("readFile", {"path": ""}, "path"),
    ("readFile", {"path": 3}, "path"),
    ("readFile", {"path": "a\0b"}, ""),
    ("readFile", {"path": "a", "startLine": 0}, "startLine"),
    ("readFile", {"path": "a", "workspaceRoot": ""}, "workspaceRoot"),
    ("writeFile", {"path": "a", "contents": None}, "contents"),
    ("writeFile", {"path": "a/", "contents": ""}, ""),
    ("writeFile", {"path": "a", "contents": "", "options": {"atomic": "yes"}}, "options.atomic"),
    ("writeFile", {"path": "a", "contents": "", "options": {"mode": "append"}}, "options.mode"),
    ("writeFile", {"path": "a", "contents": "", "options": []}, "options"),
    ("listFiles", {"path": "a", "options": {"maxEntries": 0}}, "options.maxEntries"),
    ("listFiles", {"options": {"maxEntries": 1.5}}, "options.maxEntries"),
    ("listFiles", {"options": {"globs": "**/*.py"}}, "options.globs"),
    ("listFiles", {"options": {"globs": ["a" * 2000]}}, ""),
    ("searchFiles", {"query": ""}, "query"),
    ("searchFiles", {"query": "(", "options": {"regex": True}}, ""),
    ("searchFiles", {"query": "(?=a)", "options": {"regex": True}}, ""),
    ("searchFiles", {"query": "a", "options": {"maxResults": -1}}, "options.maxResults"),
    ("runCommand", {"command": ""}, "command"),
    ("runCommand", {"command": "ls -l"}, ""),
    ("runCommand", {"command": "python3 src/a.py"}, ""),
    ("runCommand", {"command": "ls", "args": "-l"}, "args"),
    ("runCommand", {"command": " "}, ""),
    ("runCommand", {"command": "ls", "args": ["a\0"]}, ""),
    ("runCommand", {"command": "ls", "args": ["x" * 100_001]}, ""),
    ("runCommand", {"command": "ls", "options": {"timeout": 0}}, "options.timeout"),
    ("runCommand", {"command": "ls", "options": {"timeout": float("inf")}}, "options.timeout"),
    ("runCommand", {"command": "ls", "options": {"confirmed": "true"}}, "options.confirmed"),
    ("runCommand", {"command": "ls", "options": {"env": {"A": 1}}}, "options.env.A"),
    ("runCommand", {"command": "ls", "options": {"env": {"A=B": "1"}}}, ""),
    ("readFile", {"path": "a\ud800"}, ""),
]


@pytest.mark.parametrize("tool", MISSING)
def test_a_missing_argument_is_named(coding: Coding, tool: str) -> None:
    async def scenario(coding: Coding) -> None:
        error = await coding.refuse(tool, MISSING[tool])
        assert (error.code, error.data["code"]) == (-32602, "INVALID_ARGUMENT")
        assert "required" in error.message

    play(coding, scenario)


def test_invalid_arguments(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        for tool, arguments, field in INVALID:
            error = await coding.refuse(tool, arguments)
            assert (error.code, error.data["code"]) == (-32602, "INVALID_ARGUMENT"), (tool, arguments)
            if field:
                assert error.data["problems"][0]["field"].startswith(field), error.data
        assert list(coding.root.iterdir()) == []

    play(coding, scenario)


MISPLACED = [
    ("listFiles", {"recursive": True}, "options.recursive"),
    ("runCommand", {"command": "ls", "cwd": "src"}, "options.cwd"),
    ("readFile", {"pth": "a"}, "path"),
    ("writeFile", {"path": "a", "content": "x"}, "contents"),
]


def test_a_misplaced_argument_is_told_its_place(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        for tool, arguments, position in MISPLACED:
            error = await coding.refuse(tool, arguments)
            assert any(problem["message"].endswith(f"Did you mean {position}?") for problem in error.data["problems"])

    play(coding, scenario)


def test_an_unknown_tool_is_an_invalid_argument(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        error = await coding.refuse("formatDisk", {})
        assert error.code == -32602 and all(name in error.message for name in TOOLS)

    play(coding, scenario)


NOT_FOUND: list[tuple[str, dict[str, Any]]] = [
    ("readFile", {"path": "missing.txt"}),
    ("readFile", {"path": "a.txt/below"}),
    ("listFiles", {"path": "missing"}),
    ("runCommand", {"command": "ls", "options": {"cwd": "missing"}}),
    *((tool, {"workspaceRoot": "missing"}) for tool in ("listFiles",)),
    ("searchFiles", {"workspaceRoot": "missing", "query": "a"}),
]


def test_what_is_not_there_is_told_from_what_is_not_valid(coding: Coding) -> None:
    (coding.root / "a.txt").write_text("")

    async def scenario(coding: Coding) -> None:
        for tool, arguments in NOT_FOUND:
            error = await coding.refuse(tool, arguments)
            assert (error.code, error.data["code"]) == (-32602, "FILE_NOT_FOUND"), (tool, arguments)

    play(coding, scenario)


@pytest.mark.parametrize("folder", ["missing", "a.txt", "sub/missing"])
def test_a_workspace_root_that_is_no_folder_is_named(coding: Coding, folder: str) -> None:
    (coding.root / "a.txt").write_text("")
    (coding.root / "sub").mkdir()

    async def scenario(coding: Coding) -> None:
        for tool, arguments in {**ON_PATH, "searchFiles": lambda _: {"query": "root"}}.items():
            error = await coding.refuse(tool, {"workspaceRoot": folder, **arguments("x")})
            assert (error.code, error.data["code"], error.data["path"]) == (-32602, "FILE_NOT_FOUND", folder), tool
            assert error.message.startswith(f"workspaceRoot is no folder: {folder}. Name a folder")

    play(coding, scenario)


def test_a_refusal_of_policy_names_the_path_as_the_caller_does(coding: Coding) -> None:
    (coding.root / "sub").mkdir()
    coding.policy(deniedPaths=["sub/closed/**"])

    async def scenario(coding: Coding) -> None:
        error = await coding.refuse("readFile", {"path": "closed/a", "workspaceRoot": "sub"})
        assert error.message.startswith(
            'Path "closed/a" is denied by policy. It matches "sub/closed/**" in deniedPaths'
        )

    play(coding, scenario)


ON_PATH: dict[str, Any] = {
    "readFile": lambda path: {"path": path},
    "writeFile": lambda path: {"path": path, "contents": "evil"},
    "listFiles": lambda path: {"path": path},
    "runCommand": lambda path: {"command": "touch", "args": ["evil"], "options": {"cwd": path}},
}
OUTSIDE = ["..", "../other/b", "/etc", "/", "inner/../../other", "link", "link/b", "/../x", "{root}/other/b", "{root}"]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_leaves_the_workspace_root_is_path_traversal(coding: Coding, path: str) -> None:
    (coding.root / "sub" / "inner").mkdir(parents=True)
    (coding.root / "other").mkdir()
    (coding.root / "other" / "b").mkdir()
    (coding.root / "sub" / "link").symlink_to("../other")
    path = path.format(root=coding.root)

    async def scenario(coding: Coding) -> None:
        for tool, arguments in ON_PATH.items():
            if tool in ("readFile", "writeFile") and path.endswith("/b"):
                (coding.root / "other" / "b").touch()
            error = await coding.refuse(tool, {"workspaceRoot": "sub", **arguments(path)})
            assert (error.code, error.data["code"]) == (-32001, "PERMISSION_DENIED"), (tool, error.message)
        assert not list(coding.root.rglob("evil"))

    play(coding, scenario)


@pytest.mark.parametrize("folder", ["..", "/etc", "/", "a/../..", "out"])
def test_a_workspace_root_outside_of_the_servers_root_is_path_traversal(coding: Coding, folder: str) -> None:
    (coding.root / "out").symlink_to("/etc")

    async def scenario(coding: Coding) -> None:
        for tool, arguments in {**ON_PATH, "searchFiles": lambda _: {"query": "root"}}.items():
            error = await coding.refuse(tool, {"workspaceRoot": folder, **arguments(".")})
            assert error.code == -32001, (tool, error.message)

    play(coding, scenario)


def test_the_policy_file_of_the_catalog(coding: Coding) -> None:
    for path in (".git/config", "node_modules/x.js", "src/a.py"):
        (coding.root / path).parent.mkdir(exist_ok=True)
        (coding.root / path).write_text("needle")
    coding.policy(**EXAMPLE)

    async def scenario(coding: Coding) -> None:
        for path in (".git/config", "node_modules/x.js"):
            for tool, arguments in (("readFile", {"path": path}), ("writeFile", {"path": path, "contents": ""})):
                error = await coding.refuse(tool, arguments)
                assert (error.code, error.data["code"]) == (-32002, "PERMISSION_DENIED")
                assert error.data["rule"]
        assert (await coding.refuse("listFiles", {"path": "node_modules"})).code == -32002
        listing = await coding.call("listFiles", {"options": {"recursive": True}})
        assert [entry["path"] for entry in listing["entries"]] == [".cws-policy.json", "src", "src/a.py"]
        found = await coding.call("searchFiles", {"query": "needle"})
        assert [one["path"] for one in found["results"]] == ["src/a.py"]

        run = {"command": "python3", "args": ["-c", "import os; print(sorted(os.environ))"]}
        assert (await coding.refuse("runCommand", run)).code == -32005
        confirmed = {"confirmed": True}
        answer = await coding.call("runCommand", {**run, "options": confirmed})
        assert "USER" not in answer["stdout"]
        for denied in ({"command": "ls"}, {"command": "bash", "args": ["-c", "python3"]}):
            error = await coding.refuse("runCommand", {**denied, "options": confirmed})
            assert error.code == -32004, error.message
        error = await coding.refuse("runCommand", {**run, "options": {**confirmed, "env": {"A": "b"}}})
        assert (error.code, error.data["rule"]) == (-32004, "envAllowlist")

        assert (
            await coding.refuse("writeFile", {"path": "b", "contents": "x" * (CODING_MAX_EDIT_BYTES + 1)})
        ).code == -32003
        (coding.root / "big").write_bytes(b"x" * (CODING_MAX_READ_BYTES + 1))
        assert (await coding.refuse("readFile", {"path": "big"})).code == -32003

    play(coding, scenario)


def test_the_policy_of_a_workspace_root_counts_beside_that_of_the_root(coding: Coding) -> None:
    (coding.root / "sub").mkdir()
    for name in ("a.txt", "b.txt", "c.txt"):
        (coding.root / "sub" / name).write_text("x")
    coding.policy(deniedPaths=["a.txt"])
    coding.policy("sub", deniedPaths=["b.txt"], maxEditSize=3, allowedCommands=["ls"])

    async def scenario(coding: Coding) -> None:
        async def code(tool: str, **arguments: Any) -> int:
            return (await coding.refuse(tool, {"workspaceRoot": "sub", **arguments})).code

        assert await code("readFile", path="a.txt") == -32002
        assert await code("readFile", path="b.txt") == -32002
        assert await code("writeFile", path="c.txt", contents="four") == -32003
        assert await code("runCommand", command="pwd") == -32004
        await coding.call("readFile", {"workspaceRoot": "sub", "path": "c.txt"})
        await coding.call("runCommand", {"workspaceRoot": "sub", "command": "ls"})
        assert (coding.root / "sub/.cws-policy.json").write_text("{")
        assert await code("readFile", path="c.txt") == -32002

    play(coding, scenario)


def test_too_large(coding: Coding) -> None:
    (coding.root / "big").write_bytes(b"x" * (CODING_MAX_READ_BYTES + 1))
    (coding.root / "small").write_bytes(b"x" * CODING_MAX_READ_BYTES)

    async def scenario(coding: Coding) -> None:
        error = await coding.refuse("readFile", {"path": "big"})
        assert (error.code, error.data["code"]) == (-32003, "SIZE_LIMIT_EXCEEDED")
        assert "startLine" in error.data["hint"]
        assert (await coding.call("readFile", {"path": "small"}))["size"] == CODING_MAX_READ_BYTES
        await coding.call("writeFile", {"path": "new", "contents": "x" * CODING_MAX_EDIT_BYTES})
        error = await coding.refuse("writeFile", {"path": "newer", "contents": "ü" * (CODING_MAX_EDIT_BYTES // 2 + 1)})
        assert error.code == -32003 and not (coding.root / "newer").exists()

    play(coding, scenario)


def test_a_timeout_has_the_output_so_far(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        arguments = {"command": "sh", "args": ["-c", "echo begun; exec sleep 1000"]}
        for seconds in growing(0.5):
            error = await coding.refuse("runCommand", {**arguments, "options": {"timeout": seconds}})
            if error.data["stdout"]:
                break
        assert (error.code, error.data["code"], error.data["stdout"]) == (-32603, "TIMEOUT", "begun\n")
        assert "options.timeout" in error.data["hint"]

    play(coding, scenario)


def test_a_program_that_cannot_be_started(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        error = await coding.refuse("runCommand", {"command": "no-such-program"})
        assert (error.code, error.data["code"]) == (-32603, "EXECUTION_FAILED")

    play(coding, scenario)


def test_a_tool_that_the_agents_token_does_not_open(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        agent = Caller(user="ada", token="t1", scope=Scope(tools=frozenset({"readFile", "exploreFiles"})))
        error = await coding.refuse("writeFile", {"nonsense": True}, caller=agent)
        assert (error.code, error.data["rule"]) == (-32004, "token.tools")
        assert (await coding.fail("deleteFile", {"path": "a"}, caller=agent))["code"] == "PERMISSION_DENIED"
        await coding.call("listFiles", {}, caller=agent)
        names = [tool.name for tool in coding_tools.list_tools(agent)]
        batch = ["runOperations", "getRun", "getOutput", "cancelRun"]
        assert names == ["readFile", "listFiles", "globFiles", "readNotebook", *batch]
        assert [tool.name for tool in coding_tools.list_tools(agent, {"readFile", "writeFile"})] == ["readFile"]
        assert [tool.name for tool in coding_tools.list_tools(Caller())] == list(TOOLS)

    play(coding, scenario)


def test_nothing_confines_an_agents_command(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        agent = Caller(user="ada", token="t1", scope=Scope())
        error = await coding.refuse("runCommand", {"command": "true"}, caller=agent)
        assert (error.code, error.data["code"]) == (-32603, "PROVIDER_UNAVAILABLE")

    play(coding, scenario)


def test_a_bug_says_nothing_of_the_host(coding: Coding, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("/secret/place")

    monkeypatch.setattr("wap_kernel.dialects.coding_environment.workspace_root.parse_root", broken)

    async def scenario(coding: Coding) -> None:
        for tool in ("readFile", "deleteFile"):
            outcome = await coding.outcome(tool, {"path": "a"})
            assert outcome.error is not None
            assert (outcome.error.code, outcome.error.data["code"]) == (-32603, "INTERNAL_ERROR")
            assert "secret" not in outcome.text

    play(coding, scenario)


@pytest.mark.parametrize("code", Code)
def test_every_code_of_ours_has_one_of_the_catalog(code: Code) -> None:
    kinds = {kind.code: kind for kind in WapError.__subclasses__()}
    for tool in CATALOG:
        error = rpc_errors.to_rpc_error(tool, kinds.get(code, InternalError)("What happened."))
        assert error.code in (-32602, -32603, -32001, -32002, -32003, -32004, -32005)
        assert error.data["hint"] and error.message.startswith("What happened. ")


def test_half_characters_can_be_sent() -> None:
    error = rpc_errors.to_rpc_error("readFile", InternalError("a\udcffb", path="c\udcff", lines=["\ud800"]))
    json.dumps({"message": error.message, **error.data}, ensure_ascii=False).encode("utf-8")


def test_what_is_refused_is_recorded_once(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        await coding.refuse("readFile", {"path": "../x"})
        await coding.refuse("readFile", {"path": "missing"})
        await coding.refuse("writeFile", {"colour": "red"})
        await coding.fail("editFile", {"path": "a"})
        await coding.refuse("runCommand", {"command": "rm", "args": ["-rf", "/"]})

    play(coding, scenario, policy=merge_policy(presets.load_preset("permissive"), {}))
    with closing(sqlite3.connect(coding.state / "state.db")) as database:
        columns = "operation, user, agent, outcome, code"
        rows = database.execute(f"SELECT {columns} FROM audit WHERE outcome != 'intent' ORDER BY rowid").fetchall()
    assert rows == [
        ("readFile", "ada", "claude", "denied", "PERMISSION_DENIED"),
        ("readFile", "ada", "claude", "failed", "FILE_NOT_FOUND"),
        ("writeFile", "ada", "claude", "failed", "INVALID_ARGUMENT"),
        ("editFile", "ada", "claude", "failed", "INVALID_ARGUMENT"),
        ("runCommand", "ada", "claude", "denied", "PERMISSION_DENIED"),
    ]
