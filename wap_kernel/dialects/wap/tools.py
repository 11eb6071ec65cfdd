"""Serve WAP 1.0: the seven tools of the Workspace Agent Protocol, and six in the same form that it does not have.

Field names are the protocol's. Extra response fields (`hash`, `diff`, `runId`, ...) are additions that clients may
ignore.
"""

from __future__ import annotations

import json
from functools import partial
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel

from wap_kernel.dialects.tool import LARGE_BODY_BYTES, Tool, require_tool
from wap_kernel.dialects.wap import notebook_parameters, parameters
from wap_kernel.engine.workspace import Workspace
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import WapError
from wap_kernel.model.operations import Effect, Operation
from wap_kernel.model.results import (
    CommandResult,
    FileContent,
    FileList,
    ModifyResult,
    NotebookContent,
    PathResult,
    Result,
    SearchResult,
    WorkspaceDescription,
    WriteResult,
)
from wap_kernel.model.run import Step
from wap_kernel.runs.runner import Runner

DIALECT = "wap"


class WriteFileResponse(WriteResult):
    success: bool


class ModifyFileResponse(ModifyResult):
    success: bool


class PathChangedResponse(PathResult):
    success: bool


_TOOLS: tuple[Tool[Any], ...] = (
    Tool(
        "exploreFiles",
        "Explore files",
        "Lists files and directories in a path, optionally recursively. Start here to learn the layout; to find "
        "text use searchFiles. Sorted; totalFound is exact also when the list is cut.",
        Effect.READ,
        parameters.ExploreFilesParameters,
        FileList,
        idempotent=True,
    ),
    Tool(
        "readFile",
        "Read a file",
        "Reads a file, or a range of its lines when it is large. The answer's hash can be passed as expectedHash to a "
        "later change, so that nobody else's change is lost.",
        Effect.READ,
        parameters.ReadFileParameters,
        FileContent,
        idempotent=True,
    ),
    Tool(
        "writeFile",
        "Write a file",
        "Creates, overwrites or appends to a file, atomically. To change a part of an existing file use modifyFile.",
        Effect.WRITE,
        parameters.WriteFileParameters,
        WriteFileResponse,
        destructive=True,
    ),
    Tool(
        "modifyFile",
        "Modify a file",
        "Changes parts of a file by line numbers or a regular expression; everything else stays byte for byte. "
        "Answers a unified diff.",
        Effect.WRITE,
        parameters.ModifyFileParameters,
        ModifyFileResponse,
        destructive=True,
    ),
    Tool(
        "searchFiles",
        "Search in files",
        "Searches the content of files for a literal text or a regular expression. Sorted by path and line; "
        "totalMatches is exact also when the matches are cut.",
        Effect.READ,
        parameters.SearchFilesParameters,
        SearchResult,
        idempotent=True,
    ),
    Tool(
        "executeCommand",
        "Execute a command",
        "Runs a command line in the workspace and waits for it. A failing command is an answer with its exitCode, "
        "not an error. Its changes are applied when it has ended, or named in refusedChanges and conflicts where they "
        "are not. For reading and searching prefer the other tools.",
        Effect.EXECUTE,
        parameters.ExecuteCommandParameters,
        CommandResult,
        destructive=True,
    ),
    Tool(
        "getWorkspaceInfo",
        "Describe the workspace",
        "Tells the root, the default exclusions, the limits, what confines commands and where their changes go.",
        Effect.READ,
        parameters.GetWorkspaceInfoParameters,
        WorkspaceDescription,
        idempotent=True,
    ),
    Tool(
        "deleteFile",
        "Delete a file",
        "Deletes a file, or a folder with recursive. A link is deleted itself, never what it points at.",
        Effect.WRITE,
        parameters.DeleteFileParameters,
        PathChangedResponse,
        destructive=True,
    ),
    Tool(
        "moveFile",
        "Move or rename",
        "Moves or renames a file or folder. Does not overwrite unless told to.",
        Effect.WRITE,
        parameters.MoveFileParameters,
        PathChangedResponse,
        destructive=True,
    ),
    Tool(
        "copyFile",
        "Copy a file",
        "Copies a file with its mode. Does not overwrite unless told to.",
        Effect.WRITE,
        parameters.CopyFileParameters,
        PathChangedResponse,
        destructive=True,
    ),
    Tool(
        "createDirectory",
        "Create a directory",
        "Creates a directory and its parents. An existing one is fine.",
        Effect.WRITE,
        parameters.CreateDirectoryParameters,
        PathChangedResponse,
        idempotent=True,
    ),
    Tool(
        "readNotebook",
        "Read a notebook",
        "Reads a Jupyter notebook cell by cell: ids, types, sources, and outputs as text (images are only named). "
        "Shorter and easier to work with than readFile of an .ipynb file.",
        Effect.READ,
        notebook_parameters.ReadNotebookParameters,
        NotebookContent,
        idempotent=True,
    ),
    Tool(
        "modifyNotebook",
        "Modify a notebook",
        "Inserts, replaces, deletes and moves cells of a Jupyter notebook by their ids; everything else stays byte for "
        "byte. Nothing is executed. Answers a unified diff of the file.",
        Effect.WRITE,
        notebook_parameters.ModifyNotebookParameters,
        ModifyFileResponse,
        destructive=True,
    ),
)

TOOLS = MappingProxyType({tool.name: tool for tool in _TOOLS})
_WITH_SUCCESS = frozenset(tool.name for tool in _TOOLS if "success" in tool.response.model_fields)


def find_tool(name: str) -> Tool[Any]:
    return require_tool(TOOLS, name)


async def call_tool(name: str, body: bytes, runner: Runner, caller: Caller, wait: float = 0) -> bytes:
    """Perform a request and return the protocol's response, in JSON."""
    return await answer_request(name, await parse_request(name, body, runner.workspace, caller), runner, caller, wait)


async def parse_request(name: str, body: bytes, workspace: Workspace, caller: Caller) -> Operation:
    """Return the operation that a request asks for; a request that cannot be parsed is recorded in the audit."""
    called = find_tool(name)
    read = partial(_operation, called, body, workspace.names_of_root)
    try:
        return read() if len(body) <= LARGE_BODY_BYTES else await workspace.offload(read)
    except WapError as error:
        workspace.audit_refusal(name, error, caller)
        raise


async def answer_request(name: str, operation: Operation, runner: Runner, caller: Caller, wait: float = 0) -> bytes:
    """Perform an operation and return the protocol's response; wait up to `wait` seconds for an approval."""
    step = Step(name, name, operation)
    encoded = await runner.answer_call(
        step, caller, dialect=DIALECT, encode=partial(_encode, find_tool(name)), wait=wait
    )
    return encoded if isinstance(encoded, bytes) else json.dumps(encoded).encode("ascii")


def encode_result(step: Step, result: Result) -> dict[str, Any]:
    """Return the response of a call that waited for approval, for its run to store."""
    answered: dict[str, Any] = json.loads(_encode(find_tool(step.tool), result))
    return answered


def encode_error(_: Step, error: WapError) -> dict[str, Any]:
    """Return the response of a call that waited for approval and failed, for its run to store."""
    return error.to_dict()


def _encode(called: Tool[Any], result: Result) -> bytes:
    response: BaseModel = result
    if called.name in _WITH_SUCCESS:
        response = called.response.model_construct(**dict(result), success=True)
    return response.model_dump_json(by_alias=True, exclude_none=True).encode("utf-8")


def _operation(called: Tool[Any], body: bytes, names_of_root: tuple[str, ...]) -> Operation:
    operation: Operation = called.parse(body).operation(names_of_root)
    return operation
