"""The OpenAPI 3.1 document, made from the models that check the requests. A test compares it with the route table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from wap_kernel import __version__
from wap_kernel.dialects import wap
from wap_kernel.dialects.agent_spaces import OperationsMessage
from wap_kernel.dialects.tools import Tool
from wap_kernel.errors import Code
from wap_kernel.policy.model import Answer

from . import definitions, schemas
from .handlers.base import AGENT_HEADER, CLAIM_LENGTH, SESSION_HEADER
from .handlers.errors import STATUS
from .handlers.tokens import LARGEST_PAGE, PAGE
from .token_requests import NewToken
from .tokens import AgentToken, MintedToken

_ALWAYS = (
    Code.INVALID_ARGUMENT,
    Code.UNAUTHENTICATED,
    Code.PERMISSION_DENIED,
    Code.SIZE_LIMIT_EXCEEDED,
    Code.INTERNAL_ERROR,
    Code.PROVIDER_UNAVAILABLE,
)
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
    }
)

_ERROR = {
    "type": "object",
    "properties": {
        "error": {"type": "string", "description": "What happened and what to do next."},
        "code": {"type": "string", "enum": [code.value for code in STATUS]},
        "details": {"type": "object", "description": "Data for programs; depends on the code."},
    },
    "required": ["error", "code"],
    "additionalProperties": False,
}

_SECURITY_SCHEMES = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "The Jupyter server's token, or an agent token, which opens the tools of its scope only.",
    },
    "cookie": {
        "type": "apiKey",
        "in": "header",
        "name": "X-XSRFToken",
        "description": "A browser session: Jupyter's login cookie, and its _xsrf cookie's value in this header.",
    },
}


@cache
def document(base_url: str) -> bytes:
    """The answer of `GET wap/openapi.json` for a server at `base_url`. It never changes, so it is made once."""
    paths: dict[str, Any] = {f"/wap/api/{tool.name}": {"post": _tool(tool)} for tool in wap.TOOLS.values()}
    paths["/wap/tools"] = {"get": _tools()}
    paths["/wap/policy"] = {"get": _policy()}
    paths["/wap/policy/check"] = {"post": _check()}
    paths["/wap/tokens"] = {"post": _mint(), "get": _tokens()}
    paths["/wap/tokens/{id}"] = {"delete": _revoke()}
    paths["/wap/openapi.json"] = {"get": _openapi()}
    whole = {
        "openapi": "3.1.0",
        "info": {
            "title": "wap",
            "version": __version__,
            "description": "Workspace Agent Protocol 1.0 on a Jupyter server.",
        },
        "servers": [{"url": base_url.rstrip("/") or "/"}],
        "security": [{name: []} for name in _SECURITY_SCHEMES],
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR},
            "securitySchemes": _SECURITY_SCHEMES,
            "parameters": {
                "agent": _claim(AGENT_HEADER, "the agent"),
                "session": _claim(SESSION_HEADER, "the agent's session"),
            },
        },
    }
    return json.dumps(whole).encode("ascii")


def _tool(tool: Tool[Any]) -> dict[str, Any]:
    parameters = schemas.of(tool.parameters, "validation")
    return {
        "operationId": tool.name,
        "summary": tool.title,
        "description": tool.description,
        "parameters": [{"$ref": "#/components/parameters/agent"}, {"$ref": "#/components/parameters/session"}],
        "requestBody": {"required": bool(parameters.get("required")), "content": _json(parameters)},
        "responses": _responses(schemas.of(tool.response, "serialization"), (*_ALWAYS, *_TOOL, *ERRORS[tool.name])),
    }


def _tools() -> dict[str, Any]:
    answer = {
        "type": "object",
        "properties": {"tools": {"type": "array", "items": {"type": "object"}}},
        "required": ["tools"],
    }
    return {
        "operationId": "listTools",
        "summary": "The tools' definitions, ready to paste into a model call",
        "parameters": [
            _choice("format", definitions.FORMATS, "For whom the definitions are written."),
            _choice("dialect", definitions.DIALECTS, "Whose tools."),
        ],
        "responses": _responses(answer, _ALWAYS),
    }


def _policy() -> dict[str, Any]:
    answer = {
        "type": "object",
        "properties": {"layers": {"type": "array", "items": {"type": "object"}}, "effective": {"type": "object"}},
        "required": ["layers", "effective", "provider", "confinesCommands", "grants"],
    }
    return {
        "operationId": "getPolicy",
        "summary": "The policy that binds the caller: its layers, and what they come to together",
        "responses": _responses(answer, _ALWAYS),
    }


def _check() -> dict[str, Any]:
    verdict = {
        "type": "object",
        "properties": {
            "operationId": {"type": "string"},
            "verdict": {"enum": [answer.value for answer in Answer]},
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
        "requestBody": {"required": True, "content": _json(schemas.of(OperationsMessage, "validation"))},
        "responses": _responses(answer, (*_ALWAYS, Code.RATE_LIMITED, Code.TIMEOUT)),
    }


def _mint() -> dict[str, Any]:
    return {
        "operationId": "mintToken",
        "summary": "Mint an agent token",
        "description": "Needs a person's credential. The token is in this answer and never again.",
        "requestBody": {"required": True, "content": _json(schemas.of(NewToken, "validation"))},
        "responses": _responses(schemas.of(MintedToken, "serialization"), _ALWAYS, success="201"),
    }


def _tokens() -> dict[str, Any]:
    item = schemas.of(AgentToken, "serialization")
    answer = {
        "type": "object",
        "properties": {"tokens": {"type": "array", "items": item}, "nextCursor": {"type": "string"}},
        "required": ["tokens"],
    }
    limit = {"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE, "default": PAGE}
    return {
        "operationId": "listTokens",
        "summary": "The agent tokens, newest first, also those that are revoked or have expired",
        "description": "Needs a person's credential.",
        "parameters": [
            _query("limit", limit, "How many at most."),
            _query("cursor", {"type": "string"}, "nextCursor of the page before."),
        ],
        "responses": _responses(answer, _ALWAYS),
    }


def _revoke() -> dict[str, Any]:
    return {
        "operationId": "revokeToken",
        "summary": "Revoke an agent token",
        "description": "Needs a person's credential.",
        "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
        "responses": _responses(None, (*_ALWAYS, Code.NOT_FOUND), success="204"),
    }


def _openapi() -> dict[str, Any]:
    return {
        "operationId": "describeApi",
        "summary": "This document",
        "responses": _responses({"type": "object"}, _ALWAYS),
    }


def _responses(answer: schemas.Schema | None, codes: Iterable[Code], success: str = "200") -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(STATUS[code], []).append(code.value)
    done = {"description": "Done."}
    responses: dict[str, Any] = {success: done if answer is None else {**done, "content": _json(answer)}}
    for status, names in sorted(by_status.items()):
        error = {"$ref": "#/components/schemas/Error", "properties": {"code": {"enum": names}}}
        responses[str(status)] = {"description": ", ".join(names), "content": _json(error)}
    return responses


def _json(schema: schemas.Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _choice(name: str, known: tuple[str, ...], description: str) -> dict[str, Any]:
    return _query(name, {"type": "string", "enum": list(known), "default": known[0]}, description)


def _query(name: str, schema: schemas.Schema, description: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


def _claim(header: str, whom: str) -> dict[str, Any]:
    return {
        "name": header,
        "in": "header",
        "required": False,
        "description": f"The name of {whom}, recorded as claimed; cut after {CLAIM_LENGTH} characters.",
        "schema": {"type": "string"},
    }
