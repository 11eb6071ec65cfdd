"""The tool table: the catalog's five tools, and extra tools in the same form."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from wap_kernel.dialects.coding_environment import answers, extra_parameters, git_tool, notebook_tools, parameters
from wap_kernel.dialects.tool import P, Tool
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.operations import Effect

DIALECT = "coding_environment"


@dataclass(frozen=True)
class CodingTool(Tool[P]):
    """A tool of this dialect."""

    answer: Callable[[Any, Any], BaseModel] | None = None
    """The function that renders the answer from the operation and its result; None for a tool of runs."""
    in_catalog: bool = False
    """True for a tool of the catalog: its errors are JSON-RPC errors; those of other tools are results."""

    @property
    def confirmed_by(self) -> str | None:
        """The argument by which the caller says that the user has confirmed the call; None where there is none."""
        fields = self.parameters.model_fields
        if "confirmed" in fields:
            return "confirmed"
        options = getattr(fields["options"].annotation, "model_fields", {}) if "options" in fields else {}
        return "options.confirmed" if "confirmed" in options else None


_CATALOG: tuple[CodingTool[Any], ...] = (
    CodingTool(
        "readFile",
        "Read a file",
        "Reads a whole file: its text, or base64 with isBinary for what is not UTF-8 text. Not for files over 10 "
        "MiB, and not to look for something: searchFiles finds it with less. The hash can be passed to writeFile, "
        'editFile or deleteFile as expectedHash. Example: {"path": "src/main.py"}',
        Effect.READ,
        parameters.ReadFileParameters,
        answers.ReadAnswer,
        idempotent=True,
        answer=answers.render_read,
        in_catalog=True,
    ),
    CodingTool(
        "writeFile",
        "Write a file",
        "Creates a file or replaces all of its content (at most 1 MiB), atomically; parent folders are made. With "
        "options.expectedHash, of a read or a write, only what you know is replaced. Not "
        'to change a part of an existing file: editFile does that without sending the rest. Example: {"path": '
        '"notes/todo.md", "contents": "- first\\n"}',
        Effect.WRITE,
        parameters.WriteFileParameters,
        answers.WriteAnswer,
        destructive=True,
        idempotent=True,
        answer=answers.render_write,
        in_catalog=True,
    ),
    CodingTool(
        "listFiles",
        "List files",
        "Lists a folder, with options.recursive everything below. Start here to learn the layout. Not to find "
        "files by name (globFiles) or text in them (searchFiles). With globs only files are listed. Example: "
        '{"path": "src", "options": {"recursive": true, "globs": ["**/*.py"]}}',
        Effect.READ,
        parameters.ListFilesParameters,
        answers.ListAnswer,
        idempotent=True,
        answer=answers.render_list,
        in_catalog=True,
    ),
    CodingTool(
        "searchFiles",
        "Search in files",
        "Finds the lines that hold a text or match a regular expression, in all text files below workspaceRoot, "
        'case ignored unless told otherwise. Not for file names: globFiles. Example: {"query": "def \\\\w+_total", '
        '"options": {"regex": true, "globs": ["**/*.py"]}}',
        Effect.READ,
        parameters.SearchFilesParameters,
        answers.SearchAnswer,
        idempotent=True,
        answer=answers.render_search,
        in_catalog=True,
    ),
    CodingTool(
        "runCommand",
        "Run a command",
        "Runs a program with arguments, without a shell, and waits for it: tests, builds, linters. A failing "
        "command is an answer with its exitCode. Its changes are applied when it has ended; refusedChanges and "
        "conflicts name those that are not. Not for reading, searching or editing files: the other tools "
        'are faster and can be checked. Example: {"command": "python3", "args": ["-m", "pytest", "-q"], '
        '"options": {"timeout": 60}}',
        Effect.EXECUTE,
        parameters.RunCommandParameters,
        answers.CommandAnswer,
        destructive=True,
        answer=answers.render_command,
        in_catalog=True,
    ),
)

_EXTRA: tuple[CodingTool[Any], ...] = (
    CodingTool(
        "editFile",
        "Edit a file",
        "Replaces exact text in a file and leaves every other byte alone; all edits or none. oldText must occur "
        "exactly once, unless replaceAll. When it is not found, the answer shows the closest region: read that "
        'and try again. Not for new files or rewriting most of one: writeFile. Example: {"path": "app.py", '
        '"edits": [{"oldText": "port = 3000", "newText": "port = 8080"}]}',
        Effect.WRITE,
        extra_parameters.EditFileParameters,
        answers.EditAnswer,
        destructive=True,
        answer=answers.render_edit,
    ),
    CodingTool(
        "deleteFile",
        "Delete a file",
        "Deletes a file, or a folder with recursive; of a link only the link. Not to empty a file: writeFile. "
        'Example: {"path": "build/old.log"}',
        Effect.WRITE,
        extra_parameters.DeleteFileParameters,
        answers.DeleteAnswer,
        destructive=True,
        answer=answers.render_deletion,
    ),
    CodingTool(
        "globFiles",
        "Find files by name",
        "Finds files whose path matches a pattern, newest first. Not for text in files: searchFiles; not for the "
        'layout of a folder: listFiles. Example: {"pattern": "**/test_*.py"}',
        Effect.READ,
        extra_parameters.GlobFilesParameters,
        answers.GlobAnswer,
        idempotent=True,
        answer=answers.render_glob,
    ),
    CodingTool(
        "readNotebook",
        "Read a notebook",
        "Reads a Jupyter notebook cell by cell: ids, types, sources, and outputs as text (images are only named). Use "
        "it for .ipynb files instead of readFile, which answers the raw JSON. Not for other files. Example: "
        '{"path": "analysis.ipynb"}',
        Effect.READ,
        notebook_tools.ReadNotebookParameters,
        notebook_tools.NotebookAnswer,
        idempotent=True,
        answer=notebook_tools.render_notebook,
    ),
    CodingTool(
        "editNotebook",
        "Edit a notebook",
        "Inserts, replaces, deletes and moves cells of a Jupyter notebook by their ids, which readNotebook tells; all "
        "edits or none. Nothing is executed, and a cell with a new source loses its outputs. Not for other files: "
        'editFile. Example: {"path": "analysis.ipynb", "edits": [{"type": "replace", "cellId": "a1b2", "source": '
        '"x = 1"}, {"type": "insert", "cellType": "markdown", "source": "# Results", "afterCell": "a1b2"}]}',
        Effect.WRITE,
        notebook_tools.EditNotebookParameters,
        answers.EditAnswer,
        destructive=True,
        answer=answers.render_edit,
    ),
    CodingTool(
        "git",
        "Git",
        "Works with the git repository in workdir: status, diff, log, show, add, commit, restore, checkout, branch; "
        "with remotes fetch, pull, push, clone (the credential is the server's and never shown). commit stages files "
        "first. When git refuses, exitCode is not 0 and message says what to do next. Not for git's other commands: "
        'runCommand. Example: {"action": "commit", "message": "fix: count to n", "files": ["src/sums.py"]}',
        Effect.EXECUTE,
        git_tool.GitToolParameters,
        git_tool.GitToolAnswer,
        destructive=True,
        effects=(Effect.READ, Effect.WRITE, Effect.EXECUTE),
        answer=git_tool.render_git,
    ),
    CodingTool(
        "runOperations",
        "Run a batch",
        "Performs several operations in order as one run that a person can watch and undo: message, createFile, "
        "readFile, editFile, deleteFile, shell (a line for bash). Paths are relative to the server's root. With "
        "atomic the first failure undoes all; with dryRun nothing is changed and the answer tells what would be. "
        "Look at the events: a failed one does not stop the rest. Not for a single operation. Example: "
        '{"operations": [{"type": "createFile", "path": "a.py", "content": "x = 1\\n"}, {"type": "shell", '
        '"command": "python3 a.py"}], "atomic": true}',
        Effect.EXECUTE,
        extra_parameters.RunOperationsParameters,
        answers.RunReport,
        destructive=True,
    ),
    CodingTool(
        "getRun",
        "Look at a run",
        "Tells what became of a run: of runOperations when it was not waited for, or of a call that a person had "
        'to agree to (its answer is then in response). Not to start or to repeat something. Example: {"runId": '
        '"run_0123456789abcdef", "wait": 30}',
        Effect.READ,
        extra_parameters.GetRunParameters,
        answers.RunReport,
        idempotent=True,
    ),
    CodingTool(
        "getWorkspaceInfo",
        "Describe the workspace",
        "Tells the root folder, the limits, what is left out of recursive listings, whether commands are confined "
        "and where their changes go. Call it once when you begin; it says nothing about single files. Example: {}",
        Effect.READ,
        extra_parameters.GetWorkspaceInfoParameters,
        answers.WorkspaceInfo,
        idempotent=True,
        answer=answers.render_workspace,
    ),
)

TOOLS = MappingProxyType({tool.name: tool for tool in (*_CATALOG, *_EXTRA)})
CATALOG = tuple(tool.name for tool in _CATALOG)


def list_tools(caller: Caller, only: Collection[str] | None = None) -> list[CodingTool[Any]]:
    """List the tools that the caller may use, among `only` those that a setting names."""
    opened = None if caller.scope is None else caller.scope.tools
    return [tool for tool in TOOLS.values() if (only is None or tool.name in only) and tool.is_opened_by(opened)]


def check_tool_names(names: Collection[str]) -> Collection[str] | None:
    """Return the tool names of the setting `mcp_tools`; None, for all tools, where it is empty.

    Raises InvalidArgument for an unknown name.
    """
    unknown = [name for name in names if name not in TOOLS]
    if unknown:
        raise InvalidArgument(f"mcp_tools: There is no tool named {unknown[0]!r}.", hint=f"Tools: {', '.join(TOOLS)}.")
    return names or None
