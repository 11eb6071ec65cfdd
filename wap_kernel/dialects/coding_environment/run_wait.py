"""Wait for a run, and withdraw from it when the waiting call is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import ApprovalRequired, WapError
from wap_kernel.runs.runner import Runner

T = TypeVar("T")


async def withdraw_on_cancel(wait: Awaitable[T], runner: Runner, run_id: str, caller: Caller) -> T:
    """Return the result of `wait`; a cancelled call withdraws from the run, which ends if nobody else waits."""
    try:
        return await wait
    except asyncio.CancelledError:
        # A task of its own: a cancelled call may be cancelled again wherever it awaits.
        await asyncio.shield(asyncio.ensure_future(_withdraw(runner, run_id, caller)))
        raise


async def withdraw_request(request: Awaitable[object], runner: Runner, caller: Caller) -> None:
    """Withdraw an approval that is being requested."""
    try:
        await request
    except ApprovalRequired as error:
        await _withdraw(runner, str(error.details["runId"]), caller)
    except WapError:
        pass  # the request failed: there is no approval


async def _withdraw(runner: Runner, run_id: str, caller: Caller) -> None:
    with suppress(WapError):
        await runner.withdraw(run_id, caller)
