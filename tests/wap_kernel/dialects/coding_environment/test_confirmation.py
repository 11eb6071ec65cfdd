"""Confirmation by the client's user for the workspace's policy file; approval in Jupyter for everything else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.coding_environment import CLIENT, WAIT, Coding, User, play
from tests.support.provider_workspace import skip_unless_works
from wap_kernel.dialects.coding_environment.confirmation_prompt import NO_UNDO
from wap_kernel.dialects.coding_environment.tools import CATALOG
from wap_kernel.model.caller import Caller, Scope
from wap_kernel.policy import presets
from wap_kernel.policy.parse import merge_policy

ASKING = merge_policy(presets.load_preset("permissive"), {"shell": {"unconfined": "allow"}})
"""Allows what the tests do, and asks for recursive deletion."""
DELETE = {"command": "rm", "args": ["-r", "data"]}


def test_confirmed_is_what_the_policy_file_wants(coding: Coding) -> None:
    coding.policy(confirmationRequired=["runCommand"])

    async def scenario(coding: Coding) -> None:
        run = {"command": "touch", "args": ["a"]}
        error = await coding.refuse("runCommand", run)
        assert (error.code, error.data["code"]) == (-32005, "APPROVAL_REQUIRED")
        assert "options.confirmed: true" in error.data["hint"]
        assert "runId" not in error.data, "nobody in Jupyter is bothered with what the user can settle"
        assert (await coding.runner.page(CLIENT, None, 10, None))[0] == []
        assert not (coding.root / "a").exists()
        await coding.refuse("runCommand", {**run, "options": {"confirmed": False}})
        await coding.call("runCommand", {**run, "options": {"confirmed": True}})
        assert (coding.root / "a").exists()

    play(coding, scenario)


CONFIRMED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("writeFile", {"path": "a", "contents": "new\n"}, {"options": {"confirmed": True}}),
    ("editFile", {"path": "a", "oldText": "old", "newText": "new"}, {"confirmed": True}),
    ("deleteFile", {"path": "a"}, {"confirmed": True}),
    ("runCommand", {"command": "rm", "args": ["a"]}, {"options": {"confirmed": True}}),
]


@pytest.mark.parametrize(("tool", "arguments", "confirmed"), CONFIRMED)
def test_every_tool_that_changes_something_can_be_confirmed(
    coding: Coding, tool: str, arguments: dict[str, Any], confirmed: dict[str, Any]
) -> None:
    (coding.root / "a").write_text("old\n")
    coding.policy(confirmationRequired=["writeFile", "deleteFile", "task.run"])

    async def scenario(coding: Coding) -> None:
        refused = coding.fail if tool in ("editFile", "deleteFile") else coding.refuse
        error: Any = await refused(tool, arguments)
        assert "confirmed: true" in (error["error"] if isinstance(error, dict) else error.message)
        assert (coding.root / "a").read_text() == "old\n"

        no = User(False)
        error = await refused(tool, arguments, confirm=no.confirm)
        assert "did not agree" in (error["error"] if isinstance(error, dict) else error.message)
        assert (coding.root / "a").read_text() == "old\n"

        yes = User(True)
        await coding.call(tool, arguments, confirm=yes.confirm)
        assert not (coding.root / "a").exists() or (coding.root / "a").read_text() == "new\n"
        (prompt,) = yes.asked
        if tool == "runCommand":
            assert prompt.command == "rm a" and "Command: rm a\n" in prompt.text
        else:
            assert prompt.path == "a" and "-old\n" in str(prompt.diff) and str(prompt.diff) in prompt.text

        (coding.root / "a").write_text("old\n")
        await coding.call(tool, {**arguments, **confirmed})

    play(coding, scenario)


def test_a_tool_without_the_flag_waits_for_a_person_when_its_user_cannot_be_asked(coding: Coding) -> None:
    (coding.root / "a").write_text("text")
    coding.policy(confirmationRequired=["readFile"])

    async def scenario(coding: Coding) -> None:
        error = await coding.refuse("readFile", {"path": "a"})
        assert error.code == -32005 and error.data["approvalId"]
        await coding.decide(error.data["runId"], True)
        run = await coding.call("getRun", {"runId": error.data["runId"], "wait": WAIT})
        assert run["status"] == "completed" and run["response"]["content"] == "text"
        user = User(True)
        assert (await coding.call("readFile", {"path": "a"}, confirm=user.confirm))["content"] == "text"

    play(coding, scenario)


def test_what_has_changed_since_it_was_shown_is_not_done(coding: Coding) -> None:
    target = coding.root / "a"
    target.write_text("old\n")
    coding.policy(confirmationRequired=["writeFile"])

    async def scenario(coding: Coding) -> None:
        user = User(True, lambda: target.write_text("somebody else's\n"))
        error = await coding.refuse("writeFile", {"path": "a", "contents": "new\n"}, confirm=user.confirm)
        assert error.data["code"] == "CONFLICT"
        assert target.read_text() == "somebody else's\n"

    play(coding, scenario)


def test_a_script_that_has_changed_since_the_command_was_shown_does_not_run(coding: Coding) -> None:
    script = coding.root / "build.sh"
    script.write_text("echo first > ran\n")
    coding.policy(confirmationRequired=["runCommand"])

    async def scenario(coding: Coding) -> None:
        run = {"command": "sh", "args": ["-c", "sh ./build.sh"]}
        user = User(True, lambda: script.write_text("echo second > ran\n"))
        error = await coding.refuse("runCommand", run, confirm=user.confirm)
        assert error.data["code"] == "CONFLICT"
        assert not (coding.root / "ran").exists()
        await coding.call("runCommand", run, confirm=User(True).confirm)
        assert (coding.root / "ran").read_text() == "second\n"

    play(coding, scenario)


@pytest.mark.parametrize("provider", ["local", "bubblewrap"])
def test_a_question_says_what_cannot_be_undone(coding: Coding, provider: str) -> None:
    skip_unless_works(provider)
    coding.policy(confirmationRequired=["runCommand"])

    async def scenario(coding: Coding) -> None:
        for options in ({}, {"isolation": "shared"}):
            user = User(True)
            answer = await coding.call("runCommand", {"command": "true", "options": options}, confirm=user.confirm)
            is_shared = provider == "local" or bool(options)
            assert ("This cannot be undone." in user.asked[0].text) is is_shared
            assert answer.get("isolation") == ("shared" if is_shared else None)

    play(coding, scenario, provider=provider)


def test_a_question_moves_no_cursor_and_hides_nothing(coding: Coding) -> None:
    coding.policy(confirmationRequired=["runCommand"])

    async def scenario(coding: Coding) -> None:
        user = User(False)
        run = {"command": "echo", "args": ["\x1b[2J", "\u202egnp", "a\nFolder: /"], "options": {"env": {"A": "b\r"}}}
        await coding.refuse("runCommand", run, confirm=user.confirm)
        text = user.asked[0].text
        assert all(one.isprintable() or one == "\n" for one in text)
        *lines, note = text.splitlines()[2:]
        assert [line.partition(":")[0] for line in lines] == ["Command", "Folder", "Variable"]
        assert note == NO_UNDO
        await coding.refuse("runCommand", {"command": "echo", "args": ["x" * 50_000]}, confirm=user.confirm)
        assert "more characters are not shown" in user.asked[1].text

    play(coding, scenario)


HIDING: list[tuple[str, dict[str, Any], str]] = [
    (
        "writeFile",
        {"path": "a", "contents": "harmless\n" + "#\n" * 55_000 + "evil\n"},
        "In all: 110014 bytes in 55002 lines are written.",
    ),
    ("writeFile", {"path": "a", "contents": "#" * 300_000}, "In all: 300000 bytes in 1 lines are written."),
    (
        "writeFile",
        {"path": "a", "contents": "# pad\n" * 20_000 + "evil\n"},
        "In all: 120005 bytes in 20001 lines are written.",
    ),
    (
        "editFile",
        {"path": "a", "oldText": "old", "newText": "#\n" * 55_000 + "evil", "replaceAll": True},
        "In all: 1 edits with 110004 bytes of new text, in every place where the old text stands.",
    ),
    ("deleteFile", {"path": "long"}, "In all: more than "),
]


@pytest.mark.parametrize(("tool", "arguments", "size"), HIDING)
def test_a_question_says_what_it_does_not_show(coding: Coding, tool: str, arguments: dict[str, Any], size: str) -> None:
    (coding.root / "a").write_text("old\n")
    (coding.root / "long").write_text("line\n" * 50_000)
    coding.policy(confirmationRequired=["writeFile", "deleteFile"])

    async def scenario(coding: Coding) -> None:
        user = User(True)
        await coding.call(tool, arguments, confirm=user.confirm)
        (prompt,) = user.asked
        assert "evil" not in prompt.text
        assert prompt.text.splitlines()[1].startswith(f"Only the beginning is shown. {size}")
        assert prompt.text.endswith("\n... (the rest is not shown)")

    play(coding, scenario)


def test_a_yes_counts_for_what_was_asked_also_where_it_is_not_shown(coding: Coding) -> None:
    coding.policy(confirmationRequired=["writeFile"])

    async def scenario(coding: Coding) -> None:
        pad, user = "#\n" * 55_000, User(False)
        for end in ("benign", "evil", "benign"):
            write = {"path": "a", "contents": pad + end}
            await coding.refuse("writeFile", write, confirm=user.confirm)
        benign, evil, again = user.asked
        assert benign.text.replace("110006", "110004") == evil.text
        assert benign.key == again.key and benign.key != evil.key and benign != evil

    play(coding, scenario)


def test_what_has_changed_where_the_question_does_not_show_it_is_not_overwritten(coding: Coding) -> None:
    target = coding.root / "a"
    target.write_text("old\n" * 50_000)
    coding.policy(confirmationRequired=["writeFile"])

    async def scenario(coding: Coding) -> None:
        user = User(True, lambda: target.write_text("old\n" * 50_000 + "somebody else's\n"))
        error = await coding.refuse("writeFile", {"path": "a", "contents": "new\n"}, confirm=user.confirm)
        assert error.data["code"] == "CONFLICT" and "somebody" in target.read_text()

    play(coding, scenario)


PLACED: list[tuple[str, dict[str, Any], list[str]]] = [
    ("runCommand", {"command": "ls", "args": ["-la"]}, ["Command: ls -la", "Folder: prod"]),
    ("runCommand", {"command": "ls", "options": {"cwd": "./d"}}, ["Command: ls", "Folder: prod/d"]),
    ("deleteFile", {"path": "d", "recursive": True}, ["deleteFile: prod/d", "With everything in it."]),
    ("writeFile", {"path": "./d/a", "contents": "x\n"}, ["writeFile: prod/d/a", "--- a/prod/d/a"]),
    (
        "git",
        {"action": "add", "workdir": "d", "files": ["a"]},
        ["Command: git add", "Folder: prod/d", "File: prod/d/a"],
    ),
]


@pytest.mark.parametrize(("tool", "arguments", "prompt_text"), PLACED)
def test_the_user_is_told_where_from_the_servers_root(
    coding: Coding, tool: str, arguments: dict[str, Any], prompt_text: list[str]
) -> None:
    (coding.root / "prod/d").mkdir(parents=True)
    coding.policy(confirmationRequired=["writeFile", "deleteFile", "runCommand", "git"])

    async def scenario(coding: Coding) -> None:
        user, refused = User(False), coding.refuse if tool in CATALOG else coding.fail
        await refused(tool, {**arguments, "workspaceRoot": "prod"}, confirm=user.confirm)
        assert user.asked[0].text.splitlines()[2 : 2 + len(prompt_text)] == prompt_text

    play(coding, scenario)


def test_a_diff_tells_nobody_what_they_could_not_read(coding: Coding) -> None:
    (coding.root / "a").write_text("secret\n")
    coding.policy(confirmationRequired=["writeFile"])

    async def scenario(coding: Coding) -> None:
        agent = Caller(user="ada", token="t", scope=Scope(tools=frozenset({"writeFile"})))
        user = User(True)
        await coding.call("writeFile", {"path": "a", "contents": "new"}, caller=agent, confirm=user.confirm)
        assert "secret" not in user.asked[0].text and user.asked[0].path == "a"

    play(coding, scenario)


BROUGHT: list[tuple[str, dict[str, Any], list[str]]] = [
    ("writeFile", {"path": "a", "contents": "new\nlines\n"}, ["+new", "+lines", "10 bytes", "takes its place"]),
    ("writeFile", {"path": "b", "contents": "new\n"}, ["--- a/b", "+new"]),
    ("editFile", {"path": "a", "oldText": "secret", "newText": "new\nlines"}, ["-secret", "+new", "+lines"]),
    ("deleteFile", {"path": "a"}, []),
]


@pytest.mark.parametrize(("tool", "arguments", "prompt_text"), BROUGHT)
def test_the_user_sees_what_somebody_brings_who_may_not_read(
    coding: Coding, tool: str, arguments: dict[str, Any], prompt_text: list[str]
) -> None:
    (coding.root / "a").write_text("a secret and more of it\n")
    coding.policy(confirmationRequired=["writeFile", "deleteFile"])

    async def scenario(coding: Coding) -> None:
        agent = Caller(user="ada", token="t", scope=Scope(tools=frozenset({"writeFile", "editFile", "deleteFile"})))
        user = User(True)
        await coding.call(tool, arguments, caller=agent, confirm=user.confirm)
        (prompt,) = user.asked
        for text in prompt_text:
            assert text in prompt.text
        is_there = arguments["path"] == "a"
        assert ("What stands there now is not shown" in prompt.text) is is_there
        assert "more of it" not in prompt.text

    play(coding, scenario)


def test_what_somebody_brings_who_may_not_read_is_cut_and_says_so(coding: Coding) -> None:
    (coding.root / "a").write_text("old\n")
    coding.policy(confirmationRequired=["writeFile"])

    async def scenario(coding: Coding) -> None:
        agent = Caller(user="ada", token="t", scope=Scope(tools=frozenset({"writeFile"})))
        user = User(True)
        write = {"path": "a", "contents": "#\n" * 50_000 + "evil\n"}
        await coding.call("writeFile", write, caller=agent, confirm=user.confirm)
        text = user.asked[0].text
        assert "evil" not in text and "Only the beginning is shown. In all: 100005 bytes" in text

    play(coding, scenario)


SEARCHES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("searchFiles", {"query": "pass"}, ["Text: pass"]),
    (
        "searchFiles",
        {"query": "p.*d", "options": {"regex": True, "globs": ["*.py"]}},
        ["Pattern: p.*d", "Files: *.py"],
    ),
    ("globFiles", {"pattern": "**/*.key"}, ["Files: **/*.key"]),
]


@pytest.mark.parametrize(("tool", "arguments", "prompt_text"), SEARCHES)
def test_the_user_is_told_what_is_looked_for(
    coding: Coding, tool: str, arguments: dict[str, Any], prompt_text: list[str]
) -> None:
    coding.policy(confirmationRequired=["searchFiles", "globFiles", "listFiles"])

    async def scenario(coding: Coding) -> None:
        user = User(True)
        await coding.call(tool, arguments, confirm=user.confirm)
        for line in prompt_text:
            assert line in user.asked[0].text.splitlines()

    play(coding, scenario)
