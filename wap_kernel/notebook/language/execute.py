"""Execute lines with a workspace client."""

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
from wap_kernel.notebook.language.line_parser import Line, parse_words

if TYPE_CHECKING:
    from wap_kernel.client.backend import RunUpdate
    from wap_kernel.client.workspace_client import WorkspaceClient

_ID = re.compile(r"run_|apr_|last$|[0-9a-f]{4,}$")

Names = MutableMapping[str, Any]
Operations = list[dict[str, Any]]


class RunDisplay(Protocol):
    """A display of a run in progress; the caller displays its result."""

    def begin(self, operations: Operations) -> None:
        """Begin to display a run; `operations` are empty for a run of another caller."""

    def update(self, update: RunUpdate) -> None: ...

    def end(self) -> None:
        """End the display: the run has ended, or is no longer waited for."""


def execute_line(
    line: Line,
    client: WorkspaceClient,
    display: RunDisplay,
    names: Names | None = None,
    parameters: Mapping[str, object] | None = None,
) -> ClientResult:
    """Execute `line`; `names` are the variables of Python, which a batch reads and `--to` binds.

    Without Python, a batch reads the `parameters` of the notebook, if there are any.
    """
    if line.options.to is not None and names is None:
        raise InvalidArgument("--to: this kernel has no Python variables.")
    name = line.command.name
    try:
        if name == "help":
            answer: ClientResult = Note({"text": usage(line.options.about or "", has_python=names is not None)})
        else:
            variables = names if names is not None else parameters or None
            answer = (
                _run_batch(line, client, display, variables) if name == "run" else _ACTIONS[name](line, client, display)
            )
    except WapError as error:
        if isinstance(error, FileNotFound):
            error.hint = error.hint or _path_hint(client)
        raise reword_error(error) from None
    if line.options.to is not None and names is not None:
        names[line.options.to] = answer
    return answer


def _path_hint(client: WorkspaceClient) -> str | None:
    """Return a hint for a person who names a file by its path relative to the notebook."""
    try:
        root = str(client.overview().data["workspace"]["root"])
    except WapError:
        return None
    here = os.getcwd().removeprefix(root.rstrip(os.sep) + os.sep)
    if here == os.getcwd():
        return None
    return f"Paths begin at the workspace. The files next to this notebook are in {here.replace(os.sep, '/')}/"


def list_operations(line: Line) -> Operations:
    """Return the operations of a line; empty for a line that no batch could express."""
    build = _OPERATIONS.get(line.command.name)
    return [] if build is None else build(line)


# -- runs


def _run_batch(
    line: Line, client: WorkspaceClient, display: RunDisplay, names: Mapping[str, object] | None
) -> ClientResult:
    text = line.body or ""
    message = batch_cell.parse_batch(text, None if line.options.no_vars else names, line.first_line)
    try:
        return _run(line, client, display, message["operations"], message)
    except InvalidArgument as error:  # a server that is stricter than this client
        raise batch_cell.locate_problems(error, message, text, line.first_line) from None


def _run_line(line: Line, client: WorkspaceClient, display: RunDisplay) -> ClientResult:
    operations = list_operations(line)
    try:
        return _run(line, client, display, operations, {})
    except InvalidArgument as error:
        raise batch_cell.describe_problem(error, operations) from None


def _run(
    line: Line, client: WorkspaceClient, display: RunDisplay, operations: Operations, message: Mapping[str, Any]
) -> RunResult:
    options = line.options
    return _watch(
        display,
        lambda: client.run(
            operations,
            atomic=getattr(options, "atomic", False) or bool(message.get("atomic")),
            dry_run=getattr(options, "dry_run", False) or bool(message.get("dryRun")),
            approve=getattr(options, "yes", False),
            wait_for_approval=getattr(options, "wait", 0.0),
            on_update=display.update,
        ),
        operations,
    )


def _watch(display: RunDisplay, start: Callable[[], RunResult], operations: Operations | None = None) -> RunResult:
    """Start a run and display it; the operations of another caller's run are not known."""
    try:
        display.begin(operations or [])
        return start()
    finally:
        display.end()


def _write(line: Line) -> Operations:
    content = line.body if line.options.content is None else line.options.content
    operation = {"type": "createFile", "path": line.options.path, "content": content or ""}
    return [operation if line.options.new else {**operation, "overwrite": True}]


def _edit(line: Line) -> Operations:
    if not line.options.old:
        raise InvalidArgument("edit: the text to replace is empty.", hint='"write PATH TEXT" replaces the whole file.')
    edit = {"oldContent": line.options.old, "newContent": line.options.new}
    return [{"type": "editFile", "path": line.options.path, "edits": [edit]}]


