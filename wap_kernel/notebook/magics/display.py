"""The displays of `%wap`: cards in a notebook, lines in a terminal, or none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from wap_kernel.client.render import Allowance
from wap_kernel.client.render.transcript import Transcript
from wap_kernel.client.results import ClientResult, RunResult
from wap_kernel.notebook.language import LiveCard
from wap_kernel.notebook.magics.decision_buttons import show_buttons

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from wap_kernel.client.backend import RunUpdate


ExecuteLine = Callable[[str, "str | None", "Screen | None"], object]
"""A function that executes a line and displays its result on a screen."""


class Screen(Protocol):
    """A `RunDisplay` that also displays results."""

    @property
    def has_begun(self) -> bool: ...

    def begin(self, operations: Sequence[Mapping[str, Any]]) -> None: ...

    def update(self, update: RunUpdate) -> None: ...

    def end(self) -> None: ...

    def final(self, result: ClientResult) -> None:
        """Display the result."""

    def again(self, result: ClientResult) -> None:
        """Display the value of the cell, which IPython is about to show and this screen has displayed already."""


def open_screen(shell: InteractiveShell, allowance: Allowance, execute: ExecuteLine) -> Screen:
    """Return the display of a line; `execute` runs the line of a button on the same display."""
    is_notebook = getattr(shell, "kernel", None) is not None
    return NotebookScreen(shell, allowance, execute) if is_notebook else TerminalScreen()


class NotebookScreen(LiveCard):
    """One output of a cell: a live card that becomes the card of the ended run, and is saved once."""

    def __init__(self, shell: InteractiveShell, allowance: Allowance, execute: ExecuteLine) -> None:
        super().__init__(self._draw)
        self._shell = shell
        self._allowance = allowance
        self._execute = execute
        self._id: str | None = None

    def final(self, result: ClientResult) -> None:
        self._draw(self._allowance.bundle(result))
        if isinstance(result, RunResult) and result.pending is not None:
            show_buttons(self._shell, result.pending, self._decide)

    def _decide(self, line: str) -> None:
        """Execute the line of a button; the card of the approval becomes the card of the run."""
        screen = NotebookScreen(self._shell, Allowance(), self._execute)
        screen._id = self._id
        self._execute(line, None, screen)

    def again(self, result: ClientResult) -> None:
        pass

    def _draw(self, bundle: dict[str, str]) -> None:
        is_new = self._id is None
        self._id = self._id or uuid4().hex
        # Read each time: while output is captured, the publisher is another one.
        self._shell.display_pub.publish(data=bundle, metadata={}, transient={"display_id": self._id}, update=not is_new)


class TerminalScreen:
    """Events and output printed as they arrive, since a terminal cannot redraw them, and a line at the end."""

    def __init__(self) -> None:
        self.has_begun = False
        self._transcript = Transcript(_write)

    def begin(self, operations: Sequence[Mapping[str, Any]]) -> None:
        self.has_begun = True

    def update(self, update: RunUpdate) -> None:
        self._transcript.show(update.name, update.data)

    def end(self) -> None:
        sys.stdout.flush()

    def final(self, result: ClientResult) -> None:
        if not (self.has_begun and isinstance(result, RunResult) and result.is_over):
            _write(f"{result!r}\n")

    def again(self, result: ClientResult) -> None:
        if isinstance(result, RunResult):
            self._transcript.end(result.data, "")


class SilentScreen:
    """No display, for quiet runs."""

    def __init__(self) -> None:
        self.has_begun = False

    def begin(self, operations: Sequence[Mapping[str, Any]]) -> None:
        self.has_begun = True

    def update(self, update: RunUpdate) -> None:
        pass

    def end(self) -> None:
        pass


def _write(text: str) -> None:
    """Write `text` in the encoding of the terminal."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
