"""Running commands and waiting approvals are activity of the server, so that no culler ends it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from jupyter_ext import activity
from jupyter_ext.app import WapExtension
from tests.support.agent_tokens import bearer, mint, use
from tests.support.http_runs import decide, ended, shell, start, until
from wap_kernel.runs import runner

pytestmark = pytest.mark.wap_settings(allow_unconfined=True)

WAITS = "touch begun; while [ ! -e go ]; do sleep 0.02; done"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity, "RECORD_SECONDS", 0.02)
    monkeypatch.setattr(runner, "UPKEEP_SECONDS", 0.02)


@pytest.fixture
def web_app(_often: None, jp_serverapp: Any) -> Any:
    jp_serverapp.web_app.settings["last_activity_times"].pop("wap", None)
    return jp_serverapp.web_app


async def _expect_moves(web_app: Any) -> None:
    """The time of the last activity moves, and moves again; that of a kernel or of a request does not move it."""
    for _ in range(3):
        before = web_app.last_activity()
        await until(lambda before=before: web_app.last_activity() > before)  # type: ignore[misc]


async def _expect_rest(web_app: Any, extension: WapExtension) -> None:
    await until(lambda: extension.current_activity() is None)
    before = web_app.last_activity()
    assert extension._activity is not None
    extension._activity.check()
    assert web_app.last_activity() == before


async def test_a_run_is_activity_while_it_runs(
    web_app: Any, fetch: Any, extension: WapExtension, jp_root_dir: Path
) -> None:
    run = (await start(fetch, shell(WAITS), wait=0)).body["runId"]
    await _expect_moves(web_app)
    (jp_root_dir / "go").touch()
    assert (await ended(fetch, run))["status"] == "completed"
    await _expect_rest(web_app, extension)


async def test_an_agents_call_is_activity_while_it_runs(
    web_app: Any, fetch: Any, extension: WapExtension, jp_root_dir: Path
) -> None:
    minted = await mint(fetch)
    call = asyncio.ensure_future(use(fetch, minted, "executeCommand", command=WAITS))
    await until((jp_root_dir / "begun").exists)
    await _expect_moves(web_app)
    (jp_root_dir / "go").touch()
    assert (await call).status == 200
    await _expect_rest(web_app, extension)


async def test_an_approval_is_activity_while_it_waits(
    web_app: Any, fetch: Any, extension: WapExtension, jp_root_dir: Path
) -> None:
    (jp_root_dir / "data").mkdir()
    waiting = (await start(fetch, shell("rm -rf data/", id="rm"), headers=bearer(await mint(fetch)))).body
    assert waiting["status"] == "awaiting_approval"
    await _expect_moves(web_app)
    assert extension.current_activity() == {"commands": 0, "runs": 0, "approvals": 1}
    assert (await decide(fetch, waiting["runId"], "denied", operationId="rm")).body["status"] == "completed"
    await _expect_rest(web_app, extension)