def _shell(line: Line) -> Operations:
    operation = {"type": "shell", "command": line.options.command or (line.body or "").strip()}
    if line.options.cwd is not None:
        operation["cwd"] = line.options.cwd
    if line.options.timeout is not None:
        operation["timeout"] = round(line.options.timeout * 1_000)
    if line.options.shared:
        operation["isolation"] = "shared"
    return [operation]


def _operations_to_check(line: Line) -> Operations:
    """Return the operations of a line to check; text that is no sub-command is taken for a command."""
    if line.body is not None:
        return list(batch_cell.parse_batch(line.body, None, line.first_line)["operations"])
    text = line.options.command or ""
    name = text.split(None, 1)[0] if text else ""
    if name in _OPERATIONS and name != "check":
        try:
            return list_operations(parse_words(text))
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
    "check": _operations_to_check,
}


# -- other sub-commands


def _search(line: Line, client: WorkspaceClient, display: RunDisplay) -> ClientResult:
    options = line.options
    if not options.pattern:
        raise InvalidArgument("search: the text to search for is empty.", hint='Write: search "some text" PATH')
    return client.search(
        options.pattern,
        options.path,
        regex=options.regex,
        ignore_case=options.ignore_case,
        globs=options.glob,
        context=options.context,
    )


def _check(line: Line, client: WorkspaceClient, display: RunDisplay) -> ClientResult:
    operations = _operations_to_check(line)
    try:
        return client.check(operations)
    except InvalidArgument as error:
        raise batch_cell.describe_problem(error, operations) from None


def _approve(line: Line, client: WorkspaceClient, display: RunDisplay) -> ClientResult:
    """Approve what a run waits for; what this notebook has not displayed yet is displayed instead."""
    unseen = client.show_unseen(line.options.run)
    if unseen is not None:
        return unseen
    return _watch(
        display, lambda: client.approve(line.options.run, remember=line.options.always, on_update=display.update)
    )


def _revert(line: Line, client: WorkspaceClient, display: RunDisplay) -> ClientResult:
    return _watch(display, lambda: client.revert(line.options.run, force=line.options.force, on_update=display.update))


def _apply(line: Line, client: WorkspaceClient, display: RunDisplay) -> ClientResult:
    paths = line.options.paths or None
    return _watch(display, lambda: client.apply(line.options.run, paths, on_update=display.update))


def _deny(line: Line, client: WorkspaceClient, display: RunDisplay) -> ClientResult:
    """Deny a run, whose id may be left out.

    A first word that looks like an id is an id, not a reason: it may name a run that no longer exists, and another that
    waits would be denied.
    """
    words = [word for word in (line.options.run, *line.options.reason) if word is not None]
    run = words.pop(0) if words and _ID.match(words[0]) else None
    return _watch(display, lambda: client.deny(run, reason=" ".join(words) or None, on_update=display.update))


def _grants(line: Line, client: WorkspaceClient, display: RunDisplay) -> ClientResult:
    if line.options.revoke is not None:
        try:
            client.revoke(line.options.revoke)
        except NotFound:
            raise NotFound(f"There is no grant {line.options.revoke!r}.", hint="To see them all: %wap grants") from None
    return client.grants()


_ACTIONS: dict[str, Callable[[Line, WorkspaceClient, RunDisplay], ClientResult]] = {
    "status": lambda line, client, display: client.overview(),
    "ls": lambda line, client, display: client.ls(
        line.options.path, recursive=line.options.recursive or line.options.depth is not None, depth=line.options.depth
    ),
    "read": lambda line, client, display: client.read(
        line.options.path, lines=line.options.lines or line.options.window
    ),
    "search": _search,
    "write": _run_line,
    "edit": _run_line,
    "rm": _run_line,
    "sh": _run_line,
    "git": _run_line,
    "check": _check,
    "runs": lambda line, client, display: client.runs(status=line.options.status, limit=line.options.limit),
    "show": lambda line, client, display: client.show(line.options.run),
    "approve": _approve,
    "deny": _deny,
    "cancel": lambda line, client, display: client.cancel(line.options.run),
    "revert": _revert,
    "apply": _apply,
    "audit": lambda line, client, display: client.audit(
        limit=line.options.limit, tool=line.options.tool, outcome=line.options.outcome
    ),
    "policy": lambda line, client, display: client.policy(),
    "grants": _grants,
}
