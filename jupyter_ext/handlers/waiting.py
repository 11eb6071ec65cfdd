"""Answers that wait for a run: the events message, when the run has ended, waits for a person or the time is over."""

from __future__ import annotations

import asyncio

from wap_kernel.model.run import Run, RunStatus

from .base import WapHandler


class WaitingHandler(WapHandler):
    """A client that hangs up ends the waiting and never the run."""

    _waiting: asyncio.Future[Run] | None = None
    _is_gone = False

    async def answer_begun(self, run: Run, wait: float) -> None:
        """201 when it has ended, 202 while it goes on or waits for a person."""
        self.set_header("Location", f"{self.base_url}wap/runs/{run.id}")
        run = await self.settled(run, wait)
        self.set_status(201 if run.status.is_final else 202)
        await self.write_message(run)

    async def answer_gone_on(self, run: Run, wait: float) -> None:
        """200, but 202 while it runs."""
        run = await self.settled(run, wait)
        self.set_status(202 if run.status is RunStatus.RUNNING else 200)
        await self.write_message(run)

    async def settled(self, run: Run, wait: float) -> Run:
        if wait == 0 or run.status is not RunStatus.RUNNING or self._is_gone:
            return run
        self._waiting = asyncio.ensure_future(self.runner.wait(run.id, wait))
        try:
            return await self._waiting
        except asyncio.CancelledError:
            if not self._is_gone:
                raise
            return run
        finally:
            self._waiting = None

    async def write_message(self, run: Run) -> None:
        if self._is_gone:
            self.set_status(499, "Client closed the connection")  # for the access log; nobody reads the answer
            return
        self.finish(await self.runner.encoded(run, self.caller))

    def on_connection_close(self) -> None:
        super().on_connection_close()
        self._is_gone = True
        if self._waiting is not None:
            self._waiting.cancel()
