"""Long commands over the Coding Environment: progress with the end of the output, and cancellation."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import pytest

from tests.support.coding_environment import CLIENT, Coding, play, until
from wap_kernel.model.run import RunStatus

SLOW = "import sys, time, pathlib\nprint('\\x1b[1mfirst', flush=True)\n"
UNTIL_REPORTED = SLOW + "while not pathlib.Path('go').exists(): time.sleep(0.01)\nprint('last')"
FOREVER = SLOW + "pathlib.Path('pid').write_text(str(__import__('os').getpid()))\ntime.sleep(600)"


def test_progress_tells_the_end_of_the_output(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        output: list[tuple[float, float | None, str]] = []

        async def progress(*messages: Any) -> None:
            output.append(messages)
            (coding.root / "go").touch()

        run = {"command": "python3", "args": ["-c", UNTIL_REPORTED]}
        answer = await coding.call("runCommand", run, progress=progress)
        assert answer["stdout"] == "\x1b[1mfirst\nlast\n"
        assert output[0][2] == "\\x1b[1mfirst\n" and output[0][0] >= 0

    play(coding, scenario)


def test_a_client_that_cannot_be_told_does_not_end_the_command(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        async def progress(*_: Any) -> None:
            (coding.root / "go").touch()
            raise ConnectionError

        run = {"command": "python3", "args": ["-c", UNTIL_REPORTED]}
        assert (await coding.call("runCommand", run, progress=progress))["exitCode"] == 0

    play(coding, scenario)


async def _ignore(*_: Any) -> None:
    pass


@pytest.mark.parametrize("progress", [None, _ignore])
def test_cancelling_a_call_ends_its_command(coding: Coding, progress: Callable[..., Awaitable[None]] | None) -> None:
    async def scenario(coding: Coding) -> None:
        run = {"command": "python3", "args": ["-c", FOREVER]}
        running = asyncio.ensure_future(coding.outcome("runCommand", run, progress=progress))
        pid = coding.root / "pid"
        await until(lambda: pid.exists() and pid.read_text() != "")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: not _is_alive(int(pid.read_text())))

    play(coding, scenario)


@pytest.mark.parametrize("progress", [None, _ignore])
def test_a_scope_that_lets_nobody_wait_ends_it_too(
    coding: Coding, progress: Callable[..., Awaitable[None]] | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The MCP SDK cancels so: whatever is awaited afterwards is cancelled as well."""

    async def scenario(coding: Coding) -> None:
        pid = coding.root / "pid"
        async with anyio.create_task_group() as group:
            run = {"command": "python3", "args": ["-c", FOREVER]}
            group.start_soon(partial(coding.outcome, "runCommand", run, progress=progress))
            await until(lambda: pid.exists() and pid.read_text() != "")
            group.cancel_scope.cancel()
        await until(lambda: not _is_alive(int(pid.read_text())))

    play(coding, scenario)
    gc.collect()
    assert [record for record in caplog.records if record.name == "asyncio"] == []


def test_cancelling_a_batch_ends_its_run(coding: Coding) -> None:
    async def scenario(coding: Coding) -> None:
        (coding.root / "slow.py").write_text(FOREVER)
        batch = {"operations": [{"type": "shell", "command": "python3 slow.py", "timeout": 600_000}]}
        running = asyncio.ensure_future(coding.outcome("runOperations", batch))
        pid = coding.root / "pid"
        await until(lambda: pid.exists() and pid.read_text() != "")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        (run,), _ = await coding.runner.page(CLIENT, None, 1, None)
        assert run.status is RunStatus.CANCELLED and not _is_alive(int(pid.read_text()))

    play(coding, scenario)


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
