"""The rate limits of an agent token: counted alone, and over HTTP."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_ext.tokens.rate_limits import COMMAND_WINDOW_SECONDS, RateLimiter, RateLimits
from jupyter_ext.tokens.store import AgentTokenStore
from tests.support.agent_tokens import another_server, bearer, mint, use
from wap_kernel.model.caller import Caller
from wap_kernel.model.edits import DeleteLines, InsertLines, RegexReplace, ReplaceLines
from wap_kernel.model.errors import Conflict, RateLimited
from wap_kernel.model.git.operations import GitChange, GitRead, GitTransfer
from wap_kernel.model.operations import CopyFile, ModifyFile, Operation, ReadFile, RunCommand, WriteFile
from wap_kernel.state.directory import open_state_dir

COMMAND = RunCommand(command="true")
READ = ReadFile(path="a")


def _token(**limits: int) -> Any:
    return SimpleNamespace(id="t", limits=RateLimits(**limits), to_caller=lambda: Caller(token="t"))


async def _measure_copy(operation: CopyFile, _: Caller) -> int:
    return len(operation.source)


def _write(size: int) -> Operation:
    return WriteFile(path="a", content=b"x" * size)


class Clock:
    """Both clocks of `Rates`, in seconds since a UTC midnight."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, timezone.utc)


@asynccontextmanager
async def _rates(folder: Path, clock: Clock) -> AsyncIterator[RateLimiter]:
    tokens = AgentTokenStore(open_state_dir(str(folder / "state")), "w", logging.getLogger("test"))
    try:
        yield RateLimiter(tokens, _measure_copy, clock=clock, now=clock.now)
    finally:
        await tokens.close()


async def _do(rates: RateLimiter, token: Any, operation: Operation, *, fails: Exception | None = None) -> None:
    async with rates.admit(token, operation):
        if fails is not None:
            raise fails


async def _refused(rates: RateLimiter, token: Any, operation: Operation) -> tuple[str, int]:
    with pytest.raises(RateLimited) as caught:
        await _do(rates, token, operation)
    return caught.value.details["limit"], caught.value.details["retryAfterMs"]


@pytest.mark.parametrize(
    ("operation", "size"),
    [
        (WriteFile(path="a", content=b"\x00\xff"), 2),
        (ModifyFile(path="a", edits=(ReplaceLines(start_line=1, end_line=1, new_content="ä"),)), 2),
        (
            ModifyFile(
                path="a",
                edits=(
                    InsertLines(after_line=0, new_content="abc"),
                    DeleteLines(start_line=1, end_line=1),
                    RegexReplace(pattern="xxxx", replacement="yy"),
                ),
            ),
            5,
        ),
        (CopyFile(source="a", destination="b"), 0),
        (READ, 0),
        (COMMAND, 0),
    ],
)
def test_what_an_operation_brings(operation: Operation, size: int) -> None:
    assert operation.content_size == size


async def test_operations_at_once(tmp_path: Path) -> None:
    token = _token(concurrent_operations=2)
    async with _rates(tmp_path, Clock()) as rates:
        async with AsyncExitStack() as underway:
            for _ in range(2):
                await underway.enter_async_context(rates.admit(token, READ))
            assert await _refused(rates, token, READ) == ("concurrentOperations", 1000)
        for _ in range(3):
            await _do(rates, token, READ)
        with pytest.raises(Conflict):
            await _do(rates, token, READ, fails=Conflict("no"))
        async with AsyncExitStack() as underway:  # what failed has given its place back
            for _ in range(2):
                await underway.enter_async_context(rates.admit(token, READ))


async def test_commands_a_minute_slide(tmp_path: Path) -> None:
    token, clock = _token(commands_per_minute=2), Clock()
    async with _rates(tmp_path, clock) as rates:
        await _do(rates, token, COMMAND)
        clock.seconds = 20.0
        await _do(rates, token, COMMAND)
        clock.seconds = 45.0
        assert await _refused(rates, token, COMMAND) == ("commandsPerMinute", 15_000)
        await _do(rates, token, READ)
        clock.seconds = COMMAND_WINDOW_SECONDS
        await _do(rates, token, COMMAND)
        assert await _refused(rates, token, COMMAND) == ("commandsPerMinute", 20_000)


