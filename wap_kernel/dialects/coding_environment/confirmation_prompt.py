"""What the user of an MCP client is shown before they say yes: the command, or the change as a diff.

It satisfies the workspace's own policy file and nothing else, since the answer comes from the agent's own client.
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
from wap_kernel.model.limits import CODING_MAX_PROMPT_CHARACTERS
from wap_kernel.model.operations import (
    DeleteFile,
    Effect,
    GitAction,
    ListFiles,
    ModifyFile,
    Operation,
    RunCommand,
    SearchFiles,
    WriteFile,
)
from wap_kernel.model.paths import render_path
from wap_kernel.model.safe_text import escape_invisible, escape_one_line
from wap_kernel.runs import approval_evidence
from wap_kernel.state.undo.preview_diff import difference, path_of

RULE = "confirmationRequired"


@dataclass(frozen=True)
class Question:
    """Paths are relative to the server's root: the user knows no workspaceRoot."""

    tool: str
    reason: str
    digest: str
    """Of the whole operation, and of what stands where it would act as far as that is shown: what the text leaves out
    is agreed to as well, and nothing else is."""
    command: str | None = None
    folder: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    path: str | None = None
    diff: str | None = None
    is_diff_cut: bool = False
    size: str | None = None
    """In words, of what a diff may show a part of."""
    note: str | None = None

    @property
    def text(self) -> str:
        """For people. No character of it moves a cursor or hides another."""
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
        left_out = len(whole) - CODING_MAX_PROMPT_CHARACTERS
        if left_out <= 0 and not self.is_diff_cut:
            return whole
        # Said before it, too: not everybody reads to the end.
        size = self.size or f"{'more than ' if self.is_diff_cut else ''}{len(whole)} characters"
        head.append(f"Only the beginning is shown. In all: {size}.")
        rest = "the rest is" if self.is_diff_cut else f"{left_out} more characters are"
        return f"{chr(10).join([*head, *lines])[:CODING_MAX_PROMPT_CHARACTERS]}\n... ({rest} not shown)"

    @property
    def key(self) -> str:
        """Tells this question from every other."""
        return hashlib.sha256(f"{self.digest}\n{self.text}".encode("utf-8", "replace")).hexdigest()


def question(
    tool: str, operation: Operation, refusal: ApprovalRequired, workspace: Workspace, caller: Caller
) -> Question:
    """On a thread: it looks at the file that would be changed."""
    reason, digest = str(refusal.details.get("reason", refusal.message)), approval_evidence.digest_operation(operation)
    if isinstance(operation, RunCommand):
        return Question(tool, reason, digest, operation.line, _shown(operation.cwd), dict(operation.environment))
    if isinstance(operation, GitAction):
        folder, note = _shown(operation.folder), _told_to_git(operation) or None
        return Question(tool, reason, digest, operation.line, folder, note=note)
    named = operation.summary().get("path")
    path = _shown(named) if isinstance(named, str) else None
    if operation.effect is Effect.READ:
        return Question(tool, reason, digest, path=path, note=_looked_for(operation) or None)
    files = workspace.judge.files_of(caller)
    real = path_of(files, operation)
    if real is None:
        return Question(tool, reason, digest, path=path)
    if workspace.judge.may_read(real, caller) or _is_absent(files, real):
        change = difference(files, operation)
        digest = "\n".join((digest, *approval_evidence.collect_evidence(files, operation).values()))
    else:  # a diff would tell what a read would not
        change = unread_preview.shown(render_path(real), operation)
    return Question(
        tool,
        reason,
        digest,
        path=path,
        diff=change.get("diff"),
        is_diff_cut=bool(change.get("isDiffTruncated")),
        size=_size(operation),
        note="\n".join(filter(None, (_everything(operation), change.get("note")))) or None,
    )


def _is_absent(files: Files, path: str) -> bool:
    try:
        files.stat(path, follow=False)
    except FileNotFoundError:
        return True
    except (OSError, WapError):
        return False
    return False


def _looked_for(operation: Operation) -> str:
    """By what reads: the path does not say it."""
    lines = []
    if isinstance(operation, SearchFiles):
        lines = [f"Folder: {escape_one_line(_shown(path))}" for path in operation.paths]
        lines.append(f"{'Pattern' if operation.regex else 'Text'}: {escape_one_line(operation.query)}")
    if isinstance(operation, SearchFiles | ListFiles):
        lines += [f"Files: {escape_one_line(pattern)}" for pattern in operation.include or ()]
    return "\n".join(lines)


def _size(operation: Operation) -> str | None:
    if isinstance(operation, WriteFile):
        lines = operation.content.count(b"\n") + (not operation.content.endswith(b"\n"))
        return f"{operation.content_size} bytes in {lines} lines are written"
    if isinstance(operation, ModifyFile):
        is_wide = any(isinstance(change, ReplaceText) and change.which == "every" for change in operation.edits)
        places = ", in every place where the old text stands" if is_wide else ""
        return f"{len(operation.edits)} edits with {operation.content_size} bytes of new text{places}"
    return None


def _everything(operation: Operation) -> str | None:
    is_deep = isinstance(operation, DeleteFile) and operation.recursive
    return "With everything in it." if is_deep else None


def _shown(path: str) -> str:
    return render_path(posixpath.normpath(path))


def _told_to_git(operation: GitAction) -> str:
    """What its line leaves out."""
    files = [f"File: {escape_one_line(_shown(path))}" for path in operation.files]
    message = [f"Message: {operation.message}"] if operation.message else []
    return "\n".join((*files, *message))
