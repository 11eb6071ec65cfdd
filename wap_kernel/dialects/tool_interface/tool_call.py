"""Serve one call of a tool, from the body of the request to the answer in JSON."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from wap_kernel.dialects.tool import LARGE_BODY_BYTES, require_tool
from wap_kernel.dialects.tool_interface.errors import translate_error
from wap_kernel.dialects.tool_interface.parameters import ReadParameters
from wap_kernel.dialects.tool_interface.tools import DIALECT, TOOLS, WorkspaceTool
from wap_kernel.engine.workspace import Workspace
from wap_kernel.files.interface import FileKind
from wap_kernel.model.caller import CallContext, Caller
from wap_kernel.model.errors import WapError
from wap_kernel.model.operations import Operation, ViewFile
from wap_kernel.model.results import Result
from wap_kernel.model.run import Step
from wap_kernel.runs.runner import Runner


def find_tool(name: str) -> WorkspaceTool[Any]:
    return require_tool(TOOLS, name)


async def call_tool(name: str, body: bytes, runner: Runner, caller: Caller, wait: float = 0) -> bytes:
    """Perform a request and return the interface's answer, in JSON."""
    return await answer_request(name, await parse_request(name, body, runner.workspace, caller), runner, caller, wait)


async def parse_request(name: str, body: bytes, workspace: Workspace, caller: Caller) -> Operation:
    """Return the operation that a request asks for; a request that cannot be parsed is recorded in the audit."""
    called = find_tool(name)
    read = partial(_operation, called, body, workspace, caller)
    # A read needs a look at the disk, to see whether the path is a folder.
    is_quick = len(body) <= LARGE_BODY_BYTES and called.parameters is not ReadParameters
    try:
        return read() if is_quick else await workspace.offload(read)
    except WapError as error:
        workspace.audit_refusal(name, error, caller, context=CallContext(dialect=DIALECT, tool=name))
        raise translate_error(error) from None


async def answer_request(name: str, operation: Operation, runner: Runner, caller: Caller, wait: float = 0) -> bytes:
    """Perform an operation and return the interface's answer; wait up to `wait` seconds for an approval."""
    step = Step(name, name, operation)
    encode = partial(_encode, find_tool(name), operation)
    try:
        encoded = await runner.answer_call(step, caller, dialect=DIALECT, encode=encode, wait=wait)
    except WapError as error:
        raise translate_error(error) from None
    return encoded if isinstance(encoded, bytes) else json.dumps(encoded).encode("ascii")


def encode_result(step: Step, result: Result) -> dict[str, Any]:
    """Return the answer of a call that waited for approval, for its run to store."""
    answered: dict[str, Any] = json.loads(_encode(find_tool(step.tool), step.operation, result))
    return answered


def encode_error(_: Step, error: WapError) -> dict[str, Any]:
    """Return the answer of a call that waited for approval and failed; raised again later, it stays as it is."""
    return translate_error(error).to_dict()


def _encode(called: WorkspaceTool[Any], operation: Operation, result: Result) -> bytes:
    return called.answer(operation, result).model_dump_json(exclude_none=True).encode("utf-8")


def _operation(called: WorkspaceTool[Any], body: bytes, workspace: Workspace, caller: Caller) -> Operation:
    sent = called.parse(body)
    operation: Operation = sent.operation(workspace.names_of_root)
    if isinstance(sent, ReadParameters) and isinstance(operation, ViewFile):
        return sent.listing(operation.path) if _is_folder(operation.path, workspace, caller) else operation
    return operation


def _is_folder(path: str, workspace: Workspace, caller: Caller) -> bool:
    """Return whether the caller may see a folder at this path; the pipeline reports a refused or missing path."""
    try:
        return workspace.judge.files_of(caller).stat(path).kind is FileKind.FOLDER
    except (OSError, WapError):
        return False
