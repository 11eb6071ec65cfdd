"""A call that waited for a person keeps its answer with its run: the one that it would have got at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.support.coding_environment import CLIENT, OPEN, WAIT, Coding, play
from wap_kernel.dialects.coding_environment.tools import TOOLS
from wap_kernel.model.policy import Policy
from wap_kernel.runs import recovery

ASKING = Policy(name="administrator", confirmation_required=tuple(TOOLS))
FAILING: list[tuple[str, dict[str, Any], str]] = [
    ("writeFile", {"path": "no/a.txt", "contents": "x", "options": {"createIfMissing": False}}, "FILE_NOT_FOUND"),
    ("writeFile", {"path": "folder", "contents": "x"}, "INVALID_ARGUMENT"),
    ("writeFile", {"path": "a.txt", "contents": "x", "options": {"expectedHash": "sha256:" + "0" * 64}}, "CONFLICT"),
    ("runCommand", {"command": "no-such-program"}, "EXECUTION_FAILED"),
    ("runCommand", {"command": "sh", "args": ["-c", "exec sleep 60"], "options": {"timeout": 1}}, "TIMEOUT"),
    ("editFile", {"path": "a.txt", "edits": [{"oldText": "none", "newText": "x"}]}, "EDIT_NOT_FOUND"),
    ("editFile", {"path": "none.txt", "edits": [{"oldText": "a", "newText": "x"}]}, "FILE_NOT_FOUND"),
    ("deleteFile", {"path": "b.txt", "workspaceRoot": "folder"}, "FILE_NOT_FOUND"),
]


def _files(coding: Coding) -> None:
    (coding.root / "folder").mkdir()
    (coding.root / "a.txt").write_text("a")


async def _encode_reply(coding: Coding, tool: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An error as a client sees it."""
    outcome = await coding.outcome(tool, arguments, **more)
    assert outcome.error is not None
    reply: dict[str, Any] = json.loads(outcome.text)
    return reply


def _code(reply: dict[str, Any]) -> str:
    return str(reply["error"]["data"]["code"])


def _lasting(reply: Any) -> Any:
    """Drop the durations."""
    if not isinstance(reply, dict):
        return reply
    return {name: _lasting(value) for name, value in reply.items() if name not in ("duration", "durationMs")}


@pytest.mark.parametrize(("tool", "arguments", "code"), FAILING)
def test_a_failure_is_kept_as_it_would_be_answered(
    coding: Coding, tool: str, arguments: dict[str, Any], code: str
) -> None:
    _files(coding)
    immediate: dict[str, Any] = {}

    async def directly(coding: Coding) -> None:
        immediate.update(await _encode_reply(coding, tool, arguments))

    async def approved(coding: Coding) -> None:
        waiting = asyncio.ensure_future(_encode_reply(coding, tool, arguments, wait=WAIT))
        run_id = await coding.waiting()
        await coding.decide(run_id, True)
        assert _lasting(await waiting) == _lasting(immediate)
        run = await coding.call("getRun", {"runId": run_id, "wait": WAIT})
        assert _lasting(run["response"]) == _lasting(immediate)

    play(coding, directly, policy=OPEN)
    assert _code(immediate) == code
    play(coding, approved, policy=ASKING)


@pytest.mark.parametrize("tool", ["runCommand", "deleteFile"])
@pytest.mark.parametrize("how", ["denied", "cancelled", "expired"])
def test_what_is_not_performed_is_told_in_the_same_form(coding: Coding, tool: str, how: str) -> None:
    _files(coding)
    arguments = {"command": "true"} if tool == "runCommand" else {"path": "a.txt"}

    async def scenario(coding: Coding) -> None:
        waiting = asyncio.ensure_future(_encode_reply(coding, tool, arguments, wait=WAIT))
        run_id = await coding.waiting()
        if how == "denied":
            await coding.decide(run_id, False)
        elif how == "cancelled":
            await coding.runner.cancel(run_id, CLIENT)
        else:
            run = await coding.runner.get(run_id, CLIENT)
            pending = coding.runner._store.pending_approval(run_id)
            assert pending is not None and recovery.expire_approval(coding.runner._services, run, pending)
            coding.runner._services.notifier.notify(run_id)
        reply = await waiting
        assert _code(reply) == ("PERMISSION_DENIED" if how == "denied" else "APPROVAL_REQUIRED")
        if tool == "runCommand":
            assert reply["error"]["code"] == (-32004 if how == "denied" else -32005)
        assert (await coding.call("getRun", {"runId": run_id}))["response"] == reply
        assert (coding.root / "a.txt").exists()

    play(coding, scenario, policy=ASKING)
