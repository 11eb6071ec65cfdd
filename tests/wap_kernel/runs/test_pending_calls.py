"""Single calls that wait for approval store an answer in the form of their dialect, however and wherever they end."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from typing import Any

import pytest

from tests.support.run_workspace import ASKING, PERSON, WAIT, Scene, play, until
from tests.wap_kernel.runs.test_recovery import GONE, ended, execute
from wap_kernel.dialects.coding_environment import tool_call as coding_call
from wap_kernel.dialects.coding_environment.rpc_errors import RpcError
from wap_kernel.dialects.registry import ENCODERS
from wap_kernel.dialects.tool_interface import tool_call as interface_call
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.model.errors import PARTIAL_EFFECT_HINT, ApprovalRequired
from wap_kernel.model.operations import Operation, RunCommand
from wap_kernel.model.run import RunStatus
from wap_kernel.policy.parse import merge_policy
from wap_kernel.runs import recovery
from wap_kernel.runs import runner as runner_module
from wap_kernel.runs.approval_requests import ApprovalRequests
from wap_kernel.runs.decisions import Decision
from wap_kernel.runs.runner import Runner

NOTHING = "Nothing was done. Call again if you still need it: a person is asked again."
SCRIPT = "echo begun; touch begun; while [ ! -e go ]; do sleep 0.02; done; echo done > made"
Call = Callable[[Runner], Awaitable[object]]
BODY = json.dumps({"command": "sh script"}).encode()
CALLS: dict[str, Call] = {
    "wap": lambda runner: wap.call_tool("executeCommand", BODY, runner, PERSON),
    "tool_interface": lambda runner: interface_call.call_tool("bash", BODY, runner, PERSON),
    "coding_environment": lambda runner: _call_coding_tool(runner),
}


async def _call_coding_tool(runner: Runner) -> object:
    outcome = await coding_call.call_tool("runCommand", {"command": "sh", "args": ["script"]}, runner, PERSON)
    if outcome.error is not None:
        raise outcome.error
    return outcome


CODES = {"APPROVAL_REQUIRED": -32005, "PERMISSION_DENIED": -32004, "EXECUTION_FAILED": -32603}
"""Of the catalog of the coding environment, for commands."""


@pytest.fixture(autouse=True)
def _asks(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "UPKEEP_SECONDS", 0.05)
    scene.options["policy"] = merge_policy(ASKING, {"shell": {"rules": [{"command": "sh", "verdict": "ask"}]}})
    (scene.root / "script").write_text(SCRIPT)


@pytest.fixture(params=sorted(CALLS))
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def ask(scene: Scene, dialect: str) -> dict[str, Any]:
    """The run and the approval of a call that waits."""
    with pytest.raises((ApprovalRequired, RpcError)) as asked:
        await CALLS[dialect](scene.runner)
    error = asked.value
    return dict(error.data if isinstance(error, RpcError) else error.details)


async def approve(scene: Scene, asked: dict[str, Any]) -> None:
    await scene.runner.decide(asked["runId"], Decision(True, approval_id=asked["approvalId"]), PERSON)


async def kept(scene: Scene, asked: dict[str, Any], status: RunStatus) -> dict[str, Any]:
    run = await ended(scene, asked["runId"])
    assert (run.status, run.response is not None) == (status, True)
    return dict(run.response)


def check(dialect: str, response: dict[str, Any], code: str, text: str, hint: str) -> None:
    """Assert that the response is the refusal, in the form of the dialect."""
    if dialect != "coding_environment":
        assert response["code"] == code
        assert response["error"].startswith(text) and hint in response["error"]
        return
    error = response["error"]
    assert (error["code"], error["data"]["code"]) == (CODES[code], code)
    assert error["message"].startswith(text) and hint in error["data"]["hint"]


async def begun(scene: Scene) -> None:
    await until((scene.root / "begun").exists)


# -- that were not begun


def test_nobody_decided(scene: Scene, dialect: str) -> None:
    async def scenario(scene: Scene) -> None:
        asked = await ask(scene, dialect)
        response = await kept(scene, asked, RunStatus.CANCELLED)
        check(
            dialect, response, "APPROVAL_REQUIRED", "The approval expired: no person decided within 0 minutes.", NOTHING
        )

    play(scene, scenario, approval_seconds=0.0)


def test_cancelled_while_it_waits(scene: Scene, dialect: str) -> None:
    async def scenario(scene: Scene) -> None:
        asked = await ask(scene, dialect)
        await scene.runner.cancel(asked["runId"], PERSON)
        response = await kept(scene, asked, RunStatus.CANCELLED)
        check(dialect, response, "APPROVAL_REQUIRED", "The run was cancelled.", NOTHING)

    play(scene, scenario)


def test_denied(scene: Scene, dialect: str) -> None:
    """With words that hold what looks like a credential: they are told without it."""
    secret = "ghp_" + 36 * "a"

    async def scenario(scene: Scene) -> None:
        asked = await ask(scene, dialect)
        no = Decision(False, approval_id=asked["approvalId"], reason=f"Not with {secret}.")
        await scene.runner.decide(asked["runId"], no, PERSON)
        response = await kept(scene, asked, RunStatus.COMPLETED)
        check(dialect, response, "PERMISSION_DENIED", "Not with ", "")
        assert secret not in json.dumps(response)

    play(scene, scenario)


def test_cancelled_before_there_was_a_thread_for_it(
    scene: Scene, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(scene: Scene) -> None:
        asked = await ask(scene, dialect)
        on_thread = scene.runner.workspace.on_thread

        async def busy(kind: type[Operation], work: Callable[[], Any]) -> Any:
            if kind is RunCommand:
                await asyncio.Event().wait()
            return await on_thread(kind, work)

        monkeypatch.setattr(scene.runner.workspace, "on_thread", busy)
        await approve(scene, asked)
        await scene.runner.cancel(asked["runId"], PERSON)
        response = await kept(scene, asked, RunStatus.CANCELLED)
        check(dialect, response, "APPROVAL_REQUIRED", "The run was cancelled.", NOTHING)

    play(scene, scenario)


def test_cancelled_while_the_approval_is_checked(scene: Scene, dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    is_checking, may_go_on = threading.Event(), threading.Event()
    check_paths = ApprovalRequests.changed_paths

    def slow(self: ApprovalRequests, *arguments: Any, **options: Any) -> list[str]:
        if options.get("is_decided"):
            is_checking.set()
            assert may_go_on.wait(WAIT)
        return check_paths(self, *arguments, **options)

    monkeypatch.setattr(ApprovalRequests, "changed_paths", slow)

    async def scenario(scene: Scene) -> None:
        asked = await ask(scene, dialect)
        await approve(scene, asked)
        assert await asyncio.to_thread(is_checking.wait, WAIT)
        cancelling = asyncio.ensure_future(scene.runner.cancel(asked["runId"], PERSON))
        await until(lambda: scene.runner._executions[asked["runId"]][0].cancel.requested)
        may_go_on.set()
        await cancelling
        response = await kept(scene, asked, RunStatus.CANCELLED)
        check(dialect, response, "EXECUTION_FAILED", "The command was ended before it was done.", "")
        assert not (scene.root / "begun").exists()

    play(scene, scenario)


# -- on layers


def test_a_call_that_has_run_on_its_layer_is_answered_with_its_output(scene: Scene, dialect: str) -> None:
    """Its effect is applied with the decision, by another process; the sweep leaves its layer until then."""
    scene.options["provider"] = "bubblewrap"
    (scene.root / "script").write_text("echo begun; echo done > made")
    asked: list[dict[str, Any]] = []

    async def before(scene: Scene) -> None:
        asked.append(await ask(scene, dialect))
        assert not (scene.root / "made").exists()

    async def after(scene: Scene) -> None:
        recovery.sweep_layers(scene.runner._services)
        (scene.root / "script").write_text("echo another")
        await approve(scene, asked[0])
        response = await kept(scene, asked[0], RunStatus.COMPLETED)
        assert "begun\n" in (response.get("stdout"), response.get("output")), response
        assert (scene.root / "made").read_text() == "done\n"
        await until(lambda: os.listdir(scene.state / "layers") == [])  # a thread removes its files

    play(scene, before)
    for layer in (scene.state / "layers").iterdir():
        os.utime(layer, (0, 0))  # long ago
    play(scene, after)


def test_the_same_call_twice_waits_for_one_approval_and_one_layer(scene: Scene, dialect: str) -> None:
    scene.options["provider"] = "bubblewrap"
    (scene.root / "script").write_text("echo done > made")

    async def scenario(scene: Scene) -> None:
        first, second = await ask(scene, dialect), await ask(scene, dialect)
        assert first == second
        await until(lambda: len(os.listdir(scene.state / "layers")) == 1)

    play(scene, scenario)


# -- that were


def test_cancelled_while_it_runs(scene: Scene, dialect: str) -> None:
    async def scenario(scene: Scene) -> None:
        asked = await ask(scene, dialect)
        await approve(scene, asked)
        await begun(scene)
        await scene.runner.cancel(asked["runId"], PERSON)
        response = await kept(scene, asked, RunStatus.CANCELLED)
        check(dialect, response, "EXECUTION_FAILED", "The command was ended before it was done.", PARTIAL_EFFECT_HINT)

    play(scene, scenario)


def test_its_process_died_while_it_ran(scene: Scene, dialect: str) -> None:
    async def scenario(scene: Scene) -> None:
        asked = await ask(scene, dialect)
        execute(scene, GONE)
        response = await kept(scene, asked, RunStatus.ERROR)
        check(
            dialect, response, "EXECUTION_FAILED", "The process that executed this run ended while", PARTIAL_EFFECT_HINT
        )

    play(scene, scenario)


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_its_process_died_when_it_was_done(
    scene: Scene, dialect: str, is_cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But before that was said: what it answered was stored with its event."""
    (scene.root / "go").touch()

    async def scenario(scene: Scene) -> None:
        asked = await ask(scene, dialect)
        store = scene.runner._store
        with monkeypatch.context() as patched:
            patched.setattr(store, "change_status", partial(_only_until_it_ends, store.change_status))
            await approve(scene, asked)
            await until(lambda: not scene.runner.running)
        if is_cancelled:
            execute(scene, "UPDATE runs SET cancel_requested = 1")
        execute(scene, GONE)
        response = await kept(scene, asked, RunStatus.CANCELLED if is_cancelled else RunStatus.COMPLETED)
        assert "begun\n" in (response.get("stdout"), response.get("output")), response
        assert (scene.root / "made").exists()

    play(scene, scenario)


def _only_until_it_ends(
    change: Callable[..., bool], run: Any, expected: RunStatus, status: RunStatus, **more: Any
) -> bool:
    return False if status.is_final else change(run, expected, status, **more)


# -- what a process knows


@pytest.mark.parametrize("name", sorted(ENCODERS))
def test_every_dialect_with_single_calls_is_known(name: str) -> None:
    assert sorted(ENCODERS) == sorted(CALLS)
    assert name == import_module(ENCODERS[name].module).DIALECT


def test_none_is_imported_before_one_of_its_calls_ends() -> None:
    script = "import sys, wap_kernel.dialects.registry; print(*(name for name in sys.modules if '.dialects.' in name))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    imported = set(done.stdout.split())
    assert "wap_kernel.dialects.registry" in imported
    assert imported.isdisjoint(encoder.module for encoder in ENCODERS.values())
