"""The routes of single tools and of policy, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from wap_kernel.dialects.agent_spaces.operations import OperationsMessage
from wap_kernel.dialects.tool import Tool
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.model.errors import Code
from wap_kernel.model.limits import MAX_WAIT_SECONDS
from wap_kernel.model.policy import VerdictKind

from .. import schemas, tool_definitions
from . import parts

CLAIMS = [{"$ref": "#/components/parameters/agent"}, {"$ref": "#/components/parameters/session"}]

_WAITING = {"type": "number", "minimum": 0, "maximum": MAX_WAIT_SECONDS, "default": 0}
_WAIT = parts.query("wait", _WAITING, "Seconds to wait for a person, where policy wants one to agree.")

# Every tool: a path may keep changing while it is resolved, the audit may find no room, an agent token has its limits,
# policy may want a person to agree.
_TOOL = (Code.CONFLICT, Code.NO_SPACE, Code.RATE_LIMITED, Code.APPROVAL_REQUIRED)
_CHANGES = (Code.FILE_NOT_FOUND, Code.FILE_EXISTS)

# What a single tool may answer besides.
ERRORS: Mapping[str, tuple[Code, ...]] = MappingProxyType(
    {
        "exploreFiles": (Code.FILE_NOT_FOUND,),
        "readFile": (Code.FILE_NOT_FOUND, Code.BINARY_FILE),
        "writeFile": _CHANGES,
        "modifyFile": (*_CHANGES, Code.BINARY_FILE, Code.EDIT_NOT_FOUND, Code.TIMEOUT),
        "searchFiles": (Code.FILE_NOT_FOUND, Code.TIMEOUT),
        "executeCommand": (Code.FILE_NOT_FOUND, Code.EXECUTION_FAILED, Code.TIMEOUT),
        "getWorkspaceInfo": (),
        "deleteFile": _CHANGES,
        "moveFile": _CHANGES,
        "copyFile": _CHANGES,
        "createDirectory": _CHANGES,
        "readNotebook": (Code.FILE_NOT_FOUND,),
        "modifyNotebook": (*_CHANGES, Code.BINARY_FILE, Code.EDIT_NOT_FOUND, Code.TIMEOUT),
    }
)


def paths() -> dict[str, Any]:
    return {
        **{f"/wap/api/{tool.name}": {"post": route(tool, ERRORS[tool.name])} for tool in wap.TOOLS.values()},
        "/wap/tools": {"get": _tools()},
        "/wap/policy": {"get": _policy()},
        "/wap/policy/check": {"post": _check()},
    }


def route(tool: Tool[Any], errors: Iterable[Code]) -> parts.Route:
    """Of a single tool, whichever dialect it is of."""
    parameters = schemas.of(tool.parameters, "validation")
    codes = (*parts.ALWAYS, *_TOOL, *errors)
    return {
        "operationId": tool.name,
        "summary": tool.title,
        "description": tool.description,
        "parameters": [*CLAIMS, _WAIT],
        "requestBody": {"required": bool(parameters.get("required")), "content": parts.json(parameters)},
        "responses": parts.responses(schemas.of(tool.response, "serialization"), codes),
    }


def _tools() -> parts.Route:
    answer = {
        "type": "object",
        "properties": {"tools": {"type": "array", "items": {"type": "object"}}},
        "required": ["tools"],
    }
    return {
        "operationId": "listTools",
        "summary": "The tools' definitions, ready to paste into a model call",
        "parameters": [
            parts.choice("format", tool_definitions.FORMATS, "For whom the definitions are written."),
            parts.choice("dialect", tool_definitions.DIALECTS, "Whose tools."),
        ],
        "responses": parts.responses(answer, parts.ALWAYS),
    }


def _policy() -> parts.Route:
    answer = {
        "type": "object",
        "properties": {"layers": {"type": "array", "items": {"type": "object"}}, "effective": {"type": "object"}},
        "required": ["layers", "effective", "provider", "confinesCommands", "grants"],
    }
    return {
        "operationId": "getPolicy",
        "summary": "The policy that binds the caller: its layers, and what they come to together",
        "responses": parts.responses(answer, parts.ALWAYS),
    }


def _check() -> parts.Route:
    verdict = {
        "type": "object",
        "properties": {
            "operationId": {"type": "string"},
            "verdict": {"enum": [answer.value for answer in VerdictKind]},
            "rule": {"type": "string"},
            "reason": {"type": "string"},
            "suggestion": {"type": "string"},
        },
        "required": ["operationId", "verdict", "rule", "reason"],
        "additionalProperties": False,
    }
    answer = {
        "type": "object",
        "properties": {"verdicts": {"type": "array", "items": verdict}},
        "required": ["verdicts"],
    }
    return {
        "operationId": "checkPolicy",
        "summary": "What would be said about the operations of an Agent Spaces message; nothing is executed",
        "requestBody": {"required": True, "content": parts.json(schemas.of(OperationsMessage, "validation"))},
        "responses": parts.responses(answer, (*parts.ALWAYS, Code.RATE_LIMITED, Code.TIMEOUT)),
    }
