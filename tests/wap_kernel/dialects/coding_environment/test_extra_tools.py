"""The tools that the catalog does not have: edits, deletion, globs, batches; their errors are results."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.coding_environment import WAIT, Coding, play
from wap_kernel.client.render import text
from wap_kernel.client.results import AuditRecords
from wap_kernel.model.caller import Caller, Scope
from wap_kernel.model.errors import PermissionDenied, RateLimited
from wap_kernel.model.operations import Effect, Operation
from wap_kernel.state.audit.query import AuditQuery

CODE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"


def test_edit_file(coding: Coding) -> None:
    target = coding.root / "a.py"
    target.write_bytes(CODE.replace("\n", "\r\n").encode() + b"\xff")

    async def scenario(coding: Coding) -> None:
        edits = [{"oldText": "return 1", "newText": "return $1 \\1"}, {"oldText": "two", "newText": "three"}]
        answer = await coding.call("editFile", {"path": "a.py", "edits": edits})
        assert answer["path"] == "a.py" and "-def two():" in answer["diff"]
        expected = CODE.replace("return 1", "return $1 \\1").replace("two", "three").replace("\n", "\r\n")
        assert target.read_bytes() == expected.encode() + b"\xff"
        single = {"path": "a.py", "oldText": "def", "newText": "async def", "replaceAll": True}
        after = await coding.call("editFile", {**single, "expectedHash": answer["hash"]})
        assert target.read_bytes().count(b"async def") == 2
        stale = await coding.fail("editFile", {**single, "expectedHash": answer["hash"]})
        assert stale["code"] == "CONFLICT" and stale["details"]["currentHash"] == after["hash"]

    play(coding, scenario)


def test_an_edit_that_does_not_fit_changes_nothing_and_says_what_does(coding: Coding) -> None:
    target = coding.root / "a.py"
    target.write_text(CODE)

    async def scenario(coding: Coding) -> None:
        near = await coding.fail("editFile", {"path": "a.py", "oldText": "def two():\n   return 2\n", "newText": ""})
        assert near["code"] == "EDIT_NOT_FOUND"
        assert near["details"]["closest"]["startLine"] == 5 and "return 2" in near["details"]["closest"]["text"]
        edits = [{"oldText": "return 1", "newText": "x"}, {"oldText": "return", "newText": "y"}]
        await coding.call("editFile", {"path": "a.py", "edits": edits})
        target.write_text(CODE)
        twice = await coding.fail("editFile", {"path": "a.py", "oldText": "return", "newText": "x"})
        assert (twice["code"], twice["details"]["occurrences"]) == ("EDIT_AMBIGUOUS", 2)
        overlapping = coding.root / "b"
        overlapping.write_text("aaa")
        assert (await coding.fail("editFile", {"path": "b", "oldText": "aa", "newText": ""}))[
            "code"
        ] == "EDIT_AMBIGUOUS"
        bad = [{"oldText": "def one", "newText": "x"}, {"oldText": "not there at all", "newText": ""}]
        assert (await coding.fail("editFile", {"path": "a.py", "edits": bad}))["code"] == "EDIT_NOT_FOUND"
        assert target.read_text() == CODE

    play(coding, scenario)


def test_an_edit_cannot_grow_without_bound(coding: Coding) -> None:
    (coding.root / "a").write_text("a" * 1_000_000)

    async def scenario(coding: Coding) -> None:
        grown = {"path": "a", "oldText": "a", "newText": "b" * 1_000_000, "replaceAll": True}
        assert (await coding.fail("editFile", grown))["code"] == "SIZE_LIMIT_EXCEEDED"
        much = {"path": "a", "edits": [{"oldText": "x", "newText": "b" * 600_000}] * 2}
        assert (await coding.fail("editFile", much))["code"] == "SIZE_LIMIT_EXCEEDED"

    play(coding, scenario)


FORMS: list[dict[str, Any]] = [
    {},
    {"oldText": "a"},
    {"newText": "a"},
    {"edits": []},
    {"edits": [{"oldText": "a", "newText": "b"}], "oldText": "a", "newText": "b"},
    {"edits": [{"oldText": "a", "newText": "b"}], "replaceAll": True},
    {"edits": [{"oldText": "", "newText": "b"}]},
    {"edits": [{"oldText": "a", "newText": "b", "regex": True}]},
]


def test_an_edit_has_one_of_two_forms(coding: Coding) -> None:
    (coding.root / "a").write_text("a")

    async def scenario(coding: Coding) -> None:
        for form in FORMS:
            assert (await coding.fail("editFile", {"path": "a", **form}))["code"] == "INVALID_ARGUMENT", form
        assert (await coding.fail("editFile", {"path": "../a", "oldText": "a", "newText": ""}))["code"] == (
            "PERMISSION_DENIED"
        )
        assert (coding.root / "a").read_text() == "a"

    play(coding, scenario)


def test_delete_file(coding: Coding) -> None:
    (coding.root / "folder").mkdir()
    (coding.root / "folder" / "a").touch()
    (coding.root / "link").symlink_to("folder")

    async def scenario(coding: Coding) -> None:
        deleted = await coding.call("deleteFile", {"path": "link"})
        assert deleted == {"path": "link", "deleted": True, "runId": deleted["runId"]}
        refused = await coding.fail("deleteFile", {"path": "folder"})
        assert refused["code"] == "INVALID_ARGUMENT" and "recursive" in refused["error"]
        await coding.call("deleteFile", {"path": "folder", "recursive": True})
        gone = await coding.fail("deleteFile", {"path": "folder"})
        assert gone["code"] == "FILE_NOT_FOUND" and "listFiles" in gone["error"]
        assert list(coding.root.iterdir()) == []

    play(coding, scenario)


@pytest.mark.parametrize("path", [".", "./", "a/..", "{root}/src"])
def test_workspace_root_itself_is_not_deleted(coding: Coding, path: str) -> None:
    (coding.root / "src/a").mkdir(parents=True)

    async def scenario(coding: Coding) -> None:
        delete = {"path": path.format(root=coding.root), "recursive": True, "workspaceRoot": "src"}
        refused = await coding.fail("deleteFile", delete)
        assert refused["code"] == "INVALID_ARGUMENT" and "itself" in refused["error"]
        assert (coding.root / "src/a").is_dir()

    play(coding, scenario)


def test_glob_files_newest_first(coding: Coding) -> None:
    for number, path in enumerate(("old.py", "src/new.py", "src/deep/middle.py", "src/a.txt", "node_modules/x.py")):
        (coding.root / path).parent.mkdir(parents=True, exist_ok=True)
        (coding.root / path).touch()
        os.utime(coding.root / path, (1000 + number, 1000 + number))
    os.utime(coding.root / "src/new.py", (2000, 2000))

    async def scenario(coding: Coding) -> None:
        answer = await coding.call("globFiles", {"pattern": "**/*.py"})
        assert [file["path"] for file in answer["files"]] == ["src/new.py", "src/deep/middle.py", "old.py"]
        assert (answer["pattern"], answer["count"]) == ("**/*.py", 3)
        below = await coding.call("globFiles", {"pattern": "*.{py,txt}", "path": "src"})
        assert [file["path"] for file in below["files"]] == ["src/new.py", "src/a.txt"]
        cut = await coding.call("globFiles", {"pattern": "**/*.py", "maxResults": 1})
        assert [file["path"] for file in cut["files"]] == ["src/new.py"]
        assert (cut["truncated"], cut["total"]) == (True, 3)
        assert (await coding.call("globFiles", {"pattern": "nothing"}))["count"] == 0

    play(coding, scenario)


def test_get_workspace_info(coding: Coding) -> None:
    coding.policy(maxFileSize=1000)

    async def scenario(coding: Coding) -> None:
        answer = await coding.call("getWorkspaceInfo", {})
        assert (answer["root"], answer["workspaceRoot"]) == (str(coding.root), ".")
        assert answer["limits"]["maxFileSize"] == 1000 and answer["limits"]["defaultTimeout"] == 300
        assert answer["confinesCommands"] is False

    play(coding, scenario)


# -- batches


def _create(path: str, content: str = "new") -> dict[str, Any]:
    return {"type": "createFile", "path": path, "content": content}


def test_run_operations(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        operations = [_create("a"), {"type": "shell", "command": "cat a && echo 1"}, {"type": "readFile", "path": "no"}]
        answer = await coding.call("runOperations", {"operations": operations})
        assert answer["status"] == "completed"
        assert [event["success"] for event in answer["events"]] == [True, True, False]
        assert answer["events"][1]["stdout"] == "new1\n"
        again = await coding.call("getRun", {"runId": answer["runId"]})
        assert again == answer
        dry = await coding.call("runOperations", {"operations": [_create("b")], "dryRun": True})
        assert dry["dryRun"] and dry["events"][0]["simulated"] and not (coding.root / "b").exists()
        bad = [_create("c"), {"type": "readFile", "path": "no"}]
        undone = await coding.call("runOperations", {"operations": bad, "atomic": True})
        assert undone["status"] == "error" and not (coding.root / "c").exists()
        wrong = await coding.fail("runOperations", {"operations": [{"type": "createFile", "path": "../a"}]})
        assert wrong["code"] == "INVALID_ARGUMENT"
        assert (await coding.fail("getRun", {"runId": "run_0"}))["code"] == "NOT_FOUND"

    play(coding, scenario)


def test_a_batch_that_is_not_waited_for_goes_on(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        command = "until test -e go; do sleep 0.01; done; echo done"
        begun = await coding.call("runOperations", {"operations": [{"type": "shell", "command": command}], "wait": 0})
        assert begun["status"] == "running"
        looking = asyncio.ensure_future(coding.call("getRun", {"runId": begun["runId"], "wait": WAIT}))
        (coding.root / "go").touch()
        assert (await looking)["events"][0]["stdout"] == "done\n"
        for seconds in (0, 0.05):
            late = await coding.call("getRun", {"runId": begun["runId"], "wait": seconds})
            assert late["status"] == "completed"

    play(coding, scenario)


def test_what_a_token_does_not_open_is_refused_in_a_batch_too(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        agent = Caller(user="ada", token="t", scope=Scope(tools=frozenset({"writeFile"})))
        operations = [_create("a"), {"type": "deleteFile", "path": "a"}, {"type": "message", "content": "hello"}]
        answer = await coding.call("runOperations", {"operations": operations}, caller=agent)
        assert [event["type"] for event in answer["events"]] == ["createFile", "policyDenied", "message"]
        assert answer["events"][1]["rule"] == "token.tools" and (coding.root / "a").exists()
        stranger = Caller(user="ada", token="other", scope=Scope())
        assert (await coding.fail("getRun", {"runId": answer["runId"]}, caller=stranger))["code"] == "NOT_FOUND"

    play(coding, scenario)


# -- what the server that hosts the tools says


def test_the_authorizer_is_asked_for_every_effect(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        asked: list[Effect] = []

        async def read_only(effect: Effect) -> None:
            asked.append(effect)
            if effect is not Effect.READ:
                raise PermissionDenied("The authorizer refuses it.")

        await coding.call("listFiles", {}, authorize=read_only)
        assert (await coding.refuse("writeFile", {"wrong": 1}, authorize=read_only)).code == -32002
        assert (await coding.refuse("runCommand", {"command": "true"}, authorize=read_only)).code == -32004
        assert asked == [Effect.READ, Effect.WRITE, Effect.EXECUTE]
        mixed = [_create("a"), {"type": "message", "content": "hello"}]
        answer = await coding.call("runOperations", {"operations": mixed}, authorize=read_only)
        assert [event["type"] for event in answer["events"]] == ["policyDenied", "message"]
        denied = await coding.fail("runOperations", {"operations": mixed[:1]}, authorize=read_only)
        assert denied["code"] == "PERMISSION_DENIED"
        assert list(coding.root.iterdir()) == []

    play(coding, scenario)


def test_whoever_is_limited_is_told(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        @asynccontextmanager
        async def full(_: Caller, operation: Operation) -> Any:
            raise RateLimited("No more today.", hint="Try again later.", retryAfterMs=1000, kind=operation.kind)
            yield

        error = await coding.refuse("listFiles", {}, admit=full)
        assert (error.code, error.data["code"], error.data["retryAfterMs"]) == (-32603, "RATE_LIMITED", 1000)
        assert (await coding.fail("deleteFile", {"path": "a"}, admit=full))["code"] == "RATE_LIMITED"

    play(coding, scenario)


def test_the_audit_says_which_files_were_looked_for(coding: Coding) -> None:
    (coding.root / "src").mkdir()
    calls: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("globFiles", {"pattern": "**/*.py", "path": "src"}, {"path": "src", "include": ["**/*.py"]}),
        ("listFiles", {"options": {"globs": ["*.md", "*.txt"]}}, {"path": ".", "include": ["*.md", "*.txt"]}),
        ("listFiles", {}, {"path": "."}),
        ("searchFiles", {"query": "x", "options": {"globs": ["*.py"]}}, {"query": "x", "include": ["*.py"]}),
        ("searchFiles", {"query": "y"}, {"query": "y"}),
    ]

    async def scenario(coding: Coding) -> None:
        for tool, arguments, _ in calls:
            await coding.call(tool, arguments)
        records = (await coding.workspace.audit_page(AuditQuery(limit=len(calls))))["records"][::-1]
        report = [{name: value for name, value in one["summary"].items() if name != "paths"} for one in records]
        assert report == [summary for _, _, summary in calls]
        listing = text(AuditRecords({"records": records}))
        assert "**/*.py in src" in listing and "*.md, *.txt in ." in listing

    play(coding, scenario)


def test_advice_is_about_tools_that_there_are(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        assert "as runOperations" in (await coding.fail("getRun", {"runId": "run_0000000000000000"}))["error"]
        message = await coding.call("runOperations", {"operations": [{"type": "deleteFile", "path": "."}]})
        assert "rm -r" in message["events"][0]["error"]

    play(coding, scenario)
