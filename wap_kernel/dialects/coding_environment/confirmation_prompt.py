"""The prompt that an MCP client shows its user before a call: the command, or the change as a diff.

The user's yes satisfies the workspace's own policy file and nothing else: it comes through the agent's own client.
"""

from __future__ import annotations

import hashlib
import posixpath
from dataclasses import dataclass, field

from wap_kernel.dialects.coding_environment import unread_preview
from wap_kernel.engine.workspace import Workspace
from wap_kernel.files.interface import Files
from wap_kernel.model.caller import Caller
from wap_kernel.model.edits import ReplaceText
from wap_kernel.model.errors import ApprovalRequired, WapError
from wap_kernel.model.git.operations import GitAction
from wap_kernel.model.limits import CODING_MAX_PROMPT_CHARACTERS
from wap_kernel.model.operations import (
    DeleteFile,
    Effect,
    ListFiles,
    ModifyFile,
    Operation,
    RunCommand,
    SearchFiles,
    WriteFile,
)
from wap_kernel.model.paths import render_path
from wap_kernel.model.text import escape_invisible, escape_one_line
from wap_kernel.policy.commands.command_evidence import collect_command_evidence
from wap_kernel.runs import approval_evidence
from wap_kernel.state.undo.preview_diff import find_written_path, preview_difference

RULE = "confirmationRequired"
NO_UNDO = "The command writes into the workspace directly. This cannot be undone."


@dataclass(frozen=True)
class ConfirmationPrompt:
    """An operation to confirm. Paths are relative to the server's root: the user knows no workspaceRoot."""

    tool: str
    reason: str
    digest: str
    """A digest of the whole operation and of the files it would change, as far as the prompt shows them.

    The user also confirms what a truncated text leaves out, and nothing else.
    """
    command: str | None = None
    folder: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    path: str | None = None
    diff: str | None = None
    is_diff_truncated: bool = False
    size: str | None = None
    """The size of the whole change, in words; the diff may show only a part."""
    note: str | None = None

    @property
    def text(self) -> str:
        """The prompt for people. No character in it moves a cursor or hides another."""
        head, lines = [f"{escape_one_line(self.reason)}. Do you agree?"], [""]
        if self.command is not None:
            lines += [f"Command: {escape_one_line(self.command)}", f"Folder: {escape_one_line(self.folder or '.')}"]
            lines += [
                f"Variable: {escape_one_line(name)}={escape_one_line(value)}"
                for name, value in self.environment.items()
            ]
        if self.path is not None:
            lines.append(f"{self.tool}: {escape_one_line(self.path)}")
        lines += [escape_invisible(text) for text in (self.note, self.diff) if text]
        whole = "\n".join([*head, *lines])
        excess = len(whole) - CODING_MAX_PROMPT_CHARACTERS
        if excess <= 0 and not self.is_diff_truncated:
            return whole
        # The head says it, too: not everybody reads to the end.
        size = self.size or f"{'more than ' if self.is_diff_truncated else ''}{len(whole)} characters"
        head.append(f"Only the beginning is shown. In all: {size}.")
        rest = "the rest is" if self.is_diff_truncated else f"{excess} more characters are"
        return f"{chr(10).join([*head, *lines])[:CODING_MAX_PROMPT_CHARACTERS]}\n... ({rest} not shown)"

    @property
    def key(self) -> str:
        """A key that no other prompt has."""
        return hashlib.sha256(f"{self.digest}\n{self.text}".encode("utf-8", "replace")).hexdigest()


def build_prompt(
    tool: str, operation: Operation, refusal: ApprovalRequired, workspace: Workspace, caller: Caller
) -> ConfirmationPrompt:
    """Build the prompt for an operation. It reads the file that would be changed, so call it on a thread."""
    reason, digest = str(refusal.details.get("reason", refusal.message)), approval_evidence.digest_operation(operation)
    if isinstance(operation, RunCommand):
        surroundings = approval_evidence.describe_surroundings(workspace)
        evidence = collect_command_evidence(workspace.judge.files_of(caller), operation, surroundings)
        digest = "\n".join((digest, *(f"{path} {state}" for path, state in evidence.items())))
        is_shared = operation.isolation == "shared" or workspace.layered is None
        return ConfirmationPrompt(
            tool,
            reason,
            digest,
            operation.line,
            _render_path(operation.cwd),
            dict(operation.environment),
            note=NO_UNDO if is_shared else None,
        )
    if isinstance(operation, GitAction):
        folder, note = _render_path(operation.folder), _describe_git_arguments(operation) or None
        return ConfirmationPrompt(tool, reason, digest, operation.line, folder, note=note)
    summary_path = operation.summary().get("path")
    path = _render_path(summary_path) if isinstance(summary_path, str) else None
    if operation.effect is Effect.READ:
        return ConfirmationPrompt(tool, reason, digest, path=path, note=_describe_query(operation) or None)
    files = workspace.judge.files_of(caller)
    real = find_written_path(files, operation)
    if real is None:
        return ConfirmationPrompt(tool, reason, digest, path=path)
    if workspace.judge.may_read(real, caller) or _is_absent(files, real):
        change = preview_difference(files, operation)
        digest = "\n".join((digest, *approval_evidence.collect_evidence(files, operation).values()))
    else:  # a diff would show content that a read refuses
        change = unread_preview.preview_change(render_path(real), operation)
    return ConfirmationPrompt(
        tool,
        reason,
        digest,
        path=path,
        diff=change.get("diff"),
        is_diff_truncated=bool(change.get("isDiffTruncated")),
        size=_describe_size(operation),
        note="\n".join(filter(None, (_describe_recursion(operation), change.get("note")))) or None,
    )


def _is_absent(files: Files, path: str) -> bool:
    try:
        files.stat(path, follow=False)
    except FileNotFoundError:
        return True
    except (OSError, WapError):
        return False
    return False


def _describe_query(operation: Operation) -> str:
    """Describe the text and the files of a search or listing, which the path does not name."""
    lines = []
    if isinstance(operation, SearchFiles):
        lines = [f"Folder: {escape_one_line(_render_path(path))}" for path in operation.paths]
        lines.append(f"{'Pattern' if operation.regex else 'Text'}: {escape_one_line(operation.query)}")
    if isinstance(operation, SearchFiles | ListFiles):
        lines += [f"Files: {escape_one_line(pattern)}" for pattern in operation.include or ()]
    return "\n".join(lines)


def _describe_size(operation: Operation) -> str | None:
    if isinstance(operation, WriteFile):
        lines = operation.content.count(b"\n") + (not operation.content.endswith(b"\n"))
        return f"{operation.content_size} bytes in {lines} lines are written"
    if isinstance(operation, ModifyFile):
        is_wide = any(isinstance(change, ReplaceText) and change.which == "every" for change in operation.edits)
        occurrences = ", in every place where the old text stands" if is_wide else ""
        return f"{len(operation.edits)} edits with {operation.content_size} bytes of new text{occurrences}"
    return None


def _describe_recursion(operation: Operation) -> str | None:
    is_deep = isinstance(operation, DeleteFile) and operation.recursive
    return "With everything in it." if is_deep else None


def _render_path(path: str) -> str:
    return render_path(posixpath.normpath(path))


def _describe_git_arguments(operation: GitAction) -> str:
    """Describe the files and the message of a git command, which its line leaves out."""
    files = [f"File: {escape_one_line(_render_path(path))}" for path in operation.files]
    message = [f"Message: {operation.message}"] if operation.message else []
    return "\n".join((*files, *message))
