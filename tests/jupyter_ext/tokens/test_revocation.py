"""A revoked token: its commands, its waiting runs and its streams end, on every server of the folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jupyter_ext.handlers.base import RATE_LIMITER, REVOCATIONS
from jupyter_ext.tokens.revocation import RevocationWatch
from tests.support.agent_tokens import another_server, bearer, mint, use
from tests.support.http_runs import Events, ended, shell, start, until
from tests.support.processes import is_alive
from wap_kernel.model.limits import MAX_STREAMS_PER_TOKEN

pytestmark = pytest.mark.wap_settings(allow_unconfined=True)

DEAF = "trap '' TERM; echo $$ > {name}; while :; do sleep 0.05; done"
"""A command that only KILL ends."""
ASKS = "rm -rf data/"

Revoke = Callable[[str], Awaitable[None]]
Open = Callable[..., Awaitable[Events]]


@pytest.fixture
def revocations(jp_serverapp: Any) -> RevocationWatch:
    found: RevocationWatch = jp_serverapp.web_app.settings[REVOCATIONS]
    return found


@pytest.fixture
def listen(http_server_client: Any, jp_base_url: str) -> Any:
    opened: list[Events] = []

    async def listen(path: str, **headers: str) -> Events:
        opened.append(await Events.open(http_server_client.get_http_port(), f"{jp_base_url}{path}", headers))
        return opened[-1]

    yield listen
    for events in opened:
        events.close()


@asynccontextmanager
async def revoking(by: str, jp_fetch: Any, root: Path) -> AsyncIterator[Revoke]:
    """Revoke tokens at this server, or at another one on the same folder."""
    if by == "this":

        async def revoke(token: str) -> None:
            assert (await jp_fetch(f"wap/tokens/{token}", method="DELETE")).code == 204

        yield revoke
        return
    async with another_server(root) as ask:

        async def revoke_there(token: str) -> None:
            assert (await ask("DELETE", f"wap/tokens/{token}"))[0] == 204

        yield revoke_there


def _read_pid(path: Path) -> int:
    return int(path.read_text() or 0) if path.exists() else 0


@pytest.mark.parametrize("by", ["this", "another"])
async def test_everything_of_a_revoked_token_ends(
    fetch: Any, jp_fetch: Any, listen: Open, jp_root_dir: Path, revocations: RevocationWatch, by: str
) -> None:
    (jp_root_dir / "data").mkdir()
    async with revoking(by, jp_fetch, jp_root_dir) as revoke:
        minted, other = await mint(fetch), await mint(fetch)
        waiting = (await start(fetch, shell(ASKS), headers=bearer(minted))).body
        running = (await start(fetch, shell(DEAF.format(name="run")), headers=bearer(minted), wait=0)).body["runId"]
        stays = (await start(fetch, shell(ASKS), headers=bearer(other))).body
        call = asyncio.ensure_future(use(fetch, minted, "executeCommand", command=DEAF.format(name="call")))
        paths = ("wap/events", f"wap/runs/{running}/stream", f"wap/runs/{waiting['runId']}/stream")
        streams = [await listen(path, **bearer(minted)) for path in paths]
        await until(lambda: all(_read_pid(jp_root_dir / name) for name in ("run", "call")))
        pids = [_read_pid(jp_root_dir / name) for name in ("run", "call")]
        assert (waiting["status"], stays["status"]) == ("awaiting_approval", "awaiting_approval")

        await revoke(minted["id"])

        assert (await asyncio.wait_for(call, 60)).code == "UNAUTHENTICATED"
        assert (await ended(fetch, running))["status"] == "cancelled"
        for stream in streams:
            await stream.rest()
        assert not any(map(is_alive, pids))
        assert (await fetch(f"wap/runs/{waiting['runId']}")).body["status"] == "cancelled"
        assert (await fetch(f"wap/runs/{stays['runId']}")).body["status"] == "awaiting_approval"
        # The other token has a run that waits, so its revocations are still looked for.
        assert revocations.is_polling
        await revoke(other["id"])
        await until(lambda: not revocations.is_polling)
        assert (await fetch(f"wap/runs/{stays['runId']}")).body["status"] == "cancelled"


async def test_nothing_is_polled_without_work(fetch: Any, revocations: RevocationWatch) -> None:
    minted = await mint(fetch)
    assert not revocations.is_polling
    await use(fetch, minted, "getWorkspaceInfo")
    await until(lambda: not revocations.is_polling)
    unsubscribe = revocations.watch(minted["id"], lambda: None)
    assert revocations.is_polling
    unsubscribe()
    unsubscribe()
    await until(lambda: not revocations.is_polling)


async def test_a_watch_is_called_once_and_a_failing_one_keeps_no_other_from_it(
    fetch: Any, jp_fetch: Any, revocations: RevocationWatch
) -> None:
    minted = await mint(fetch)
    called: list[str] = []

    def fail() -> None:
        raise RuntimeError("no")

    revocations.watch(minted["id"], fail)
    revocations.watch(minted["id"], lambda: called.append("first"))
    revocations.watch(minted["id"], lambda: called.append("never"))()
    for _ in range(2):
        await jp_fetch(f"wap/tokens/{minted['id']}", method="DELETE")
    assert called == ["first"]


async def test_the_streams_of_a_token_are_bounded(fetch: Any, listen: Open, jp_serverapp: Any) -> None:
    minted, other = await mint(fetch), await mint(fetch)
    streams = [await listen("wap/events", **bearer(minted)) for _ in range(MAX_STREAMS_PER_TOKEN)]
    refused = await fetch("wap/events", headers=bearer(minted))
    assert (refused.status, refused.code, refused.body["details"]["limit"]) == (429, "RATE_LIMITED", "openStreams")
    assert (await listen("wap/events", **bearer(other))).status == 200
    streams[0].close()
    limiter = jp_serverapp.web_app.settings[RATE_LIMITER]
    await until(lambda: limiter.count_streams(minted["id"]) < MAX_STREAMS_PER_TOKEN)
    assert (await listen("wap/events", **bearer(minted))).status == 200
