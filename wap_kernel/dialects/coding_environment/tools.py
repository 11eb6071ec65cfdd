"""The tool table: the catalog's five tools, and extra tools in the same form."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from wap_kernel.dialects.coding_environment import answers, extra_parameters, git_tool, notebook_tools, parameters
from wap_kernel.dialects.tool import P, Tool
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import InvalidArgument
from wap_kernel.model.limits import MCP_MAX_TOOL_NAME_CHARACTERS
from wap_kernel.model.operations import Effect

DIALECT = "coding_environment"


@dataclass(frozen=True)
class CodingTool(Tool[P]):
    """A tool of this dialect."""

    answer: Callable[[Any, Any], BaseModel] | None = None
    """The function that renders the answer from the operation and its result; None for a tool of runs."""

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
        "Reads a file: text, base64 with isBinary for bytes, an image as an image. At most 256 KB; the rest by lines. "
        'Not to look for something: searchFiles. Example: {"path": "src/main.py"}',
        Effect.READ,
        parameters.ReadFileParameters,
        answers.ReadAnswer,
        idempotent=True,
        answer=answers.render_read,
    ),
    CodingTool(
        "writeFile",
        "Write a file",
        "Creates a file or replaces all of it (at most 1 MiB). Not to change a part: editFile. Example: "
        '{"path": "notes/todo.md", "contents": "- first\\n"}',
        Effect.WRITE,
        parameters.WriteFileParameters,
        answers.WriteAnswer,
        destructive=True,
        idempotent=True,
        answer=answers.render_write,
    ),
    CodingTool(
        "listFiles",
        "List files",
        "Lists a folder, or everything below it. Not to find names (globFiles) or text (searchFiles). Example: "
        '{"path": "src", "options": {"recursive": true}}',
        Effect.READ,
        parameters.ListFilesParameters,
        answers.ListAnswer,
        idempotent=True,
        answer=answers.render_list,
    ),
    CodingTool(
        "searchFiles",
        "Search in files",
        "Finds lines with a text or a pattern, in all text files, case ignored. Not for file names: globFiles. "
        'Example: {"query": "def total", "options": {"globs": ["**/*.py"]}}',
        Effect.READ,
        parameters.SearchFilesParameters,
        answers.SearchAnswer,
        idempotent=True,
        answer=answers.render_search,
    ),
    CodingTool(
        "runCommand",
        "Run a command",
        "Runs a program without a shell. Its changes are applied at its end; refusedChanges and conflicts name those "
        "that are not. Not to read, search or edit files. Example: "
        '{"command": "python3", "args": ["-m", "pytest", "-q"]}',
        Effect.EXECUTE,
        parameters.RunCommandParameters,
        answers.CommandAnswer,
        destructive=True,
        answer=answers.render_command,
    ),
)

_EXTRA: tuple[CodingTool[Any], ...] = (
    CodingTool(
        "editFile",
        "Edit a file",
        "Replaces exact text that occurs once; all edits or none. Not found: the error shows the closest region. Not "
        'for new files: writeFile. Example: {"path": "app.py", "edits": [{"oldText": "3000", "newText": "8080"}]}',
        Effect.WRITE,
        extra_parameters.EditFileParameters,
        answers.EditAnswer,
        destructive=True,
        answer=answers.render_edit,
    ),
    CodingTool(
        "deleteFile",
        "Delete a file",
        'Deletes a file, a link, or a folder with recursive. Not to empty a file. Example: {"path": "a.log"}',
        Effect.WRITE,
        extra_parameters.DeleteFileParameters,
        answers.DeleteAnswer,
        destructive=True,
        answer=answers.render_deletion,
    ),
    CodingTool(
        "moveFile",
        "Move a file",
        'Moves or renames a file or folder. Not to copy: copyFile. Example: {"source": "a.py", "destination": "b.py"}',
        Effect.WRITE,
        extra_parameters.MoveFileParameters,
        answers.MoveAnswer,
        destructive=True,
        answer=answers.render_move,
    ),
    CodingTool(
        "copyFile",
        "Copy a file",
        'Copies a file. Not for folders: runCommand. Example: {"source": "a.py", "destination": "b.py"}',
        Effect.WRITE,
        extra_parameters.CopyFileParameters,
        answers.MoveAnswer,
        answer=answers.render_move,
    ),
    CodingTool(
        "createDirectory",
        "Make a folder",
        'Makes a folder and its parents. Not needed before writeFile. Example: {"path": "src/new"}',
        Effect.WRITE,
        extra_parameters.CreateDirectoryParameters,
        answers.FolderAnswer,
        idempotent=True,
        answer=answers.render_folder,
    ),
    CodingTool(
        "globFiles",
        "Find files by name",
        'Finds files by a pattern, newest first. Not for text in files: searchFiles. Example: {"pattern": "**/*.py"}',
        Effect.READ,
        extra_parameters.GlobFilesParameters,
        answers.GlobAnswer,
        idempotent=True,
        answer=answers.render_glob,
    ),
    CodingTool(
        "readNotebook",
        "Read a notebook",
        'Reads an .ipynb cell by cell, with ids and outputs. Not for other files. Example: {"path": "a.ipynb"}',
        Effect.READ,
        notebook_tools.ReadNotebookParameters,
        notebook_tools.NotebookAnswer,
        idempotent=True,
        answer=notebook_tools.render_notebook,
    ),
    CodingTool(
        "editNotebook",
        "Edit a notebook",
        "Edits cells by id: insert, replace (with source), delete, move. Not to run them. "
        ' Example: {"path": "a.ipynb", "edits": [{"type": "replace", "cellId": "a1", "source": "x"}]}',
        Effect.WRITE,
        notebook_tools.EditNotebookParameters,
        answers.EditAnswer,
        destructive=True,
        answer=answers.render_edit,
    ),
    CodingTool(
        "git",
        "Git",
        "Works with a git repository; remotes use the server's credential. When git refuses, message says what to do. "
        "Not for git's other commands: runCommand. Example: "
        '{"action": "commit", "message": "fix: count", "files": ["a.py"]}',
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
        "Runs operations as one run that a person can undo: message (content), createFile (path, content), readFile, "
        "editFile (edits), deleteFile, shell (command). A failed one does not stop the rest. Not for one operation. "
        ' Example: {"operations": [{"type": "shell", "command": "make && make test"}]}',
        Effect.EXECUTE,
        extra_parameters.RunOperationsParameters,
        answers.RunReport,
        destructive=True,
    ),
    CodingTool(
        "getRun",
        "Look at a run",
        "Tells what became of a run: status, events, output so far, response of a call that waited. Not to repeat it. "
        'Example: {"runId": "run_0123"}',
        Effect.READ,
        extra_parameters.GetRunParameters,
        answers.RunReport,
        idempotent=True,
    ),
    CodingTool(
        "getOutput",
        "Read a run's output",
        'Reads the whole output of a command by page. Not for other events: getRun. Example: {"runId": "run_0123"}',
        Effect.READ,
        extra_parameters.GetOutputParameters,
        answers.OutputAnswer,
        idempotent=True,
    ),
    CodingTool(
        "cancelRun",
        "Cancel a run",
        'Ends a run and its command, or withdraws what waits. Not to undo it. Example: {"runId": "run_0123"}',
        Effect.EXECUTE,
        extra_parameters.CancelRunParameters,
        answers.RunReport,
        idempotent=True,
    ),
    CodingTool(
        "getWorkspaceInfo",
        "Describe the workspace",
        "Tells the root, the limits and whether commands are confined; says nothing about files. Example: {}",
        Effect.READ,
        extra_parameters.GetWorkspaceInfoParameters,
        answers.WorkspaceInfo,
        idempotent=True,
        answer=answers.render_workspace,
    ),
)

TOOLS = MappingProxyType({tool.name: tool for tool in (*_CATALOG, *_EXTRA)})
CATALOG = tuple(tool.name for tool in _CATALOG)


_READ = (
    *("readFile", "listFiles", "searchFiles", "globFiles", "readNotebook"),
    *("getRun", "getOutput", "getWorkspaceInfo"),
)
_WRITE = ("writeFile", "editFile", "moveFile", "copyFile", "createDirectory", "deleteFile")
ALL_TOOLS = "all"
PROFILES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "read": frozenset(_READ),
        "edit": frozenset((*_READ, *_WRITE, "editNotebook")),
        "notebook": frozenset((*_READ, "editNotebook")),
        ALL_TOOLS: frozenset(TOOLS),
    }
)
"""Sets of tools that a client, or the person who makes its token, chooses by one word."""


_OTHER_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "readFile": ("read",),
        "listFiles": ("exploreFiles",),
        "globFiles": ("glob",),
        "searchFiles": ("grep",),
        "writeFile": ("write", "createFile"),
        "editFile": ("modifyFile", "edit"),
        "editNotebook": ("modifyNotebook",),
    }
)
"""The names of the same tools in the other dialects."""


def list_profile_names(profile: str) -> tuple[str, ...]:
    """List the names of a profile's tools in all dialects."""
    return tuple(name for tool in TOOLS if tool in PROFILES[profile] for name in (tool, *_OTHER_NAMES.get(tool, ())))


def get_profile(name: str | None) -> frozenset[str] | None:
    """Return the tools of a profile; None, for all tools, where no profile is named. Raise InvalidArgument."""
    if name is None:
        return None
    if name not in PROFILES:
        raise InvalidArgument(
            f"There is no profile named {name[:MCP_MAX_TOOL_NAME_CHARACTERS]!r}.",
            hint=f"Profiles: {', '.join(PROFILES)}.",
        )
    return PROFILES[name]


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
