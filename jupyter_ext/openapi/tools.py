"""The routes of single tools and of policy, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from wap_kernel.dialects import json_schema
from wap_kernel.dialects.agent_spaces.operations import OperationsMessage
from wap_kernel.dialects.tool import Tool
from wap_kernel.dialects.wap import tools as wap
from wap_kernel.model.errors import Code
from wap_kernel.model.limits import MAX_WAIT_SECONDS
from wap_kernel.model.policy import VerdictKind

from .. import tool_definitions
from . import parts

CLAIMS = [{"$ref": "#/components/parameters/agent"}, {"$ref": "#/components/parameters/session"}]

_WAIT_SECONDS = {"type": "number", "minimum": 0, "maximum": MAX_WAIT_SECONDS, "default": 0}
_WAIT = parts.query("wait", _WAIT_SECONDS, "Seconds to wait for an approval, where policy demands one.")

# Every tool: a path may keep changing while it is resolved, the disk may be full for the audit, an agent token has its
# limits, policy may demand an approval.
_TOOL = (Code.CONFLICT, Code.NO_SPACE, Code.RATE_LIMITED, Code.APPROVAL_REQUIRED)
_CHANGES = (Code.FILE_NOT_FOUND, Code.FILE_EXISTS)

# Further errors of each tool.
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
    """Describe the route of a single tool of any dialect."""
    parameters = json_schema.build_schema(tool.parameters, "validation")
    codes = (*parts.ALWAYS, *_TOOL, *errors)
    return {
        "operationId": tool.name,
        "summary": tool.title,
        "description": tool.description,
        "parameters": [*CLAIMS, _WAIT],
        "requestBody": {"required": bool(parameters.get("required")), "content": parts.json(parameters)},
        "responses": parts.responses(json_schema.build_schema(tool.response, "serialization"), codes),
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
            parts.choice("format", tool_definitions.FORMATS, "The format of the definitions."),
            parts.choice("dialect", tool_definitions.DIALECTS, "The dialect of the tools."),
        ],
        "responses": parts.responses(answer, parts.ALWAYS),
    }


def _policy() -> parts.Route:
    answer = {
        "type": "object",
        "properties": {
            "layers": {"type": "array", "items": {"type": "object"}},
            "effective": {"type": "object"},
            "isolation": {"enum": ["layer", "shared"], "description": "Where the changes of commands go."},
        },
        "required": ["layers", "effective", "provider", "confinesCommands", "isolation", "grants"],
    }
    return {
        "operationId": "getPolicy",
        "summary": "The policy that binds the caller: its layers, and the effective policy",
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
        "summary": "The verdicts on the operations of an Agent Spaces message; none is performed",
        "requestBody": {
            "required": True,
            "content": parts.json(json_schema.build_schema(OperationsMessage, "validation")),
        },
        "responses": parts.responses(answer, (*parts.ALWAYS, Code.RATE_LIMITED, Code.TIMEOUT)),
    }
