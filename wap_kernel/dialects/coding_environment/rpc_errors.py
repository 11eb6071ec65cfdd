"""Errors of tools with the catalog's codes of JSON-RPC.

| what | code |
|---|---|
| invalid or missing arguments; no such file, folder or tool; something stands in the way | -32602 |
| a path leaves workspaceRoot or the workspace | -32001 |
| policy, protection or the operating system closes a path | -32002 |
| a file or a content is too large | -32003 |
| a command is not allowed, or a tool not opened to this agent | -32004 |
| a confirmation or an approval is needed first | -32005 |
| a command timed out (the data holds its output so far) or could not be started; nothing confines commands; too many \
calls; no space; a file is changing or in use; a bug | -32603 |

The data holds `code` (see `errors.Code`), which tells errors with the same number apart, `hint` (what to do next) and
details.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from wap_kernel.dialects.agent_spaces.event_writer import _escape_surrogates
from wap_kernel.dialects.batch_authorization import SCOPE_RULE
from wap_kernel.dialects.coding_environment.workspace_root import render_reachable, render_relative
from wap_kernel.dialects.hints import render_coding_hint
from wap_kernel.model.errors import Code, OutsideWorkspace, PathClosed, WapError
from wap_kernel.model.limits import CODING_MAX_ERROR_CHARACTERS
from wap_kernel.model.operations import Operation
from wap_kernel.redaction import results

INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
PATH_TRAVERSAL = -32001
POLICY_VIOLATION = -32002
FILE_TOO_LARGE = -32003
OPERATION_DENIED = -32004
CONFIRMATION_REQUIRED = -32005

WORKSPACE_ROOT = "workspaceRoot: allowedPaths"
"""The rule that keeps links from leading out of workspaceRoot."""
OFFERED_TOOLS = "mcp_tools"
"""The rule that offers files as resources only where the tools that read them are offered."""

_CODES: Mapping[Code, int] = MappingProxyType(
    {
        Code.INVALID_ARGUMENT: INVALID_PARAMS,
        Code.FILE_NOT_FOUND: INVALID_PARAMS,
        Code.NOT_FOUND: INVALID_PARAMS,
        Code.FILE_EXISTS: INVALID_PARAMS,
        Code.BINARY_FILE: INVALID_PARAMS,
        Code.EDIT_NOT_FOUND: INVALID_PARAMS,
        Code.EDIT_AMBIGUOUS: INVALID_PARAMS,
        Code.PERMISSION_DENIED: POLICY_VIOLATION,
        Code.SIZE_LIMIT_EXCEEDED: FILE_TOO_LARGE,
        Code.APPROVAL_REQUIRED: CONFIRMATION_REQUIRED,
    }
)


class RpcError(Exception):
    """A JSON-RPC error, ready to be sent."""

    def __init__(self, code: int, message: str, data: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = dict(data)


def to_rpc_error(tool: str, error: WapError) -> RpcError:
    """Convert an error of `tool` to a JSON-RPC error."""
    translated = translate_error(tool, error)
    data = {"code": translated.code.value, "hint": translated.hint, **translated.details}
    return RpcError(_choose_code(tool, error), _escape_surrogates(translated.text), _escape_surrogates(data))


def translate_error(tool: str, error: WapError) -> WapError:
    """Return the error with the hint of this dialect, truncated and redacted."""
    hint = render_coding_hint(tool, error.code, error.hint)
    details = error.details
    if isinstance(variable := details.get("variable"), str):
        details = {**details, "variable": _truncate(variable)}
    return results.redact_outgoing(type(error)(_truncate(error.message), hint=hint, **details))


def _truncate(text: str) -> str:
    """Truncate a text that may quote a name of any length."""
    return text if len(text) <= CODING_MAX_ERROR_CHARACTERS else f"{text[:CODING_MAX_ERROR_CHARACTERS]}..."


def relocate_error(error: WapError, operation: Operation) -> WapError:
    """Return the error with its path relative to workspaceRoot, as the caller knows it."""
    path, within = error.details.get("path"), operation.within
    if within == ".":
        return error
    error.details = _relocate_changes(error.details, within)
    # The text of policy starts with the path; its patterns stay as they are written.
    message = error.message.replace(f'Path "{within}/', 'Path "', 1)
    if not isinstance(path, str):
        return type(error)(message, hint=error.hint, **error.details)
    if error.code is Code.FILE_NOT_FOUND and path == within:
        hint = "Name a folder that there is; listFiles without workspaceRoot shows them."
        return type(error)(f"workspaceRoot is no folder: {path}", hint=hint, **error.details)
    relative = render_relative(path, within)
    if message.endswith(f": {path}"):
        message = f"{message.removesuffix(path)}{relative}"
    return type(error)(message, hint=error.hint, **{**error.details, "path": relative})


def _relocate_changes(details: Mapping[str, Any], within: str) -> dict[str, Any]:
    """Return the details with the paths of a command's changes that were not applied relative to workspaceRoot."""
    relocated = dict(details)
    if "refusedChanges" in details:
        relocated["refusedChanges"] = [
            {**each, "path": render_reachable(each["path"], within)} for each in details["refusedChanges"]
        ]
    if "conflicts" in details:
        relocated["conflicts"] = [render_reachable(path, within) for path in details["conflicts"]]
    return relocated


def _choose_code(tool: str, error: WapError) -> int:
    if error.code is Code.PERMISSION_DENIED:
        if isinstance(error, OutsideWorkspace) or error.details.get("rule") == WORKSPACE_ROOT:
            return PATH_TRAVERSAL
        if error.details.get("rule") in (SCOPE_RULE, OFFERED_TOOLS) or (
            tool == "runCommand" and not isinstance(error, PathClosed)
        ):
            return OPERATION_DENIED
    return _CODES.get(error.code, INTERNAL_ERROR)
