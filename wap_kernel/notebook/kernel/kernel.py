"""Answer the requests of Jupyter to a kernel, without evaluating code: the workspace client executes parsed lines."""

from __future__ import annotations

import signal
import threading
from collections.abc import Collection, Mapping
from functools import partial
from importlib.metadata import version
from typing import Any

from ipykernel._version import kernel_protocol_version
from ipykernel.kernelbase import Kernel

from wap_kernel.client.render import MAX_ERROR_BYTES, saved_bytes, summarize_error, text
from wap_kernel.client.results import Problem
from wap_kernel.model.errors import InternalError, WapError
from wap_kernel.notebook.kernel import completion, inspection
from wap_kernel.notebook.kernel.connection import Connection
from wap_kernel.notebook.kernel.execution import PREFIX, CellExecution, CellInterrupted, start_in_thread
from wap_kernel.notebook.kernel.history import History, encode_entries
from wap_kernel.notebook.kernel.parameters import Parameters
from wap_kernel.notebook.language import Completer
from wap_kernel.notebook.language.lookup import Lookup

EXIT_LINES = ("exit", "quit", "exit()", "quit()")
"""Cells that end the kernel, as people know them from consoles."""
EXIT_SECONDS = 0.1
"""Seconds until the kernel ends, in which the reply is sent."""
END_SECONDS = 2.0
"""Seconds for a cell to end before a shutdown; after 2.5 Jupyter ends the kernel."""

Reply = dict[str, Any]


