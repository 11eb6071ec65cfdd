"""What the user of an MCP client is shown before they say yes: the command, or the change as a diff.

It satisfies the workspace's own policy file and nothing else, since the answer comes from the agent's own client.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from wap_kernel.caller import Caller
from wap_kernel.dialects.coding_environment.places import shown
from wap_kernel.errors import ApprovalRequired
from wap_kernel.operations import GitAction, Operation, RunCommand
from wap_kernel.render.chars import one_line, visible
from wap_kernel.runs.differences import difference, path_of
from wap_kernel.workspace import Workspace

RULE = "confirmationRequired"
MAX_SHOWN = 20_000
"""Characters. What is longer is cut, and says so: the user may well say no to what they cannot see."""


@dataclass(frozen=True)
class Question:
    tool: str
    reason: str
    command: str | None = None
    folder: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    path: str | None = None
    diff: str | None = None
    note: str | None = None

    @property
    def text(self) -> str:
        """For people. No character of it moves a cursor or hides another."""
        lines = [f"{one_line(self.reason)}. Do you agree?", ""]
        if self.command is not None:
            lines += [f"Command: {one_line(self.command)}", f"Folder: {one_line(self.folder or '.')}"]
            lines += [f"Variable: {one_line(name)}={one_line(value)}" for name, value in self.environment.items()]
        if self.path is not None:
            lines.append(f"{self.tool}: {one_line(self.path)}")
        lines += [visible(text) for text in (self.note, self.diff) if text]
        text = "\n".join(lines)
        left_out = len(text) - MAX_SHOWN
        return text if left_out <= 0 else f"{text[:MAX_SHOWN]}\n... ({left_out} more characters are not shown)"


def question(
    tool: str, operation: Operation, refusal: ApprovalRequired, workspace: Workspace, caller: Caller
) -> Question:
    """On a thread: it looks at the file that would be changed."""
    reason = str(refusal.details.get("reason", refusal.message))
    if isinstance(operation, RunCommand):
        folder = shown(operation.cwd, operation.within)
        return Question(tool, reason, operation.line, folder, dict(operation.environment))
    if isinstance(operation, GitAction):
        folder = shown(operation.folder, operation.within)
        return Question(tool, reason, operation.line, folder, note=_told_to_git(operation) or None)
    files = workspace.judge.files_of(caller)
    named = operation.summary().get("path")
    path = shown(named, operation.within) if isinstance(named, str) else None
    real = path_of(files, operation)
    if real is None or not workspace.judge.may_read(real, caller):  # a diff would tell what a read would not
        return Question(tool, reason, path=path)
    change = difference(files, operation)
    return Question(tool, reason, path=path, diff=change.get("diff"), note=change.get("note"))


def _told_to_git(operation: GitAction) -> str:
    """What its line leaves out."""
    files = [f"File: {one_line(shown(path, operation.within))}" for path in operation.files]
    message = [f"Message: {operation.message}"] if operation.message else []
    return "\n".join((*files, *message))