async def test_git_counts_as_a_command(tmp_path: Path) -> None:
    token = _token(commands_per_minute=2)
    async with _rates(tmp_path, Clock()) as rates:
        await _do(rates, token, GitRead(action="status"))
        await _do(rates, token, GitTransfer(action="fetch"))
        for operation in (GitChange(action="add"), COMMAND):
            assert await _refused(rates, token, operation) == ("commandsPerMinute", 60_000)


async def test_no_commands_at_all(tmp_path: Path) -> None:
    async with _rates(tmp_path, Clock()) as rates:
        assert await _refused(rates, _token(commands_per_minute=0), COMMAND) == ("commandsPerMinute", 60_000)


async def test_bytes_a_day_of_utc(tmp_path: Path) -> None:
    token, clock = _token(bytes_written_per_day=10), Clock()
    async with _rates(tmp_path, clock) as rates:
        await _do(rates, token, _write(6))
        clock.seconds = 86_400 - 1.5
        assert await _refused(rates, token, _write(5)) == ("bytesWrittenPerDay", 1500)
        await _do(rates, token, _write(4))
        clock.seconds = 86_400
        await _do(rates, token, _write(10))
        assert (await _refused(rates, token, _write(1)))[0] == "bytesWrittenPerDay"


async def test_a_copy_counts_as_what_it_copies(tmp_path: Path) -> None:
    token = _token(bytes_written_per_day=5)
    async with _rates(tmp_path, Clock()) as rates:
        copy = CopyFile(source="four", destination="b")
        await _do(rates, token, copy)
        assert (await _refused(rates, token, copy))[0] == "bytesWrittenPerDay"


async def test_bytes_survive_a_restart(tmp_path: Path) -> None:
    token, clock = _token(bytes_written_per_day=10), Clock()
    async with _rates(tmp_path, clock) as rates:
        await _do(rates, token, _write(10))
    async with _rates(tmp_path, clock) as rates:
        assert (await _refused(rates, token, _write(1)))[0] == "bytesWrittenPerDay"


async def test_what_was_not_written_is_given_back(tmp_path: Path) -> None:
    token, clock = _token(bytes_written_per_day=10), Clock()
    async with _rates(tmp_path, clock) as rates:
        for _ in range(3):
            with pytest.raises(Conflict):
                await _do(rates, token, _write(10), fails=Conflict("no"))
        await _do(rates, token, _write(10))


async def test_what_may_have_been_written_is_not(tmp_path: Path) -> None:
    token, clock = _token(bytes_written_per_day=10), Clock()
    async with _rates(tmp_path, clock) as rates:
        with pytest.raises(asyncio.CancelledError):
            async with rates.admit(token, _write(10)):
                raise asyncio.CancelledError
        assert (await _refused(rates, token, _write(1)))[0] == "bytesWrittenPerDay"


async def test_yesterdays_bytes_are_not_given_back_today(tmp_path: Path) -> None:
    token, clock = _token(bytes_written_per_day=10), Clock()
    async with _rates(tmp_path, clock) as rates:
        async with AsyncExitStack() as underway:
            await underway.enter_async_context(rates.admit(token, _write(10)))
            clock.seconds = 86_400
            await _do(rates, token, _write(8))
            failing = underway.pop_all()
        failure = Conflict("no")
        assert not await failing.__aexit__(Conflict, failure, None)
        assert (await _refused(rates, token, _write(3)))[0] == "bytesWrittenPerDay"


async def test_many_writers_do_not_pass_the_limit_together(tmp_path: Path) -> None:
    token = _token(bytes_written_per_day=50, concurrent_operations=100)
    async with _rates(tmp_path, Clock()) as rates:
        done = await asyncio.gather(*(_do(rates, token, _write(10)) for _ in range(20)), return_exceptions=True)
        assert [type(outcome) for outcome in done].count(RateLimited) == 15


