"""What one shell does with `%wap`: it finds its client, does what a line says, and shows what became of it."""

from __future__ import annotations

import shlex
import threading
from typing import TYPE_CHECKING, Any

from wap_kernel.client.render import Allowance, units, summarize_error
from wap_kernel.client.results import ClientResult, Note, Problem, RunResult
from wap_kernel.model.errors import Code, ProviderUnavailable, WapError
from wap_kernel.model.limits import MAX_MAGIC_LINE_CHARACTERS
from wap_kernel.model.safe_text import escape_invisible
from wap_kernel.notebook.language import Completer, Line, parse, parse_cell, execute_line, usage
from wap_kernel.notebook.magics.display import Screen, SilentScreen, open_screen

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from wap_kernel.client.workspace_client import WorkspaceClient


class MagicInterrupted(KeyboardInterrupt):
    """There is nothing to see in a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}."]


class Session:
    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._lock = threading.Lock()
        self._client: WorkspaceClient | None = None
        self._had_server = False
        self._shown: tuple[ClientResult, Screen] | None = None
        """What this cell has shown already, and where."""
        self._is_hidden = False
        """It was to be quiet, so that it has not."""
        self.allowance = Allowance()
        self.completer = Completer(self.client, lambda: self._client is not None)

    def do(self, line: str, cell: str | None) -> ClientResult | None:
        shown, self._is_hidden = open_screen(self._shell, self.allowance), False
        asked: Line | None = None
        try:
            asked = parse(line) if cell is None else parse_cell(line, cell)
            answer = self._perform(asked, shown)
        except WapError as error:
            self._lose(error)
            if "--raise" in _words(line) if asked is None else asked.options.raises:
                raise _plainly(error) from None
            return self._problem(error, shown)
        if isinstance(answer, RunResult) and asked.command.changes:
            self._end(asked, answer, shown)
        elif asked.options.quiet:
            self._shown, self._is_hidden = (answer, shown), True
        return answer

    def client(self) -> WorkspaceClient:
        """Found when they are first needed, and again when their server has gone away."""
        from wap_kernel.client.workspace_client import connect

        with self._lock:
            if self._client is None:
                found = connect()
                if self._had_server and found.endpoint.kind != "server":
                    found.close()
                    # Whatever policy the server had must not be left behind unnoticed.
                    raise ProviderUnavailable(
                        "The server has gone away.", hint="Restart the kernel to work without it."
                    )
                self._client, self._had_server = found, found.endpoint.kind == "server"
            return self._client

    def has_shown(self, answer: ClientResult, *, ends_cell: bool) -> bool:
        """Whether IPython need not show it because it stands there, or because whoever wrote the line wants it quiet.
        Where the cell does not end with that line, another asks for it by its name."""
        if self._shown is None or self._shown[0] is not answer or (self._is_hidden and not ends_cell):
            return False
        self._shown[1].again(answer)
        return True

    def forget_shown(self) -> None:
        """A new cell begins."""
        self._shown = None
        self.allowance = Allowance()

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _perform(self, asked: Line, shown: Screen) -> ClientResult:
        if asked.command.name == "help":
            return Note({"text": usage(asked.options.about or "")})
        show = SilentScreen() if asked.options.quiet else shown
        client: WorkspaceClient | None = None
        before: RunResult | None = None
        try:
            client = self.client()
            before = client.last
            return execute_line(asked, client, show, self._shell.user_ns)
        except KeyboardInterrupt:
            if client is None or not show.has_begun:
                raise MagicInterrupted(_without_a_run(asked)) from None
            run = None if client.last is before else client.last
            if run is not None:
                shown.final(run)
            raise MagicInterrupted(_end_of(run)) from None

    def _end(self, asked: Line, answer: RunResult, shown: Screen) -> None:
        self._is_hidden = asked.options.quiet and answer.ok
        if not self._is_hidden:
            shown.final(answer)
        self._shown = answer, shown
        if asked.options.raises:
            try:
                answer.raise_for_problems()
            except WapError as error:
                raise _plainly(error) from None

    def _problem(self, error: WapError, shown: Screen) -> ClientResult | None:
        place = {"line": error.details["line"]} if "line" in error.details else {}
        problem = Problem.from_error(error, **place)
        shown.final(problem)
        self._shown = problem, shown
        # A terminal has written "Out[1]:" before it asks, and nothing would follow.
        return problem if getattr(self._shell, "kernel", None) is not None else None

    def _lose(self, error: WapError) -> None:
        """The next line looks for a server again."""
        if error.code is Code.PROVIDER_UNAVAILABLE and self._had_server:
            self.close()


def _words(line: str) -> list[str]:
    """Of a line that could not be read."""
    try:
        return shlex.split(line[:MAX_MAGIC_LINE_CHARACTERS])
    except ValueError:
        return line.split()


def _without_a_run(asked: Line) -> str:
    """What is known of an interrupted line that has begun none."""
    if asked.command.name in ("cancel", "grants"):
        return "it may have been done all the same"
    return "nothing was begun"


def _end_of(run: RunResult | None) -> str:
    """What is known of the run of an interrupted cell."""
    if run is None or not run.is_over:
        return "it may still run, see %wap runs -s running"
    return "the run was cancelled" if run.status == "cancelled" else "the run had ended"


def _plainly(error: WapError) -> WapError:
    """The same error, which IPython shows as a line instead of a traceback; it saves both the line and the argument."""
    error.args = (summarize_error(error.message),)
    short = WapError(units.truncate_line(error.message), hint=units.truncate_line(error.hint or "")).text
    told: dict[str, Any] = vars(error)
    told["_render_traceback_"] = lambda: [f"{type(error).__name__}: {escape_invisible(short)}"]
    return error