class WapKernel(Kernel):
    """The `wap` kernel."""

    implementation = "wap"
    implementation_version = version("wap-kernel")
    banner = 'wap: files, search and commands, within what policy allows. "help" lists what can be written.'
    language_info = {  # noqa: RUF012 - Jupyter reads it from the class
        "name": "wap",
        "version": implementation_version,
        "mimetype": "text/x-wap",
        "file_extension": ".wap",
        "codemirror_mode": "yaml",
        "pygments_lexer": "text",
    }

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call] # half of ipykernel has types
        self._connection = Connection()
        self._completer = Completer(self._connection.client, self._connection.is_connected, has_python=False)
        self._lookup = Lookup(self._connection.client)
        self._history = History()
        self._execution: CellExecution | None = None
        self._parameters = Parameters()

    def start(self) -> None:
        """Start the kernel and look for the server, so that the first cell and the first completion need not wait."""
        super().start()  # type: ignore[no-untyped-call]
        threading.Thread(target=self._connection.prepare, name="wap-connecting", daemon=True).start()

    @property
    def kernel_info(self) -> Reply:
        """Return the description of the kernel without a debugger, which would run Python and take time to load."""
        return {
            "protocol_version": kernel_protocol_version,
            "implementation": self.implementation,
            "implementation_version": self.implementation_version,
            "language_info": self.language_info,
            "banner": self.banner,
            "help_links": [],
            "supported_features": [],
        }

    async def create_subshell_request(self, stream: Any, ident: Any, parent: Reply) -> None:
        """Refuse subshells: a cell starts when the one before has ended, because it may need what that one wrote."""
        refusal = {"status": "error", "ename": "NOT_SUPPORTED", "evalue": "There are no subshells.", "traceback": []}
        if self.session:
            self.session.send(stream, "create_subshell_reply", refusal, parent, ident=ident)

    # -- interrupts

    async def interrupt_request(self, stream: Any, ident: Any, parent: Reply) -> None:
        """Interrupt the cell alone; ipykernel would send a signal to every process that the cell has started."""
        self._interrupt()
        if self.session:
            self.session.send(stream, "interrupt_reply", {"status": "ok"}, parent, ident=ident)

    def pre_handler_hook(self) -> None:
        """Handle SIGINT as an interrupt request; as an exception it could be raised in the event loop."""
        self.saved_sigint_handler = signal.signal(signal.SIGINT, lambda *_: self._interrupt())

    def _interrupt(self) -> None:
        if self._execution is not None:
            self._execution.interrupt()

    # -- cells

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: Mapping[str, str] | None = None,
        allow_stdin: bool = False,
        *,
        cell_meta: Mapping[str, Any] | None = None,
        cell_id: str | None = None,
    ) -> Reply:
        parent: Reply = self.get_parent("shell")  # type: ignore[no-untyped-call]
        number = self.execution_count

        def publish(kind: str, content: Reply) -> None:
            if not silent and self.session:
                self.session.send(self.iopub_socket, kind, content, parent)

        if code.strip() in EXIT_LINES:
            return await self._exit(number)
        self._execution = CellExecution(self._connection, publish, number, self._parameters)
        failure: Reply | None = None
        try:
            await self._execution.run(code)
        except CellInterrupted as interrupted:
            message = f"Interrupted. {interrupted}".strip()
            failure = {"ename": "KeyboardInterrupt", "evalue": "", "traceback": [message]}
        except WapError as error:
            failure = _error_reply(error)
        except Exception as error:
            self.log.exception("A cell could not be run.")
            failure = _error_reply(
                InternalError(f"A bug in wap: {type(error).__name__}.", hint="The server's log has the traceback.")
            )
        output, self._execution = self._execution.text, None
        if store_history and not silent:
            self._history.add(number, code, output)
        elif not silent:
            self.execution_count -= 1  # ipykernel has counted it already
        if failure is not None:
            publish("error", failure)
            return {"status": "error", "execution_count": number, **failure}
        answered = dict.fromkeys(user_expressions or {}, _NOT_EVALUATED)
        return {"status": "ok", "execution_count": number, "payload": [], "user_expressions": answered}

    async def _exit(self, number: int) -> Reply:
        """End the kernel after the reply, which asks the front end to leave as well."""
        await self.do_shutdown(False)
        self.io_loop.call_later(EXIT_SECONDS, self.io_loop.stop)
        payload = [{"source": "ask_exit", "keepkernel": False}]
        return {"status": "ok", "execution_count": number, "payload": payload, "user_expressions": {}}

    # -- help while writing

    async def do_complete(self, code: str, cursor_pos: int) -> Reply:
        completions = await start_in_thread(lambda: completion.complete(self._completer, code, cursor_pos))
        return {
            "status": "ok",
            "matches": completions.matches,
            "cursor_start": completions.start,
            "cursor_end": completions.end,
            "metadata": {},
        }

    async def do_inspect(
        self, code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Collection[str] = ()
    ) -> Reply:
        data = await start_in_thread(lambda: inspection.inspect(code, cursor_pos, self._lookup))
        return {"status": "ok", "found": bool(data), "data": data, "metadata": {}}

    async def do_is_complete(self, code: str) -> Reply:
        status = await start_in_thread(partial(completion.check_completeness, code))
        return {"status": status, "indent": ""} if status == "incomplete" else {"status": status}

    async def do_history(
        self,
        hist_access_type: str,
        output: bool,
        raw: bool,
        session: int | None = None,
        start: int | None = None,
        stop: int | None = None,
        n: int | None = None,
        pattern: str | None = None,
        unique: bool = False,
    ) -> Reply:
        if hist_access_type == "range":
            entries = self._history.range(session, start, stop)
        elif hist_access_type == "search":
            entries = self._history.search(pattern, n, unique=unique)
        else:
            entries = self._history.tail(n)
        return {"status": "ok", "history": encode_entries(entries, output=output)}

    async def do_shutdown(self, restart: bool) -> Reply:
        """Shut down; called in another thread, so interrupt the active cell: its run must not go on alone."""
        if (execution := self._execution) is not None:
            execution.end()
            await start_in_thread(partial(execution.ended.wait, END_SECONDS))
        await start_in_thread(self._connection.close)
        return {"status": "ok", "restart": restart}


_NOT_EVALUATED: Reply = {
    "status": "error",
    "ename": "NOT_EVALUATED",
    "evalue": "Nothing is evaluated in this kernel.",
    "traceback": [],
}


def _error_reply(error: WapError) -> Reply:
    """Return the error reply: its traceback holds the message and the hint for a person."""
    more = {name: error.details[name] for name in ("line",) if name in error.details}
    problem = Problem.from_error(error, **more)
    if error.hint:
        problem = Problem({**problem.data, "hint": error.hint.replace("%%wap ", "").replace("%wap ", "")})
    evalue = summarize_error(error.message)
    traceback = [text(problem, prefix=PREFIX, largest=MAX_ERROR_BYTES - saved_bytes(evalue))]
    return {"ename": error.code.value, "evalue": evalue, "traceback": traceback}