async def test_tokens_are_counted_apart(tmp_path: Path) -> None:
    one, other = (SimpleNamespace(id=name, limits=RateLimits(commands_per_minute=1)) for name in "ab")
    async with _rates(tmp_path, Clock()) as rates:
        await _do(rates, one, COMMAND)
        await _do(rates, other, COMMAND)


# ------------------------------------------------------------------ over HTTP


async def test_bytes_over_http(fetch: Any, jp_root_dir: Any, extension: Any) -> None:
    minted = await mint(fetch, limits={"bytesWrittenPerDay": 10})
    assert minted["limits"]["bytesWrittenPerDay"] == 10
    assert (await use(fetch, minted, "writeFile", path="a", content="123456")).status == 200
    refused = await use(fetch, minted, "writeFile", path="b", content="12345")
    assert (refused.status, refused.code) == (429, "RATE_LIMITED")
    assert "10 bytes written a day" in refused.body["error"]
    assert refused.body["details"]["limit"] == "bytesWrittenPerDay"
    assert int(refused.headers["Retry-After"]) * 1000 >= refused.body["details"]["retryAfterMs"] > 0
    assert not (jp_root_dir / "b").exists()
    assert (await use(fetch, minted, "readFile", path="a")).status == 200
    # Base64 counts as what it stands for.
    fits = await use(fetch, minted, "writeFile", path="b", content="AAECAw==", encoding="base64")
    assert fits.status == 200
    # A person is not counted, and after a restart the count goes on.
    body = json.dumps({"path": "c", "content": "x" * 100})
    assert (await fetch("wap/api/writeFile", method="POST", body=body)).status == 200
    await extension.stop_extension()
    async with another_server(jp_root_dir) as ask:
        status, answer = await ask("POST", "wap/api/writeFile", {"path": "d", "content": "x"}, bearer(minted))
        assert (status, answer["code"]) == (429, "RATE_LIMITED")


async def test_a_copy_counts_over_http(fetch: Any, jp_root_dir: Any) -> None:
    minted = await mint(fetch, limits={"bytesWrittenPerDay": 10})
    (jp_root_dir / "six").write_text("123456")
    assert (await use(fetch, minted, "copyFile", source="missing", destination="a")).code == "FILE_NOT_FOUND"
    assert (await use(fetch, minted, "copyFile", source="six", destination="a")).status == 200
    refused = await use(fetch, minted, "copyFile", source="six", destination="b")
    assert (refused.code, refused.body["details"]["limit"]) == ("RATE_LIMITED", "bytesWrittenPerDay")
    assert not (jp_root_dir / "b").exists()


async def test_the_size_of_a_denied_file_does_not_show_in_the_limit(fetch: Any, jp_root_dir: Any) -> None:
    policy = {"filesystem": {"deniedPaths": ["secret"]}}
    minted = await mint(fetch, limits={"bytesWrittenPerDay": 1}, policy=policy)
    (jp_root_dir / "secret").write_text("more than the limit")
    assert (await use(fetch, minted, "copyFile", source="secret", destination="a")).code == "PERMISSION_DENIED"


async def test_commands_over_http(fetch: Any, monkeypatch: pytest.MonkeyPatch, extension: Any) -> None:
    recorded: list[tuple[str, str]] = []
    monkeypatch.setattr(
        extension.workspace, "audit_refusal", lambda tool, error, caller: recorded.append((tool, error.code.value))
    )
    minted = await mint(fetch, limits={"commandsPerMinute": 0})
    refused = await use(fetch, minted, "executeCommand", command="true")
    assert (refused.status, refused.body["details"]["limit"]) == (429, "commandsPerMinute")
    assert recorded == [("executeCommand", "RATE_LIMITED")]


async def test_operations_at_once_over_http(fetch: Any, jp_serverapp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    minted = await mint(fetch, limits={"concurrentOperations": 1})
    token = await jp_serverapp.web_app.settings["wap_tokens"].verify(minted["token"])
    async with jp_serverapp.web_app.settings["wap_rates"].admit(token, READ):
        refused = await use(fetch, minted, "getWorkspaceInfo")
        assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
    assert (await use(fetch, minted, "getWorkspaceInfo")).status == 200
