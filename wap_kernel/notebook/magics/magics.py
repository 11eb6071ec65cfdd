"""`%wap` and `%%wap` in IPython: how they are registered. What they do is loaded when one is first used.

What changes something is shown at once, by a card that follows it; what only looks is the value of the cell, like any
other expression. Both are in `_`.
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

    from wap_kernel.client.results import Answer
    from wap_kernel.notebook.magics.session import Session

TAB_SECONDS = 0.1
"""That a completion may take, with all that has to be loaded for it; 200 ms are promised on a machine that is busy."""
_LOADED = (
    "notebook.magics.session",
    "client.workspace_client",
    "client.discovery",
    "client.server_backend",
    "notebook.kernel.completion",
)
_MAGIC = re.compile(r"\s*(?:[^\W\d][\w.]*\s*=\s*)?%(%?)wap(?:\s|$)")
_CELL = re.compile(r"\s*%%wap(?:\s|$)")
_ANSWER = ("wap_kernel.client.results", "Answer")


def load(shell: InteractiveShell) -> None:
    """`%load_ext wap_kernel`."""
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
        self._begun: Session | None = None
        self._loading: Future[None] | None = None
        self._ends_cell = True

    @no_var_expand
    @line_cell_magic
    def wap(self, line: str, cell: str | None = None) -> Answer | None:
        """Look at the workspace and change it, as policy allows.

        `%wap` alone is an overview, `%wap help` lists the sub-commands, `%wap sh --help` explains one. `%%wap` runs the
        batch of operations below it, in JSON or YAML; `{{name}}` in it is the Python variable of that name.
        """
        return self._session.do(line, cell)

    @property
    def _session(self) -> Session:
        if self._begun is None:
            from wap_kernel.notebook.magics.session import Session

            self._begun = Session(self.shell)
        return self._begun

    # -- what IPython asks for

    def attach(self) -> None:
        self.shell.Completer.custom_matchers.append(self._complete)
        self.shell.events.register("pre_execute", self._forget)
        self.shell.events.register("pre_run_cell", self._look)
        self.shell.events.register("post_run_cell", self._prepare)
        self._displays.for_type_by_name(*_ANSWER, self._display)
        self._bundles.for_type_by_name(*_ANSWER, self._bundle)

    def detach(self) -> None:
        for kind in ("line", "cell"):
            self.shell.magics_manager.magics[kind].pop("wap", None)
        self.shell.Completer.custom_matchers.remove(self._complete)
        self.shell.events.unregister("pre_execute", self._forget)
        self.shell.events.unregister("pre_run_cell", self._look)
        if self._loading is None:
            self.shell.events.unregister("post_run_cell", self._prepare)
        self._displays.pop(".".join(_ANSWER), None)
        self._bundles.pop(".".join(_ANSWER), None)
        if self._begun is not None:
            self._begun.close()

    @property
    def _displays(self) -> Any:
        assert self.shell.display_formatter is not None  # IPython makes one for every shell
        return self.shell.display_formatter.ipython_display_formatter

    @property
    def _bundles(self) -> Any:
        assert self.shell.display_formatter is not None
        return self.shell.display_formatter.mimebundle_formatter

    def _bundle(self, answer: Answer, **_: object) -> dict[str, str]:
        """Of all that a cell shows, within what a saved notebook should hold."""
        return self._session.allowance.bundle(answer)

    def _forget(self) -> None:
        if self._begun is not None:
            self._begun.forget_shown()

    def _look(self, info: ExecutionInfo) -> None:
        """Whether the value of the cell is that of a line of ours."""
        cell = str(info.raw_cell or "").replace("\\\n", " ")
        rows = [row for row in cell.split("\n") if row.strip()]
        self._ends_cell = bool(rows) and (_MAGIC.match(rows[-1]) or _CELL.match(cell)) is not None

    def _display(self, answer: Answer) -> None:
        """Nothing more for what stands there already, or is to be quiet; `_` is it all the same."""
        if self._begun is None or not self._begun.has_shown(answer, ends_cell=self._ends_cell):
            raise NotImplementedError  # to IPython: show it as you would

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
            return _in_text(context.full_text.lstrip().split("\n")[0], text)
        found = self._session.completer.complete(
            text, len(text), heads_cell=before.lstrip().startswith("%%"), until=until
        )
        return _result(found.matches, text[found.start :])

    def _is_loaded(self, until: float) -> bool:
        """What completes, soon enough for whoever presses Tab. A thread loads it, which goes on if that is late."""
        if self._begun is not None:
            return True
        from concurrent.futures import wait

        return bool(wait([self._prepare()], max(0.0, until - monotonic())).done)

    def _prepare(self, *_: object) -> Future[None]:
        """Load what the first line and the first completion need, in a thread: when the cell that has loaded us is
        done, so that neither that cell nor they wait for it."""
        if self._loading is None:
            from wap_kernel.client.background import started

            self._loading = started(_load, "wap-loading")
            self.shell.events.unregister("post_run_cell", self._prepare)
        return self._loading


def _in_text(head: str, row: str) -> SimpleMatcherResult:
    """In the text of a cell with this head, up to the cursor: what a batch could go on with, and nothing of Python."""
    from wap_kernel.model.errors import InvalidArgument
    from wap_kernel.notebook.kernel.cell_position import BATCHES
    from wap_kernel.notebook.kernel.completion import in_batch
    from wap_kernel.notebook.language.line_parser import MAGIC, understand

    try:
        is_batch = understand(MAGIC.sub("", head, count=1), heads_cell=True).command.name in BATCHES
    except InvalidArgument:
        is_batch = False
    found = in_batch(row, len(row)) if is_batch else None
    if found is None or not found.matches:
        return _result([], row.rpartition(" ")[2])
    return _result(found.matches, row[found.start :])


def _load() -> None:
    from importlib import import_module

    for name in _LOADED:
        import_module(f"wap_kernel.{name}")


def _result(matches: list[str], fragment: str) -> SimpleMatcherResult:
    """Those of other matchers, such as Python's names, do not stand beside ours, nor in their place: IPython asks the
    others when there is nothing, so what has been typed stands for itself."""
    return {
        "completions": [SimpleCompletion(text=match, type="wap") for match in matches or [fragment]],
        "matched_fragment": fragment,
        "ordered": True,
        "suppress": True,
        "do_not_suppress": set(),
    }
