"""Execute one cell: its lines in order, each in a thread, so that the kernel's event loop can receive an interrupt.

An interrupt keeps the thread from starting anything else and cancels the active run from outside; the thread sees the
run end. A call that only reads (a search) is left alone, and its result is dropped.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from wap_kernel.client.background import run_in_thread
from wap_kernel.client.render import Allowance
from wap_kernel.client.results import ClientResult, RunResult
from wap_kernel.client.workspace_client import WorkspaceClient
from wap_kernel.model.errors import WapError
from wap_kernel.notebook.kernel.connection import Connection
from wap_kernel.notebook.kernel.parameters import Parameters
from wap_kernel.notebook.language import Line, LiveCard, execute_line, parse_script
from wap_kernel.notebook.language.commands import LISTING_COMMANDS

PREFIX = ""
"""The text before a line in this kernel: none."""
STOP_SECONDS = 15.0
"""Seconds to wait for an interrupted run; a command has 5 to end by itself."""
POLL_SECONDS = 0.05

Publish = Callable[[str, dict[str, Any]], None]
"""A function that sends a message of this type and content to the front end."""
T = TypeVar("T")


class CellInterrupted(Exception):
    """The person has interrupted the cell; the message says what may still be running."""


class CellExecution:
    """The execution of one cell.

    `publish` is called on the event loop only. `text` is the result of the last line as plain text.
    """

    def __init__(self, connection: Connection, publish: Publish, number: int, parameters: Parameters) -> None:
        self.text: str | None = None
        self.ended = threading.Event()
        self._connection = connection
        self._parameters = parameters
        self._send = publish
        self._number = number
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._stop = asyncio.Event()
        self._is_ending = False
        self._allowance = Allowance()

    def interrupt(self) -> None:
        """Interrupt the cell, from any thread or a signal; a second interrupt does not wait for the run to end."""
        self._loop.call_soon_threadsafe(self._stop.set)

    def end(self) -> None:
        """Interrupt the cell because the kernel shuts down, unless Jupyter has interrupted it before."""
        if not self._is_ending:
            self.interrupt()

    async def run(self, code: str) -> None:
        """Execute the lines of the cell; raise WapError for a failure, CellInterrupted for an interrupt."""
        try:
            lines = [] if self._parameters.read_cell(code) else parse_script(code, self._parameters.fill_line)
            for position, line in enumerate(lines, 1):
                try:
                    await self._execute_line(line, is_last=position == len(lines))
                except WapError as error:
                    if line.row is not None:
                        error.details.setdefault("line", line.row)
                    raise
            if lines:
                await self._show_notice(lines)
        finally:
            self.ended.set()

    async def _execute_line(self, line: Line, *, is_last: bool) -> None:
        client = await self._unless_stopped(self._connection.client)
        card = _Card(self._publish, is_live=not line.options.quiet)
        answer = await self._run_line(line, client, card)
        self._show(line, answer, card, is_last=is_last)
        if self._stop.is_set():
            raise CellInterrupted
        if line.options.raises and isinstance(answer, RunResult):
            answer.raise_for_problems()

    async def _show_notice(self, lines: list[Line]) -> None:
        """Publish a notice below the cell where runs of agents have begun to wait for approval."""
        if all(line.options.quiet or line.command.name in LISTING_COMMANDS for line in lines):
            return
        with suppress(WapError):  # the next cell reports a server that has gone away
            client = await self._unless_stopped(self._connection.client)
            notice = await self._unless_stopped(client.find_new_approvals)
            if notice is not None:
                data = self._allowance.bundle(notice, prefix=PREFIX)
                self._publish("display_data", {"data": data, "metadata": {}, "transient": {}})

    async def _unless_stopped(self, work: Callable[[], T]) -> T:
        working = start_in_thread(work)
        if not await self._is_done(working):
            raise CellInterrupted
        return await working

    async def _run_line(self, line: Line, client: WorkspaceClient, card: _Card) -> ClientResult:
        before = client.last
        working = start_in_thread(lambda: execute_line(line, client, card.live, parameters=self._parameters.values))
        if not await self._is_done(working):
            await self._end(working, client, before, card)
            run = None if client.last is before else client.last
            if run is not None:
                self._draw(run, card)
            is_known = not card.live.has_begun or (run is not None and run.is_over)
            raise CellInterrupted("" if is_known else f"The run may still be going on: {PREFIX}runs -s running")
        return await working

    async def _is_done(self, working: asyncio.Future[T], seconds: float | None = None) -> bool:
        """Return whether the work ended before an interrupt and within `seconds`."""
        stopping = asyncio.ensure_future(self._stop.wait())
        either: set[asyncio.Future[Any]] = {working, stopping}
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        return working.done()

    async def _end(
        self, working: asyncio.Future[ClientResult], client: WorkspaceClient, before: RunResult | None, card: _Card
    ) -> None:
        """Cancel the run of this line as soon as its id is known, and wait for its end.

        After a second interrupt, or when the time is up, the thread cancels the run itself.
        """
        self._is_ending = True
        self._stop.clear()
        card.live.stop()
        deadline = self._loop.time() + STOP_SECONDS
        cancelled = None
        while not self._stop.is_set() and self._loop.time() < deadline:
            run = client.last
            if run is before:
                if not card.live.has_begun:  # the line only reads, or has not started a run
                    return
            elif run is not None and run.run_id != cancelled:
                cancelled = run.run_id
                await self._is_done(start_in_thread(partial(client.cancel, cancelled)), deadline - self._loop.time())
            if await self._is_done(working, POLL_SECONDS):
                working.exception()  # an error no longer matters: the line was interrupted
                return

    # -- output

    def _show(self, line: Line, answer: ClientResult, card: _Card, *, is_last: bool) -> None:
        """Publish a run as a display, which may be drawn already, and another result of the last line as the result."""
        if line.options.quiet and (not isinstance(answer, RunResult) or answer.ok):
            return
        if isinstance(answer, RunResult):
            self._draw(answer, card)
            return
        content = self._render(answer)
        if is_last:
            self._publish("execute_result", {**content, "execution_count": self._number})
        elif content["data"]["text/plain"]:  # else the allowance of the cell is used up
            self._publish("display_data", {**content, "transient": {}})

    def _draw(self, run: RunResult, card: _Card) -> None:
        card.draw(self._render(run)["data"])

    def _render(self, answer: ClientResult) -> dict[str, Any]:
        data = self._allowance.bundle(answer, prefix=PREFIX)
        self.text = data.get("text/plain", self.text)
        return {"data": data, "metadata": {}}

    def _publish(self, kind: str, content: dict[str, Any]) -> None:
        """Send a message in order, from any thread; threads that outlive the cell send nothing."""

        def send() -> None:
            if not self.ended.is_set():
                self._send(kind, content)

        if threading.get_ident() == self._thread:
            send()
        else:
            with suppress(RuntimeError):  # the loop is closed, and with it the front end
                self._loop.call_soon_threadsafe(send)


class _Card:
    """A display that is updated while a run goes, and when it has ended."""

    def __init__(self, publish: Publish, *, is_live: bool) -> None:
        self.live = LiveCard(self.draw if is_live else lambda _: None, prefix=PREFIX)
        self._publish = publish
        self._id = uuid.uuid4().hex
        self._is_drawn = False

    def draw(self, data: dict[str, str]) -> None:
        kind = "update_display_data" if self._is_drawn else "display_data"
        self._is_drawn = True
        self._publish(kind, {"data": data, "metadata": {}, "transient": {"display_id": self._id}})


def start_in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """Start `work` in a daemon thread and return a future for the event loop."""
    future = asyncio.wrap_future(run_in_thread(work, "wap-cell"))
    future.add_done_callback(
        lambda done: done.cancelled() or done.exception()
    )  # an interrupted caller does not read it
    return future
