"""Define the seven tools of the interface, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from wap_kernel.dialects.tool import P, Tool
from wap_kernel.dialects.tool_interface import answers, git_answers, parameters
from wap_kernel.dialects.tool_interface.git_parameters import GitParameters
from wap_kernel.model.operations import Effect

DIALECT = "tool_interface"


def _no_answer(*_: Any) -> answers.Answer:
    raise NotImplementedError


@dataclass(frozen=True)
class WorkspaceTool(Tool[P]):
    """A tool of the interface."""

    answer: Callable[[Any, Any], answers.Answer] = _no_answer
    """Returns the answer, from the operation and its result."""


_TOOLS: tuple[WorkspaceTool[Any], ...] = (
    WorkspaceTool(
        "bash",
        "Run a command",
        "Runs a command line in the workspace and waits for it: tests, builds, linters. A failing command is an "
        "answer with its exit_code. Its changes are applied when it has ended; refused_changes and conflicts name "
        "those that are not. Of each stream at most 50 KB are shown, beginning and end. Not for reading, "
        'finding or editing files: the other tools are faster and can be checked. Example: {"command": "npm test", '
        '"workdir": "/workspace/app", "timeout_ms": 60000}',
        Effect.EXECUTE,
        parameters.BashParameters,
        answers.BashAnswer,
        destructive=True,
        answer=answers.answer_bash,
    ),
    WorkspaceTool(
        "read",
        "Read a file or list a folder",
        'Reads a file with a number before each line ("12: text"), or lists a folder, whose folders end in /. Of a '
        "binary file it tells size and type. Without limit at most 2000 lines of at most 2000 characters; note says "
        'how to go on. Not to look for something: grep. Example: {"file_path": "/workspace/src/app.ts", "offset": 100, '
        '"limit": 50}',
        Effect.READ,
        parameters.ReadParameters,
        answers.ReadAnswer,
        idempotent=True,
        answer=answers.answer_read,
    ),
    WorkspaceTool(
        "write",
        "Write a file",
        "Creates a file or replaces all of its content, atomically; folders on the way are made. Not to change a part "
        'of a file: edit. Example: {"file_path": "/workspace/notes.md", "content": "- first\\n"}',
        Effect.WRITE,
        parameters.WriteParameters,
        answers.WriteAnswer,
        destructive=True,
        idempotent=True,
        answer=answers.answer_write,
    ),
    WorkspaceTool(
        "edit",
        "Edit a file",
        "Replaces exact text in a file and leaves every other byte alone. old_string must occur exactly once unless "
        "replace_all is set; it is without the line numbers that read shows. When it is not found, details show the "
        'closest region. Example: {"file_path": "/workspace/app.ts", "old_string": "const port = 3000", "new_string": '
        '"const port = 8080"}',
        Effect.WRITE,
        parameters.EditParameters,
        answers.EditAnswer,
        destructive=True,
        answer=answers.answer_edit,
    ),
    WorkspaceTool(
        "glob",
        "Find files by name",
        'Finds files whose path matches a pattern, newest first. Not for text in files: grep. Example: {"pattern": '
        '"**/*.ts", "path": "/workspace/src"}',
        Effect.READ,
        parameters.GlobParameters,
        answers.GlobAnswer,
        idempotent=True,
        answer=answers.answer_glob,
    ),
    WorkspaceTool(
        "grep",
        "Search in files",
        "Finds the lines that match a regular expression, in all text files below path, by path and line. Case counts. "
        'Not for file names: glob. Example: {"pattern": "function\\\\s+\\\\w+", "path": "/workspace/src", "include": '
        '"*.ts"}',
        Effect.READ,
        parameters.GrepParameters,
        answers.GrepAnswer,
        idempotent=True,
        answer=answers.answer_grep,
    ),
    WorkspaceTool(
        "git",
        "Git",
        "Works with the git repository in workdir: status, diff, log, show, commit, checkout, branch, add, restore, "
        "fetch, pull, push, clone. The credential for remotes is the server's and never shown. When git refuses, "
        'exit_code is not 0 and message says what to do next. Not for git\'s other commands: bash. Example: {"action": '
        '"commit", "message": "fix: update port", "files": ["src/server.ts"]}',
        Effect.EXECUTE,
        GitParameters,
        git_answers.GitAnswer,
        destructive=True,
        effects=(Effect.READ, Effect.WRITE, Effect.EXECUTE),
        answer=git_answers.answer_git,
    ),
)

TOOLS = MappingProxyType({tool.name: tool for tool in _TOOLS})
