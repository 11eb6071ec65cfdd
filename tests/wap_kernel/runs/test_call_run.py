"""Single calls as runs: stored with the first change, ended with the call, recovered after a crash."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.run_workspace import PERSON, WAIT, Scene, fill_disk, play, until
from wap_kernel.dialects.wap import tools
from wap_kernel.files.write import Writer
from wap_kernel.model.errors import WapError
from wap_kernel.model.run import Run, RunStatus
from wap_kernel.policy import presets
from wap_kernel.runs import runner as runner_module

PROJECT = Path(__file__).parents[3]


async def call(scene: Scene, tool: str, **parameters: Any) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(
        await tools.call_tool(tool, json.dumps(parameters).encode(), scene.runner, PERSON)
    )
    return answer


async def list_runs(scene: Scene) -> list[Run]:
    return (await scene.runner.page(PERSON, None, 50, None))[0]


async def revert(scene: Scene, run_id: str) -> None:
    reverting = await scene.runner.wait((await scene.runner.revert(run_id, PERSON)).id, WAIT)
    assert reverting.status is RunStatus.COMPLETED


CALLS: dict[str, dict[str, Any]] = {
    "writeFile": {"path": "new/deep.txt", "content": "x", "createDirectories": True},
    "modifyFile": {"path": "data/x.txt", "operations": [{"type": "delete", "startLine": 1, "endLine": 1}]},
    "deleteFile": {"path": "data", "recursive": True},
    "moveFile": {"source": "data", "destination": "moved"},
    "copyFile": {"source": "data/x.txt", "destination": "copy"},
    "createDirectory": {"path": "a/b/c"},
    "executeCommand": {"command": "echo y > data/x.txt; mkdir made; echo z > made/f"},
}


@pytest.mark.parametrize("tool", CALLS)
def test_every_call_that_changes_something_is_a_run_that_can_be_reverted(scene: Scene, tool: str) -> None:
    scene.options["provider"] = "bubblewrap"
    before = scene.tree()

    async def scenario(scene: Scene) -> None:
        try:
            answer = await call(scene, tool, **CALLS[tool])
        except WapError as error:
            raise AssertionError(error.to_dict()) from None
        (run,) = await list_runs(scene)
        assert (run.id, run.status, run.options.call, run.position) == (answer["runId"], RunStatus.COMPLETED, tool, 1)
        assert scene.tree() != before
        await revert(scene, run.id)
        assert scene.tree() == before
        assert not scene.runner._services.active_calls

    play(scene, scenario)


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("readFile", {"path": "data/x.txt"}),
        ("executeCommand", {"command": "cat data/x.txt"}),
        ("searchFiles", {"paths": ["."], "query": "x", "type": "literal"}),
    ],
)
def test_a_call_that_changes_nothing_is_no_run(scene: Scene, tool: str, parameters: dict[str, Any]) -> None:
    scene.options["provider"] = "bubblewrap"

    async def scenario(scene: Scene) -> None:
        assert "runId" not in await call(scene, tool, **parameters)
        assert await list_runs(scene) == []

    play(scene, scenario)


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("writeFile", {"path": "data/x.txt", "content": "y", "expectedHash": f"sha256:{0:064}"}),
        ("deleteFile", {"path": "missing"}),
        ("moveFile", {"source": "missing", "destination": "there"}),
    ],
)
def test_a_call_that_failed_without_changes_leaves_no_run(scene: Scene, tool: str, parameters: dict[str, Any]) -> None:
    async def scenario(scene: Scene) -> None:
        with pytest.raises(WapError) as failed:
            await call(scene, tool, **parameters)
        assert "runId" not in failed.value.details
        assert await list_runs(scene) == []
        assert not scene.runner._services.active_calls

    play(scene, scenario)


def test_a_call_that_is_still_performed_is_not_recovered(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "UPKEEP_SECONDS", 0.01)
    write, begun, may_go_on, rounds = Writer.write, threading.Event(), threading.Event(), threading.Semaphore(0)

    def slow(self: Writer, *arguments: Any) -> Any:
        begun.set()
        assert may_go_on.wait(WAIT)
        return write(self, *arguments)

    monkeypatch.setattr(Writer, "write", slow)

    async def scenario(scene: Scene) -> None:
        recover = runner_module.recovery.recover_runs

        def counted(*arguments: Any) -> None:
            recover(*arguments)
            rounds.release()

        monkeypatch.setattr(runner_module.recovery, "recover_runs", counted)
        calling = asyncio.ensure_future(call(scene, "writeFile", path="made", content="x"))
        assert await asyncio.to_thread(begun.wait, WAIT)
        (run,) = await list_runs(scene)
        assert run.status is RunStatus.RUNNING
        for _ in range(5):
            assert await asyncio.to_thread(rounds.acquire, timeout=WAIT)
        assert (await scene.runner.get(run.id, PERSON)).status is RunStatus.RUNNING
        may_go_on.set()
        assert (await calling)["runId"] == run.id
        assert (await scene.runner.get(run.id, PERSON)).status is RunStatus.COMPLETED

    play(scene, scenario)


def test_a_call_whose_end_cannot_be_stored_is_recovered(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "UPKEEP_SECONDS", 0.02)

    async def scenario(scene: Scene) -> None:
        store = scene.runner._store
        monkeypatch.setattr(store, "change_status", fill_disk(store.change_status, 2))
        answer = await call(scene, "writeFile", path="made", content="x")  # it is written, so it is no error
        assert not scene.runner._services.active_calls
        run = await scene.runner._wait_for_status(answer["runId"], WAIT, lambda status: status.is_final)
        assert run.status is RunStatus.ERROR
        await revert(scene, run.id)
        assert "made" not in scene.tree()

    play(scene, scenario)


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.support.run_workspace import Scene, play
from tests.wap_kernel.runs.test_call_run import call
from wap_kernel.runs.call_run import CallRun

def die(self, *_):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(CallRun, sys.argv[2], die)
folder = Path(sys.argv[1])
scene = Scene(folder / "ws", folder / "state", provider="bubblewrap")

async def scenario(scene):
    await call(scene, sys.argv[3], **eval(sys.argv[4]))

play(scene, scenario)
"""


