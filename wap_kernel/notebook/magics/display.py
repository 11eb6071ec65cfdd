"""Where `%wap` shows what it does: cards in a notebook, lines in a terminal, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from wap_kernel.client.render.transcript import Transcript
from wap_kernel.client.results import Answer, RunResult
from wap_kernel.notebook.language import LiveCard

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from wap_kernel.client.backend import Sent
    from wap_kernel.client.render import Allowance


class Screen(Protocol):
    """A `Show` that is also told how it ended."""

    @property
    def has_begun(self) -> bool: ...

    def begin(self, operations: Sequence[Mapping[str, Any]]) -> None: ...

    def sent(self, sent: Sent) -> None: ...

    def end(self) -> None: ...

    def final(self, answer: Answer) -> None:
        """Show what became of it."""

    def again(self, answer: Answer) -> None:
        """IPython is about to show, as the value of the cell, what stands there already."""


def screen(shell: InteractiveShell, allowance: Allowance) -> Screen:
    return Cards(shell, allowance) if getattr(shell, "kernel", None) is not None else Printed()


class Cards(LiveCard):
    """One output of the cell: the card of the run while it goes becomes that of its end, and is saved once."""

    def __init__(self, shell: InteractiveShell, allowance: Allowance) -> None:
        super().__init__(self._draw)
        self._shell = shell
        self._allowance = allowance
        self._id: str | None = None

    def final(self, answer: Answer) -> None:
        self._draw(self._allowance.bundle(answer))

    def again(self, answer: Answer) -> None:
        pass

    def _draw(self, bundle: dict[str, str]) -> None:
        is_new = self._id is None
        self._id = self._id or uuid4().hex
        # Asked each time: while output is captured it is another one.
        self._shell.display_pub.publish(data=bundle, metadata={}, transient={"display_id": self._id}, update=not is_new)


class Printed:
    """Nothing can be drawn again, so events and output are printed as they come and the end is a line."""

    def __init__(self) -> None:
        self.has_begun = False
        self._transcript = Transcript(_write)

    def begin(self, operations: Sequence[Mapping[str, Any]]) -> None:
        self.has_begun = True

    def sent(self, sent: Sent) -> None:
        self._transcript.show(sent.name, sent.data)

    def end(self) -> None:
        sys.stdout.flush()

    def final(self, answer: Answer) -> None:
        if not (self.has_begun and isinstance(answer, RunResult) and answer.is_over):
            _write(f"{answer!r}\n")

    def again(self, answer: Answer) -> None:
        if isinstance(answer, RunResult):
            self._transcript.end(answer.data, "")


class Silent:
    """While a quiet run goes."""

    def __init__(self) -> None:
        self.has_begun = False

    def begin(self, operations: Sequence[Mapping[str, Any]]) -> None:
        self.has_begun = True

    def sent(self, sent: Sent) -> None:
        pass

    def end(self) -> None:
        pass


def _write(text: str) -> None:
    """In what the terminal can show."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
