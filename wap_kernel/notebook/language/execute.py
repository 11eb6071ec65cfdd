"""What each sub-command does, with the hands of whoever wrote it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Protocol

from wap_kernel.client.results import ClientResult, Note, RunResult
from wap_kernel.model.errors import FileNotFound, InvalidArgument, NotFound, WapError
from wap_kernel.notebook.language import batch_cell
from wap_kernel.notebook.language.commands import usage
from wap_kernel.notebook.language.error_messages import reword_error
from wap_kernel.notebook.language.line_parser import Line, understand

if TYPE_CHECKING:
    from wap_kernel.client.backend import RunUpdate
    from wap_kernel.client.workspace_client import WorkspaceClient

_ID = re.compile(r"run_|apr_|last$|[0-9a-f]{4,}$")

Names = MutableMapping[str, Any]
Operations = list[dict[str, Any]]


class Show(Protocol):
    """Whoever shows a run while it goes. Its answer is not shown here."""

    def begin(self, operations: Operations) -> None:
        """A run of these is about to start, or one goes on that somebody else began: its operations are not known."""

    def sent(self, sent: RunUpdate) -> None: ...

    def end(self) -> None:
        """It has ended, or nobody waits for it any longer."""


def perform(line: Line, hands: WorkspaceClient, show: Show, names: Names | None = None) -> ClientResult:
    """Do what `line` says. `names` are Python's variables: a batch reads them, and `--to` binds one."""
    if line.options.to is not None and names is None:
        raise InvalidArgument("--to: there are no Python variables here.")
    name = line.command.name
    try:
        if name == "help":
            answer: ClientResult = Note({"text": usage(line.options.about or "", has_python=names is not None)})
        else:
            answer = _batch(line, hands, show, names) if name == "run" else _ACTIONS[name](line, hands, show)
    except WapError as error:
        if isinstance(error, FileNotFound):
            error.hint = error.hint or _where(hands)
        raise reword_error(error) from None
    if line.options.to is not None and names is not None:
        names[line.options.to] = answer
    return answer


def _where(hands: WorkspaceClient) -> str | None:
    """For who names a file by its place beside the notebook."""
    try:
        root = str(hands.overview().data["workspace"]["root"])
    except WapError:
        return None
    here = os.getcwd().removeprefix(root.rstrip(os.sep) + os.sep)
    if here == os.getcwd():
        return None
    return f"Paths begin at the workspace. What lies beside this notebook is in {here.replace(os.sep, '/')}/"


def operations(line: Line) -> Operations:
    """What the line would do; empty for one that does nothing, or looks in ways that no batch has."""
    made = _OPERATIONS.get(line.command.name)
    return [] if made is None else made(line)


# -- what is done as a run


def _batch(line: Line, hands: WorkspaceClient, show: Show, names: Mapping[str, object] | None) -> ClientResult:
    text = line.body or ""
    message = batch_cell.message(text, None if line.options.no_vars else names, line.first_line)
    try:
        return _run(line, hands, show, message["operations"], message)
    except InvalidArgument as error:  # of a server that is stricter than we are
        raise batch_cell.located(error, message, text, line.first_line) from None


def _single(line: Line, hands: WorkspaceClient, show: Show) -> ClientResult:
    wanted = operations(line)
    try:
        return _run(line, hands, show, wanted, {})
    except InvalidArgument as error:
        raise batch_cell.unnumbered(error, wanted) from None


def _run(line: Line, hands: WorkspaceClient, show: Show, wanted: Operations, message: Mapping[str, Any]) -> RunResult:
    options = line.options
    return _seen(
        show,
        lambda: hands.run(
            wanted,
            atomic=getattr(options, "atomic", False) or bool(message.get("atomic")),
            dry_run=getattr(options, "dry_run", False) or bool(message.get("dryRun")),
            approve=getattr(options, "yes", False),
            wait_for_approval=getattr(options, "wait", 0.0),
            on_sent=show.sent,
        ),
        wanted,
    )


def _seen(show: Show, watched: Callable[[], RunResult], wanted: Operations | None = None) -> RunResult:
    """`wanted` is not known of a run that somebody else began."""
    try:
        show.begin(wanted or [])
        return watched()
    finally:
        show.end()


def _write(line: Line) -> Operations:
    content = line.body if line.options.content is None else line.options.content
    made = {"type": "createFile", "path": line.options.path, "content": content or ""}
    return [made if line.options.new else {**made, "overwrite": True}]