@pytest.mark.parametrize("tool", ["writeFile", "executeCommand"])
@pytest.mark.parametrize("moment", ["begin", "complete"])
def test_a_call_that_is_killed_is_recovered(scene: Scene, tmp_path: Path, tool: str, moment: str) -> None:
    """Before its first change nothing is stored; after its last one the run says that its process ended."""
    before = scene.tree()
    arguments = [str(tmp_path), moment, tool, repr(CALLS[tool])]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        timeout=WAIT,
        check=False,
        capture_output=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()

    async def scenario(scene: Scene) -> None:
        runs = await list_runs(scene)
        if moment == "begin":
            assert runs == []
        else:
            (run,) = runs
            assert run.status is RunStatus.ERROR
            message = await scene.message(await scene.runner.get(run.id, PERSON))
            assert "process that executed this run ended" in message["events"][-1]["message"]
            await revert(scene, run.id)
        assert scene.tree() == before

    scene.options["provider"] = "bubblewrap"
    play(scene, scenario)


# -- what a call leaves in its layer


async def begin(scene: Scene, command: str) -> asyncio.Future[dict[str, Any]]:
    """Call a command, and wait until it has put the file `begun` into its layer."""
    calling = asyncio.ensure_future(call(scene, "executeCommand", command=command))
    await until(lambda: any((scene.state / "layers").glob("*/upper/begun")))
    return calling


def test_a_cancelled_call_can_be_applied_by_a_person(scene: Scene) -> None:
    scene.options["provider"] = "bubblewrap"
    before = scene.tree()

    async def scenario(scene: Scene) -> None:
        calling = await begin(scene, "echo y > made; touch begun; sleep 60")
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        run = await _ended_call(scene)
        assert (run.status, scene.tree()) == (RunStatus.ERROR, before)
        applied = await scene.runner.wait((await scene.runner.apply(run.id, ["made"], PERSON)).id, WAIT)
        assert applied.status is RunStatus.COMPLETED
        assert (scene.root / "made").read_text() == "y\n"

    play(scene, scenario)


async def _ended_call(scene: Scene) -> Run:
    """The run of a call that nobody waits for any more."""

    async def poll() -> Run:
        while not (runs := await list_runs(scene)) or not runs[0].status.is_final:  # noqa: ASYNC110 - nobody waits for it
            await asyncio.sleep(0.01)
        return runs[0]

    return await asyncio.wait_for(poll(), WAIT)


def test_a_conflict_of_a_call_is_named_and_can_be_applied(scene: Scene) -> None:
    scene.options |= {"provider": "bubblewrap", "policy": presets.load_preset("standard")}
    (scene.root / "go").write_text("")

    async def scenario(scene: Scene) -> None:
        command = "echo command > data/x.txt; touch begun; until [ -s go ]; do sleep 0.01; done"
        calling = await begin(scene, command)
        (scene.root / "data" / "x.txt").write_text("person\n")
        (scene.root / "go").write_text("now")
        answer = await calling
        assert answer["conflicts"] == ["data/x.txt"]
        assert (scene.root / "data" / "x.txt").read_text() == "person\n"
        applied = await scene.runner.apply(answer["runId"], None, PERSON)
        await scene.runner.wait(applied.id, WAIT)
        assert (scene.root / "data" / "x.txt").read_text() == "command\n"
        again = await scene.runner.apply(answer["runId"], None, PERSON)
        message = await scene.message(await scene.runner.wait(again.id, WAIT))
        assert message["events"][-1]["code"] == "NOT_FOUND"

    play(scene, scenario)
