"""Render a run in progress: how far it is, its current operation, and the end of the command's output so far.

The view receives updates and the elapsed time, and remembers little, however much a command writes.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wap_kernel.client.backend import RUN_STARTED
from wap_kernel.client.render import approval_view, event_rows, units
from wap_kernel.client.render.blocks import Bar, Block, Header, Pre, Room, Row, Span, TextLine, Tone
from wap_kernel.client.render.writers import ansi, html_writer, text_writer

if TYPE_CHECKING:
    from wap_kernel.client.backend import RunUpdate

TAIL_LINES = 12
LONGEST_LINE = 300
"""Characters of a line that are displayed."""
LONGEST_OPEN_LINE = 4096
"""Characters remembered of a line that has not ended: more than are displayed, because colours take some."""
_ROOM = Room(characters=8_000, rows=10, lines=40)


class LiveRun:
    """The state of a run, built from the updates of `Backend.follow` and rendered as a bundle at any time."""

    def __init__(self, total: int, operations: Sequence[Mapping[str, Any]] = ()) -> None:
        self.total = total
        """The number of operations in the run."""
        self.status = "running"
        self._operations = list(operations)
        self._outcomes: Counter[Tone] = Counter()
        self._problem: Row | None = None
        """The last operation that failed or was denied."""
        self._pending: Mapping[str, Any] | None = None
        self._lines: deque[tuple[str, str]] = deque(maxlen=TAIL_LINES)
        self._open = {"stdout": "", "stderr": ""}
        """The beginnings of lines that have not ended, by stream."""
        self._writer = ""
        """The operation whose output the lines are."""

    @property
    def done(self) -> int:
        return min(sum(self._outcomes.values()), self.total)

    def feed(self, update: RunUpdate) -> None:
        if update.name == RUN_STARTED:
            self._operations, self.total = list(update.data["operations"]), int(update.data["total"])
        elif update.name == "event":
            self._event(update.data)
        elif update.name == "output":
            self._output(update.data)
        elif update.name == "status":
            self.status = str(update.data.get("status", self.status))
            if self.status == "running":
                self._pending = None

    def bundle(self, run_id: str, seconds: float, *, prefix: str = "%wap ") -> dict[str, str]:
        """Return the bundle of the run after `seconds`."""
        blocks = self._blocks(run_id, seconds, prefix)
        return {"text/plain": text_writer.write(blocks), "text/html": html_writer.write(blocks)}

    # -- updates

    def _event(self, event: Mapping[str, Any]) -> None:
        if event["type"] == "approvalRequired":
            self._pending = {"reason": event.get("reason"), **event.get("details", {})}
            return
        self._pending = None
        summary = event_rows.summarize_event(event, self._current_operation())
        if "operationId" in event:
            self._outcomes[summary.tone] += 1
        if summary.tone in ("failed", "denied"):
            self._problem = summary.row
        self._forget_output("")

    def _output(self, data: Mapping[str, Any]) -> None:
        operation, stream, chunk = str(data["operationId"]), str(data["stream"]), str(data["chunk"])
        if operation != self._writer:
            self._forget_output(operation)
        *ended, rest = chunk.rsplit("\n", TAIL_LINES)  # earlier lines are never displayed
        if ended:
            _, newline, first = ended[0].rpartition("\n")
            lines = [first if newline else self._open[stream] + first, *ended[1:]]
            self._lines.extend((stream, line[-LONGEST_OPEN_LINE:]) for line in lines)
        whole = rest if ended else self._open[stream] + rest
        self._open[stream] = whole[whole.rfind("\r", 0, -1) + 1 :][-LONGEST_OPEN_LINE:]

    def _forget_output(self, operation: str) -> None:
        self._writer = operation
        self._lines.clear()
        self._open = dict.fromkeys(self._open, "")

    # -- rendering

    def _current_operation(self) -> Mapping[str, Any]:
        """Return the current operation, or an empty one where it is not known."""
        position = sum(self._outcomes.values())
        return self._operations[position] if position < len(self._operations) else {}

    def _blocks(self, run_id: str, seconds: float, prefix: str) -> list[Block]:
        is_waiting = self._pending is not None and self.status != "running"
        word = "awaiting approval" if is_waiting else self.status.replace("_", " ")
        facts = (
            [f"{self.done} of {self.total}"] if self.total else []
        )  # the operations of another caller's run are not known
        facts += [f"{self._outcomes[tone]} {tone}" for tone in ("failed", "denied") if self._outcomes[tone]]
        head = Header(
            "asks" if is_waiting else "busy", word, (), (*facts, units.format_duration(1000 * seconds)), run_id
        )
        blocks: list[Block] = [head, *([Bar(self.done, self.total)] if self.total else [])]
        blocks += [self._problem] if self._problem is not None else []
        if self._pending is not None:
            return [*blocks, *approval_view.approval_blocks(run_id, self._pending, _ROOM, prefix)]
        if self.done < self.total:
            blocks.append(self._current_row())
        return [*blocks, *self._tail()]

    def _current_row(self) -> Row:
        operation = self._current_operation()
        subject = event_rows.first_line(event_rows.subject(operation))
        label = event_rows.verb(operation["type"]) if "type" in operation else f"operation {self.done + 1}"
        spans = (Span(label), Span(" "), Span(subject, "code")) if subject else (Span(label),)
        facts = ("writes directly: no undo",) if operation.get("isolation") == "shared" else ()
        return Row(spans, "busy", "now", facts)

    def _tail(self) -> list[Block]:
        lines = [*self._lines, *((stream, line) for stream, line in self._open.items() if line)][-TAIL_LINES:]
        collapsed = [ansi.collapse_overwrites(line)[:LONGEST_LINE] for _, line in lines]
        return [Pre(tuple(TextLine(spans) for spans in ansi.style_lines(collapsed)))] if collapsed else []