def _edit(line: Line) -> Operations:
    if not line.options.old:
        raise InvalidArgument(
            "edit: there is no text to be replaced.", hint='"write PATH TEXT" replaces all that is in the file.'
        )
    edit = {"oldContent": line.options.old, "newContent": line.options.new}
    return [{"type": "editFile", "path": line.options.path, "edits": [edit]}]


def _shell(line: Line) -> Operations:
    made = {"type": "shell", "command": line.options.command or (line.body or "").strip()}
    if line.options.cwd is not None:
        made["cwd"] = line.options.cwd
    if line.options.timeout is not None:
        made["timeout"] = round(line.options.timeout * 1_000)
    return [made]


def _checked(line: Line) -> Operations:
    """A line that a batch could hold; anything else is taken for a command."""
    if line.body is not None:
        return list(batch_cell.message(line.body, None, line.first_line)["operations"])
    text = line.options.command or ""
    asked = text.split(None, 1)[0] if text else ""
    if asked in _OPERATIONS and asked != "check":
        try:
            return operations(understand(text))
        except InvalidArgument as error:
            error.hint = (error.hint or "").replace("%wap sh ", "%wap check sh ") or None
            raise
    return [{"type": "shell", "command": text}]


_OPERATIONS: dict[str, Callable[[Line], Operations]] = {
    "write": _write,
    "edit": _edit,
    "rm": lambda line: [{"type": "deleteFile", "path": line.options.path}],
    "read": lambda line: [{"type": "readFile", "path": line.options.path}],
    "sh": _shell,
    "git": lambda line: [{"type": "shell", "command": f"git {line.options.command or ''}".strip()}],
    "check": _checked,
}


# -- everything else


def _search(line: Line, hands: WorkspaceClient, show: Show) -> ClientResult:
    asked = line.options
    if not asked.pattern:
        raise InvalidArgument("search: there is no text to look for.", hint='Write: search "some text" PATH')
    return hands.search(
        asked.pattern,
        asked.path,
        regex=asked.regex,
        ignore_case=asked.ignore_case,
        globs=asked.glob,
        context=asked.context,
    )


def _check(line: Line, hands: WorkspaceClient, show: Show) -> ClientResult:
    wanted = _checked(line)
    try:
        return hands.check(wanted)
    except InvalidArgument as error:
        raise batch_cell.unnumbered(error, wanted) from None


def _approve(line: Line, hands: WorkspaceClient, show: Show) -> ClientResult:
    return _seen(show, lambda: hands.approve(line.options.run, remember=line.options.always, on_sent=show.sent))


def _revert(line: Line, hands: WorkspaceClient, show: Show) -> ClientResult:
    return _seen(show, lambda: hands.revert(line.options.run, force=line.options.force, on_sent=show.sent))


def _deny(line: Line, hands: WorkspaceClient, show: Show) -> ClientResult:
    """The id may be left out. What looks like one is one, and no reason: it might be a run that is there no more, and
    another that waits would be denied."""
    said = [word for word in (line.options.run, *line.options.reason) if word is not None]
    run = said.pop(0) if said and _ID.match(said[0]) else None
    return _seen(show, lambda: hands.deny(run, reason=" ".join(said) or None, on_sent=show.sent))


def _grants(line: Line, hands: WorkspaceClient, show: Show) -> ClientResult:
    if line.options.revoke is not None:
        try:
            hands.revoke(line.options.revoke)
        except NotFound:
            raise NotFound(f"There is no grant {line.options.revoke!r}.", hint="To see them all: %wap grants") from None
    return hands.grants()


_ACTIONS: dict[str, Callable[[Line, WorkspaceClient, Show], ClientResult]] = {
    "status": lambda line, hands, show: hands.overview(),
    "ls": lambda line, hands, show: hands.ls(
        line.options.path, recursive=line.options.recursive or line.options.depth is not None, depth=line.options.depth
    ),
    "read": lambda line, hands, show: hands.read(line.options.path, lines=line.options.lines or line.options.window),
    "search": _search,
    "write": _single,
    "edit": _single,
    "rm": _single,
    "sh": _single,
    "git": _single,
    "check": _check,
    "runs": lambda line, hands, show: hands.runs(status=line.options.status, limit=line.options.limit),
    "show": lambda line, hands, show: hands.show(line.options.run),
    "approve": _approve,
    "deny": _deny,
    "cancel": lambda line, hands, show: hands.cancel(line.options.run),
    "revert": _revert,
    "audit": lambda line, hands, show: hands.audit(
        limit=line.options.limit, tool=line.options.tool, outcome=line.options.outcome
    ),
    "policy": lambda line, hands, show: hands.policy(),
    "grants": _grants,
}
