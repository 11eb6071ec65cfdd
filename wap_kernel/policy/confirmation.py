"""Which operations a tool's name in `confirmationRequired` is about, whatever dialect the name comes from."""

from __future__ import annotations

from wap_kernel.model.operations import (
    CopyFile,
    CreateDirectory,
    DeleteFile,
    DescribeWorkspace,
    GitAction,
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

TOOLS: dict[str, tuple[type[Operation], ...]] = {
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
    "task.run": (RunCommand,),
    "globFiles": (ListFiles,),
    # All that a batch does, also alone: else the same would pass one by one.
    "runOperations": (ReadFile, WriteFile, ModifyFile, DeleteFile, RunCommand, RevertRun),
    "getRun": (),  # it does nothing that could be confirmed
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


def confirms(tools: tuple[str, ...], operation: Operation) -> str | None:
    """The first of `tools` that is about `operation`."""
    return next((tool for tool in tools if isinstance(operation, TOOLS.get(tool, ()))), None)
