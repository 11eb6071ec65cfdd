"""Execute the `%wap` lines of one shell: find its client, run the line, and display the result."""

from __future__ import annotations

import shlex
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wap_kernel.client.render import Allowance, summarize_error, units
from wap_kernel.client.results import ClientResult, Note, Problem, RunResult
from wap_kernel.model.errors import Code, ProviderUnavailable, WapError
from wap_kernel.model.limits import MAX_MAGIC_LINE_CHARACTERS
from wap_kernel.model.text import escape_invisible
from wap_kernel.notebook.language import Completer, Line, execute_line, parse, parse_cell, usage
from wap_kernel.notebook.language.commands import LISTING_COMMANDS
from wap_kernel.notebook.magics.display import Screen, SilentScreen, open_screen

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from wap_kernel.client.workspace_client import WorkspaceClient


class MagicInterrupted(KeyboardInterrupt):
    """An interrupt of a line, which IPython shows without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}."]


class Session:
    """The client and the displays of one shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._lock = threading.Lock()
        self._client: WorkspaceClient | None = None
        self._had_server = False
        self._displayed: tuple[ClientResult, Screen] | None = None
        """The last result of this cell that is displayed already, and its screen."""
        self._is_hidden = False
        """True where that result is quiet and was not displayed."""
        self._awaits_notice = False
        """True after a line of this cell, unless the line itself lists what waits."""
        self.allowance = Allowance()
        self.completer = Completer(self.client, lambda: self._client is not None)

    def execute(self, line: str, cell: str | None, screen: Screen | None = None) -> ClientResult | None:
        """Execute a line, or the line over a cell, and display its result on `screen`, by default a new one."""
        screen = screen or open_screen(self._shell, self.allowance, self.execute)
        self._is_hidden = False
        parsed: Line | None = None
        try:
            parsed = parse(line) if cell is None else parse_cell(line, cell)
            self._awaits_notice = not parsed.options.quiet and parsed.command.name not in LISTING_COMMANDS
            answer = self._run_line(parsed, screen)
        except WapError as error:
            self._drop_lost_client(error)
            if "--raise" in _split_words(line) if parsed is None else parsed.options.raises:
                raise _without_traceback(error) from None
            return self._problem(error, screen)
        if isinstance(answer, RunResult) and parsed.command.changes:
            self._end(parsed, answer, screen)
        elif parsed.options.quiet:
            self._displayed, self._is_hidden = (answer, screen), True
        return answer

    def client(self) -> WorkspaceClient:
        """Return the client, which is found on first use and again after its server has gone away."""
        from wap_kernel.client.workspace_client import connect

        with self._lock:
            if self._client is None:
                client = connect()
                if self._had_server and client.endpoint.kind != "server":
                    client.close()
                    # The policy of the server must not be left behind unnoticed.
                    raise ProviderUnavailable(
                        "The server has gone away.", hint="Restart the kernel to work without it."
                    )
                self._client, self._had_server = client, client.endpoint.kind == "server"
            return self._client

    def has_displayed(self, answer: ClientResult, *, ends_cell: bool) -> bool:
        """Return whether IPython need not display a result that is displayed already, or that is quiet.

        Where the cell does not end with that line, another expression has named the quiet result.
        """
        if self._displayed is None or self._displayed[0] is not answer or (self._is_hidden and not ends_cell):
            return False
        self._displayed[1].again(answer)
        return True

    def start_cell(self) -> None:
        """Reset the displays for a new cell."""
        self._displayed = None
        self.allowance = Allowance()

    def end_cell(self) -> None:
        """Display a notice below a cell with a `%wap` line where runs of agents have begun to wait for approval."""
        if not self._awaits_notice or self._client is None:
            return
        self._awaits_notice = False
        with suppress(WapError):  # the next line reports a server that has gone away
            notice = self._client.find_new_approvals()
            if notice is not None:
                open_screen(self._shell, self.allowance, self.execute).final(notice)

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _run_line(self, parsed: Line, screen: Screen) -> ClientResult:
        if parsed.command.name == "help":
            return Note({"text": usage(parsed.options.about or "")})
        display = SilentScreen() if parsed.options.quiet else screen
        client: WorkspaceClient | None = None
        before: RunResult | None = None
        try:
            client = self.client()
            before = client.last
            return execute_line(parsed, client, display, self._shell.user_ns)
        except KeyboardInterrupt:
            if client is None or not display.has_begun:
                raise MagicInterrupted(_describe_interrupt(parsed)) from None
            run = None if client.last is before else client.last
            if run is not None:
                screen.final(run)
            raise MagicInterrupted(_describe_end(run)) from None

    def _end(self, parsed: Line, answer: RunResult, screen: Screen) -> None:
        self._is_hidden = parsed.options.quiet and answer.ok
        if not self._is_hidden:
            screen.final(answer)
        self._displayed = answer, screen
        if parsed.options.raises:
            try:
                answer.raise_for_problems()
            except WapError as error:
                raise _without_traceback(error) from None

    def _problem(self, error: WapError, screen: Screen) -> ClientResult | None:
        position = {"line": error.details["line"]} if "line" in error.details else {}
        problem = Problem.from_error(error, **position)
        screen.final(problem)
        self._displayed = problem, screen
        # A terminal has printed "Out[1]:" before it calls the formatter, and nothing would follow.
        return problem if getattr(self._shell, "kernel", None) is not None else None

    def _drop_lost_client(self, error: WapError) -> None:
        """Close the client after its server has gone away, so that the next line looks for a server again."""
        if error.code is Code.PROVIDER_UNAVAILABLE and self._had_server:
            self.close()


def _split_words(line: str) -> list[str]:
    """Return the words of a line that could not be parsed."""
    try:
        return shlex.split(line[:MAX_MAGIC_LINE_CHARACTERS])
    except ValueError:
        return line.split()


def _describe_interrupt(parsed: Line) -> str:
    """Return what is known of an interrupted line without a run."""
    if parsed.command.name in ("cancel", "grants"):
        return "the request may have been executed"
    return "no run was started"


def _describe_end(run: RunResult | None) -> str:
    """Return what is known of the run of an interrupted cell."""
    if run is None or not run.is_over:
        return "the run may still be going on, see %wap runs -s running"
    return "the run was cancelled" if run.status == "cancelled" else "the run had ended"


def _without_traceback(error: WapError) -> WapError:
    """Return the error so that IPython shows it as a line, without a traceback; it saves the line and the argument."""
    error.args = (summarize_error(error.message),)
    short = WapError(units.truncate_line(error.message), hint=units.truncate_line(error.hint or "")).text
    attributes: dict[str, Any] = vars(error)
    attributes["_render_traceback_"] = lambda: [f"{type(error).__name__}: {escape_invisible(short)}"]
    return error
