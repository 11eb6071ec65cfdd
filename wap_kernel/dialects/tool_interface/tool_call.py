"""One call of a tool, from the body of a request to its answer in JSON."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from wap_kernel.dialects.tool import LARGE, known
from wap_kernel.dialects.tool_interface.errors import translated
from wap_kernel.dialects.tool_interface.parameters import ReadParameters
from wap_kernel.dialects.tool_interface.tools import TOOLS, WorkspaceTool
from wap_kernel.engine.workspace import Workspace
from wap_kernel.files.interface import FileKind
from wap_kernel.model.call_context import CallContext
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import WapError
from wap_kernel.model.operations import Operation, ViewFile
from wap_kernel.model.results import Result
from wap_kernel.model.run import Step
from wap_kernel.runs.runner import Runner

DIALECT = "tool_interface"


def tool(name: str) -> WorkspaceTool[Any]:
    return known(TOOLS, name)


async def call(name: str, body: bytes, runner: Runner, caller: Caller, wait: float = 0) -> bytes:
    """Do what a request asks for, and answer as the interface says."""
    return await answer(name, await parse(name, body, runner.workspace, caller), runner, caller, wait)


async def parse(name: str, body: bytes, workspace: Workspace, caller: Caller) -> Operation:
    """What a request asks for. What cannot be read is recorded as well."""
    called = tool(name)
    read = partial(_operation, called, body, workspace, caller)
    # Whether a path is a folder's is looked up on the disk.
    is_quick = len(body) <= LARGE and called.parameters is not ReadParameters
    try:
        return read() if is_quick else await workspace.offload(read)
    except WapError as error:
        workspace.refused(name, error, caller, context=CallContext(dialect=DIALECT, tool=name))
        raise translated(error) from None


async def answer(name: str, operation: Operation, runner: Runner, caller: Caller, wait: float = 0) -> bytes:
    """Do it. What needs approval is waited for so many seconds."""
    step = Step(name, name, operation)
    encode = partial(_encode, tool(name), operation)
    try:
        encoded = await runner.answer_call(step, caller, dialect=DIALECT, encode=encode, wait=wait)
    except WapError as error:
        raise translated(error) from None
    return encoded if isinstance(encoded, bytes) else json.dumps(encoded).encode("ascii")


def encode_result(step: Step, result: Result) -> dict[str, Any]:
    """The answer of a call that waited for approval, to be kept."""
    answered: dict[str, Any] = json.loads(_encode(tool(step.tool), step.operation, result))
    return answered


def encode_error(_: Step, error: WapError) -> dict[str, Any]:
    """The same of one that failed. When it is raised again, for who waits, nothing of it changes."""
    return translated(error).to_dict()


def _encode(called: WorkspaceTool[Any], operation: Operation, result: Result) -> bytes:
    return called.answer(operation, result).model_dump_json(exclude_none=True).encode("utf-8")


def _operation(called: WorkspaceTool[Any], body: bytes, workspace: Workspace, caller: Caller) -> Operation:
    sent = called.parse(body)
    operation: Operation = sent.operation(workspace.names_of_root)
    if isinstance(sent, ReadParameters) and isinstance(operation, ViewFile):
        return sent.listing(operation.path) if _is_folder(operation.path, workspace, caller) else operation
    return operation


def _is_folder(path: str, workspace: Workspace, caller: Caller) -> bool:
    """As far as the caller may know; for what is refused or missing the pipeline has the words."""
    try:
        return workspace.judge.files_of(caller).stat(path).kind is FileKind.FOLDER
    except (OSError, WapError):
        return False
