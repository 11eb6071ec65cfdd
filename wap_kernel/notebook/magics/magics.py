"""Register `%wap` and `%%wap` in IPython; the rest is loaded when one is first used.

A line that changes something is displayed immediately, by a card that follows its run; the result of a line that only
reads is the value of the cell, like any other expression. Both are in `_`.
"""

from __future__ import annotations

import re
from time import monotonic
from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

if TYPE_CHECKING:
    from concurrent.futures import Future

    from IPython.core.interactiveshell import ExecutionInfo, InteractiveShell

    from wap_kernel.client.results import ClientResult
    from wap_kernel.notebook.magics.session import Session

TAB_SECONDS = 0.1
"""Seconds for a completion, with all imports for it; 200 ms are promised on a busy machine."""
_LOADED = (
    "notebook.magics.session",
    "client.workspace_client",
    "client.discovery",
    "client.server_backend",
    "notebook.kernel.completion",
)
_MAGIC = re.compile(r"\s*(?:[^\W\d][\w.]*\s*=\s*)?%(%?)wap(?:\s|$)")
_CELL = re.compile(r"\s*%%wap(?:\s|$)")
_RESULT_CLASS = ("wap_kernel.client.results", "ClientResult")


def load(shell: InteractiveShell) -> None:
    """Add the magics to a shell."""
    magics = WapMagics(shell)
    shell.register_magics(magics)
    magics.attach()


def unload(shell: InteractiveShell) -> None:
    magics = shell.magics_manager.registry.pop(WapMagics.__name__, None)
    if isinstance(magics, WapMagics):
        magics.detach()


