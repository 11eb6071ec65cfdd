"""Relate the tool names of all dialects: which operations a name stands for, and which names open a tool.

`confirmationRequired` of a policy and the scope of an agent token name tools as any dialect does.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from wap_kernel.model.git.operations import GitAction
from wap_kernel.model.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    DescribeWorkspace,
    ListFiles,
    Message,
    ModifyFile,
    MoveFile,
    Operation,
    ReadFile,
    RevertRun,
    RunCommand,
    SearchFiles,
    WriteFile,
)

# A revert writes and removes files, whatever the run did to them.
_WRITING = (WriteFile, ModifyFile, RevertRun)
_EDITING = (ModifyFile, RevertRun)

OPERATIONS_BY_TOOL: Mapping[str, tuple[type[Operation], ...]] = {
    # WAP, and what it leaves out
    "exploreFiles": (ListFiles,),
    "readFile": (ReadFile,),
    # Coding Environment has no tool for changes: whoever wants to confirm its writes wants to confirm edits.
    "writeFile": _WRITING,
    "modifyFile": _EDITING,
    "searchFiles": (SearchFiles,),
    "executeCommand": (RunCommand,),
    "getWorkspaceInfo": (DescribeWorkspace,),
    "deleteFile": (DeleteFile, RevertRun),
    "moveFile": (MoveFile,),
    "copyFile": (CopyFile,),
    "createDirectory": (CreateDirectory,),
    "readNotebook": (ReadFile,),
    "modifyNotebook": _EDITING,
    "editNotebook": _EDITING,
    # Coding Environment
    "listFiles": (ListFiles,),
    "runCommand": (RunCommand,),
    "globFiles": (ListFiles,),
    # All that a batch does, also alone: else the same would pass one by one.
    "runOperations": (ReadFile, WriteFile, ModifyFile, DeleteFile, RunCommand, RevertRun),
    **dict.fromkeys(("getRun", "getOutput", "cancelRun"), ()),  # they do nothing that could be confirmed
    # Agent Spaces
    "message": (Message,),
    "createFile": _WRITING,
    "editFile": _EDITING,
    "shell": (RunCommand,),
    # workspace-tool-interface
    "bash": (RunCommand,),
    "read": (ReadFile, ListFiles),
    "write": _WRITING,
    "edit": _EDITING,
    "glob": (ListFiles,),
    "grep": (SearchFiles,),
    "git": (GitAction,),
}


OLDER_KEYS: Mapping[str, tuple[type[Operation], ...]] = MappingProxyType(
    {
        "delete": OPERATIONS_BY_TOOL["deleteFile"],
        "applyPatch": OPERATIONS_BY_TOOL["editFile"],
        "task.run": OPERATIONS_BY_TOOL["runCommand"],
    }
)
"""The keys of `confirmationRequired` in the older project of the Coding Environment's catalog; no tools of ours."""


def find_operations(key: str) -> tuple[type[Operation], ...] | None:
    """Return the operations that a key of `confirmationRequired` stands for; None for an unknown key."""
    return OPERATIONS_BY_TOOL.get(key, OLDER_KEYS.get(key))


_BATCH = frozenset(
    "readFile deleteFile writeFile createFile modifyFile editFile executeCommand runCommand shell".split()
)

OPENED_BY: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "readFile": frozenset({"read"}),
        "writeFile": frozenset({"createFile"}),
        "createFile": frozenset({"writeFile", "write"}),
        "editFile": frozenset({"modifyFile", "edit"}),
        "shell": frozenset({"executeCommand", "runCommand", "bash"}),
        "runCommand": frozenset({"executeCommand", "shell"}),
        "listFiles": frozenset({"exploreFiles"}),
        "globFiles": frozenset({"exploreFiles", "listFiles"}),
        "readNotebook": frozenset({"readFile"}),
        "editNotebook": frozenset({"editFile", "modifyFile", "modifyNotebook"}),
        "runOperations": _BATCH,
        # An agent that may do anything at all may look at its own runs.
        **dict.fromkeys(
            ("getRun", "getOutput", "cancelRun"),
            frozenset({*OPERATIONS_BY_TOOL} - {"message", "bash", "read", "write", "edit", "glob", "grep"}),
        ),
    }
)
"""The other names by which an agent token opens a tool."""


def find_confirming_tool(tools: tuple[str, ...], operation: Operation) -> str | None:
    """Return the first of `tools` that stands for `operation`."""
    return next((tool for tool in tools if isinstance(operation, find_operations(tool) or ())), None)


def is_opened(tool: str, names: frozenset[str] | None) -> bool:
    """Return whether an agent token that names these tools opens `tool`; None stands for all tools."""
    return names is None or not names.isdisjoint({tool, *OPENED_BY.get(tool, ())})
