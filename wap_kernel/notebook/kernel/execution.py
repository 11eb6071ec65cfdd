"""One cell: its lines in order, each in a thread, so that the kernel's event loop can hear an interrupt meanwhile.

An interrupt tells the thread to begin nothing any more, and cancels the run that is under way from outside; the thread
sees it end. What only looks (a search) is left alone, and nobody waits for its answer.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from wap_kernel.client.background import started
from wap_kernel.client.render import Allowance
from wap_kernel.client.results import Answer, RunResult
from wap_kernel.client.workspace_client import Hands
from wap_kernel.model.errors import WapError
from wap_kernel.notebook.kernel.connection import Connection
from wap_kernel.notebook.language import Line, LiveCard, parse_script, perform

PREFIX = ""
"""What stands before a line in this kernel."""
STOP_SECONDS = 15.0
"""A command is given 5 to end by itself."""
LOOK_SECONDS = 0.05

Publish = Callable[[str, dict[str, Any]], None]
"""Sends a message of this type and content to whoever shows the cell."""
T = TypeVar("T")


class Interrupted(Exception):
    """The person has interrupted the cell; says what they should know of it."""


class Execution:
    """`publish` is called on the event loop only. `text` is what the last line answered, as plain text."""

    def __init__(self, connection: Connection, publish: Publish, number: int) -> None:
        self.text: str | None = None
        self.ended = threading.Event()
        self._connection = connection
        self._send = publish
        self._number = number
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._stop = asyncio.Event()
        self._is_ending = False
        self._allowance = Allowance()

    def interrupt(self) -> None:
        """From any thread, or from a signal. A second one does not wait for the run to end."""
        self._loop.call_soon_threadsafe(self._stop.set)

    def end(self) -> None:
        """Interrupts it unless that has been done: the kernel is to end, and Jupyter interrupts it first."""
        if not self._is_ending:
            self.interrupt()

    async def run(self, code: str) -> None:
        """Raises WapError where something cannot be done, Interrupted where a person does not want it any longer."""
        try:
            lines = parse_script(code)
            for position, line in enumerate(lines, 1):
                try:
                    await self._do(line, is_last=position == len(lines))
                except WapError as error:
                    if line.row is not None:
                        error.details.setdefault("line", line.row)
                    raise
        finally:
            self.ended.set()

    async def _do(self, line: Line, *, is_last: bool) -> None:
        hands = await self._unless_stopped(self._connection.hands)
        card = _Card(self._publish, is_live=not line.options.quiet)
        answer = await self._perform(line, hands, card)
        self._show(line, answer, card, is_last=is_last)
        if self._stop.is_set():
            raise Interrupted
        if line.options.raises and isinstance(answer, RunResult):
            answer.raise_for_problems()

    async def _unless_stopped(self, work: Callable[[], T]) -> T:
        working = in_thread(work)
        if not await self._is_done(working):
            raise Interrupted
        return await working

    async def _perform(self, line: Line, hands: Hands, card: _Card) -> Answer:
        before = hands.last
        working = in_thread(lambda: perform(line, hands, card.live))
        if not await self._is_done(working):
            await self._end(working, hands, before, card)
            run = None if hands.last is before else hands.last
            if run is not None:
                self._draw(run, card)
            is_known = not card.live.has_begun or (run is not None and run.is_over)
            raise Interrupted("" if is_known else f"It may still run: {PREFIX}runs -s running")
        return await working

    async def _is_done(self, working: asyncio.Future[T], seconds: float | None = None) -> bool:
        """Whether it ended before somebody interrupted it and before the time was up."""
        stopping = asyncio.ensure_future(self._stop.wait())
        either: set[asyncio.Future[Any]] = {working, stopping}
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        return working.done()

    async def _end(self, working: asyncio.Future[Answer], hands: Hands, before: RunResult | None, card: _Card) -> None:
        """Cancel the run that this line has begun, once it is known which, and see it end. Where nobody waits for that
        any longer, the thread cancels it when it hears of it."""
        self._is_ending = True
        self._stop.clear()
        card.live.stop()
        deadline = self._loop.time() + STOP_SECONDS
        cancelled = None
        while not self._stop.is_set() and self._loop.time() < deadline:
            run = hands.last
            if run is before:
                if not card.live.has_begun:  # it only looks, or has not come so far
                    return
            elif run is not None and run.run_id != cancelled:
                cancelled = run.run_id
                await self._is_done(in_thread(partial(hands.cancel, cancelled)), deadline - self._loop.time())
            if await self._is_done(working, LOOK_SECONDS):
                working.exception()  # whatever became of it, it was interrupted
                return

    # -- what is seen

    def _show(self, line: Line, answer: Answer, card: _Card, *, is_last: bool) -> None:
        """A run is a display, which could be drawn while it went; any other answer of the last line is the result."""
        if line.options.quiet and (not isinstance(answer, RunResult) or answer.ok):
            return
        if isinstance(answer, RunResult):
            self._draw(answer, card)
            return
        shown = self._shown(answer)
        if is_last:
            self._publish("execute_result", {**shown, "execution_count": self._number})
        elif shown["data"]["text/plain"]:  # else this cell has shown all that it may
            self._publish("display_data", {**shown, "transient": {}})

    def _draw(self, run: RunResult, card: _Card) -> None:
        card.draw(self._shown(run)["data"])

    def _shown(self, answer: Answer) -> dict[str, Any]:
        data = self._allowance.bundle(answer, prefix=PREFIX)
        self.text = data.get("text/plain", self.text)
        return {"data": data, "metadata": {}}

    def _publish(self, kind: str, content: dict[str, Any]) -> None:
        """In order, whichever thread it comes from; nothing after the end, of a thread that was left alone."""

        def send() -> None:
            if not self.ended.is_set():
                self._send(kind, content)

        if threading.get_ident() == self._thread:
            send()
        else:
            with suppress(RuntimeError):  # the loop is closed, and with it whoever saw
                self._loop.call_soon_threadsafe(send)


class _Card:
    """A display that is drawn again in its place: while a run goes, and when it has ended."""

    def __init__(self, publish: Publish, *, is_live: bool) -> None:
        self.live = LiveCard(self.draw if is_live else lambda _: None, prefix=PREFIX)
        self._publish = publish
        self._id = uuid.uuid4().hex
        self._is_drawn = False

    def draw(self, data: dict[str, str]) -> None:
        kind = "update_display_data" if self._is_drawn else "display_data"
        self._is_drawn = True
        self._publish(kind, {"data": data, "metadata": {}, "transient": {"display_id": self._id}})


def in_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """What `work` answers, in a thread of its own that keeps no process from ending."""
    future = asyncio.wrap_future(started(work, "wap-cell"))
    future.add_done_callback(lambda done: done.cancelled() or done.exception())  # who was interrupted does not ask
    return future
