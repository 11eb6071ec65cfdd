"""A run while it goes: how far it is, what it does now, and the end of what the command has written so far.

Pure: it is told what happens and how much time has passed, and remembers little, however much is written.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wap_kernel.client.backend import BEGUN
from wap_kernel.client.render import ansi, approval_view, event_rows, html_writer, text_writer, units
from wap_kernel.client.render.blocks import Bar, Block, Head, Line, Pre, Room, Row, Span, Tone

if TYPE_CHECKING:
    from wap_kernel.client.backend import Sent

TAIL_LINES = 12
LONGEST_LINE = 300
"""Characters that are shown of a line."""
LONGEST_OPEN_LINE = 4096
"""Characters that are remembered of a line that has not ended: more than is shown, colours take some."""
_ROOM = Room(characters=8_000, rows=10, lines=40)


class LiveRun:
    """Feed it what a backend's `follow` gives; ask for a bundle whenever there is something to show."""

    def __init__(self, total: int, operations: Sequence[Mapping[str, Any]] = ()) -> None:
        self.total = total
        """How many operations the run has."""
        self.status = "running"
        self._operations = list(operations)
        self._outcomes: Counter[Tone] = Counter()
        self._problem: Row | None = None
        """The last one."""
        self._question: Mapping[str, Any] | None = None
        self._lines: deque[tuple[str, str]] = deque(maxlen=TAIL_LINES)
        self._open = {"stdout": "", "stderr": ""}
        """The beginnings of lines that have not ended."""
        self._talking = ""
        """The operation whose output it is."""

    @property
    def done(self) -> int:
        return min(sum(self._outcomes.values()), self.total)

    def feed(self, sent: Sent) -> None:
        if sent.name == BEGUN:
            self._operations, self.total = list(sent.data["operations"]), int(sent.data["total"])
        elif sent.name == "event":
            self._event(sent.data)
        elif sent.name == "output":
            self._output(sent.data)
        elif sent.name == "status":
            self.status = str(sent.data.get("status", self.status))
            if self.status == "running":
                self._question = None

    def bundle(self, run_id: str, seconds: float, *, prefix: str = "%wap ") -> dict[str, str]:
        """As it stands after so many seconds."""
        blocks = self._blocks(run_id, seconds, prefix)
        return {"text/plain": text_writer.write(blocks), "text/html": html_writer.write(blocks)}

    # -- what happens

    def _event(self, event: Mapping[str, Any]) -> None:
        if event["type"] == "approvalRequired":
            self._question = {"reason": event.get("reason"), **event.get("details", {})}
            return
        self._question = None
        outcome = event_rows.outcome(event, self._operation())
        if "operationId" in event:
            self._outcomes[outcome.tone] += 1
        if outcome.tone in ("failed", "denied"):
            self._problem = outcome.row
        self._forget_output("")

    def _output(self, data: Mapping[str, Any]) -> None:
        operation, stream, chunk = str(data["operationId"]), str(data["stream"]), str(data["chunk"])
        if operation != self._talking:
            self._forget_output(operation)
        *ended, rest = chunk.rsplit("\n", TAIL_LINES)  # what is before those lines is never shown
        if ended:
            _, newline, first = ended[0].rpartition("\n")
            lines = [first if newline else self._open[stream] + first, *ended[1:]]
            self._lines.extend((stream, line[-LONGEST_OPEN_LINE:]) for line in lines)
        whole = rest if ended else self._open[stream] + rest
        self._open[stream] = whole[whole.rfind("\r", 0, -1) + 1 :][-LONGEST_OPEN_LINE:]

    def _forget_output(self, operation: str) -> None:
        self._talking = operation
        self._lines.clear()
        self._open = dict.fromkeys(self._open, "")

    # -- how it looks

    def _operation(self) -> Mapping[str, Any]:
        """The one that is its turn."""
        position = sum(self._outcomes.values())
        return self._operations[position] if position < len(self._operations) else {}

    def _blocks(self, run_id: str, seconds: float, prefix: str) -> list[Block]:
        is_waiting = self._question is not None and self.status != "running"
        word = "awaiting approval" if is_waiting else self.status.replace("_", " ")
        facts = [f"{self.done} of {self.total}"] if self.total else []  # of a run of others' making nothing is known
        facts += [f"{self._outcomes[tone]} {tone}" for tone in ("failed", "denied") if self._outcomes[tone]]
        head = Head("asks" if is_waiting else "busy", word, (), (*facts, units.duration(1000 * seconds)), run_id)
        found: list[Block] = [head, *([Bar(self.done, self.total)] if self.total else [])]
        found += [self._problem] if self._problem is not None else []
        if self._question is not None:
            return [*found, *approval_view.blocks(run_id, self._question, _ROOM, prefix)]
        if self.done < self.total:
            found.append(self._current())
        return [*found, *self._tail()]

    def _current(self) -> Row:
        operation = self._operation()
        subject = event_rows.short(event_rows.subject(operation))
        said = event_rows.verb(operation["type"]) if "type" in operation else f"operation {self.done + 1}"
        spans = (Span(said), Span(" "), Span(subject, "code")) if subject else (Span(said),)
        return Row(spans, "busy", "now")

    def _tail(self) -> list[Block]:
        lines = [*self._lines, *((stream, line) for stream, line in self._open.items() if line)][-TAIL_LINES:]
        settled = [ansi.settled(line)[:LONGEST_LINE] for _, line in lines]
        return [Pre(tuple(Line(spans) for spans in ansi.spans(settled)))] if settled else []