@magics_class
class WapMagics(Magics):
    """The magics of one shell."""

    shell: InteractiveShell

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._opened: Session | None = None
        self._loading: Future[None] | None = None
        self._ends_cell = True

    @no_var_expand
    @line_cell_magic
    def wap(self, line: str, cell: str | None = None) -> ClientResult | None:
        """Read and change the workspace, as policy allows.

        `%wap` alone is an overview, `%wap help` lists the sub-commands, `%wap sh --help` explains one. `%%wap` runs the
        batch of operations below it, in JSON or YAML; `{{name}}` in it is the Python variable of that name.
        """
        return self._session.execute(line, cell)

    @property
    def _session(self) -> Session:
        if self._opened is None:
            from wap_kernel.notebook.magics.session import Session

            self._opened = Session(self.shell)
        return self._opened

    # -- hooks of IPython

    def attach(self) -> None:
        self.shell.Completer.custom_matchers.append(self._complete)
        self.shell.events.register("pre_execute", self._forget)
        self.shell.events.register("pre_run_cell", self._inspect_cell)
        self.shell.events.register("post_run_cell", self._prepare)
        self.shell.events.register("post_run_cell", self._end_cell)
        self._displays.for_type_by_name(*_RESULT_CLASS, self._display)
        self._bundles.for_type_by_name(*_RESULT_CLASS, self._bundle)

    def detach(self) -> None:
        for kind in ("line", "cell"):
            self.shell.magics_manager.magics[kind].pop("wap", None)
        self.shell.Completer.custom_matchers.remove(self._complete)
        self.shell.events.unregister("pre_execute", self._forget)
        self.shell.events.unregister("pre_run_cell", self._inspect_cell)
        self.shell.events.unregister("post_run_cell", self._end_cell)
        if self._loading is None:
            self.shell.events.unregister("post_run_cell", self._prepare)
        self._displays.pop(".".join(_RESULT_CLASS), None)
        self._bundles.pop(".".join(_RESULT_CLASS), None)
        if self._opened is not None:
            self._opened.close()

    @property
    def _displays(self) -> Any:
        assert self.shell.display_formatter is not None  # IPython makes one for every shell
        return self.shell.display_formatter.ipython_display_formatter

    @property
    def _bundles(self) -> Any:
        assert self.shell.display_formatter is not None
        return self.shell.display_formatter.mimebundle_formatter

    def _bundle(self, answer: ClientResult, **_: object) -> dict[str, str]:
        """Return the bundle of a result, within the allowance of the cell."""
        return self._session.allowance.bundle(answer)

    def _forget(self) -> None:
        if self._opened is not None:
            self._opened.start_cell()

    def _end_cell(self, *_: object) -> None:
        if self._opened is not None:
            self._opened.end_cell()

    def _inspect_cell(self, info: ExecutionInfo) -> None:
        """Note whether the value of the cell is that of a `%wap` line."""
        cell = str(info.raw_cell or "").replace("\\\n", " ")
        rows = [row for row in cell.split("\n") if row.strip()]
        self._ends_cell = bool(rows) and (_MAGIC.match(rows[-1]) or _CELL.match(cell)) is not None

    def _display(self, answer: ClientResult) -> None:
        """Display nothing for a result that is displayed already or quiet, which is bound to `_` anyway."""
        if self._opened is None or not self._opened.has_displayed(answer, ends_cell=self._ends_cell):
            raise NotImplementedError  # IPython then displays it in its own way

    @context_matcher(priority=1000, identifier="wap")  # type: ignore[untyped-decorator]  # IPython's own have none
    def _complete(self, context: CompletionContext) -> SimpleMatcherResult:
        before, until = context.text_until_cursor, monotonic() + TAB_SECONDS
        is_text = context.cursor_line > 0 and _CELL.match(context.full_text) is not None
        magic = _MAGIC.match(before)
        if magic is None and not is_text:
            return {
                "completions": [],
                "matched_fragment": "",
                "ordered": True,
                "suppress": False,
                "do_not_suppress": set(),
            }
        text = before if is_text or magic is None else before[magic.end() :]
        if not self._is_loaded(until):
            return _result([], text.rpartition(" ")[2])
        if is_text:
            return _complete_text(context.full_text.lstrip().split("\n")[0], text)
        found = self._session.completer.complete(
            text, len(text), heads_cell=before.lstrip().startswith("%%"), until=until
        )
        return _result(found.matches, text[found.start :])

    def _is_loaded(self, until: float) -> bool:
        """Return whether the completer is loaded by `until`; the thread that loads it goes on if that is later."""
        if self._opened is not None:
            return True
        from concurrent.futures import wait

        return bool(wait([self._prepare()], max(0.0, until - monotonic())).done)

    def _prepare(self, *_: object) -> Future[None]:
        """Load the modules for the first line and the first completion in a thread, after the cell with `%load_ext`.

        So neither that cell nor the first line waits for them.
        """
        if self._loading is None:
            from wap_kernel.client.background import run_in_thread

            self._loading = run_in_thread(_load, "wap-loading")
            self.shell.events.unregister("post_run_cell", self._prepare)
        return self._loading


def _complete_text(head: str, row: str) -> SimpleMatcherResult:
    """Complete the text of a cell with this head: a batch, and no names of Python."""
    from wap_kernel.model.errors import InvalidArgument
    from wap_kernel.notebook.kernel.cell_position import BATCHES
    from wap_kernel.notebook.kernel.completion import complete_batch
    from wap_kernel.notebook.language.line_parser import MAGIC, parse_words

    try:
        is_batch = parse_words(MAGIC.sub("", head, count=1), heads_cell=True).command.name in BATCHES
    except InvalidArgument:
        is_batch = False
    found = complete_batch(row, len(row)) if is_batch else None
    if found is None or not found.matches:
        return _result([], row.rpartition(" ")[2])
    return _result(found.matches, row[found.start :])


def _load() -> None:
    from importlib import import_module

    for name in _LOADED:
        import_module(f"wap_kernel.{name}")


def _result(matches: list[str], fragment: str) -> SimpleMatcherResult:
    """Return the matches, and suppress those of other matchers, such as the names of Python.

    IPython asks the other matchers when there is no match, so without one the typed text matches itself.
    """
    return {
        "completions": [SimpleCompletion(text=match, type="wap") for match in matches or [fragment]],
        "matched_fragment": fragment,
        "ordered": True,
        "suppress": True,
        "do_not_suppress": set(),
    }
