"""wap/mcp, for the OpenAPI document: that it is there. What is said on it the Model Context Protocol describes."""

from __future__ import annotations

from typing import Any

from . import parts

_MESSAGE = {
    "type": "object",
    "properties": {"jsonrpc": {"const": "2.0"}, "id": {}, "method": {"type": "string"}, "params": {"type": "object"}},
    "required": ["jsonrpc"],
}
_ERRORS = "A request that is refused is answered with a JSON-RPC error without an id, with the status of its code."
_EVENTS = {"text/event-stream": {"schema": {"type": "string"}}}
_SESSION = parts.header("Mcp-Session-Id", {"type": "string"}, "As the answer to initialize named it.")


def paths() -> dict[str, Any]:
    return {"/wap/mcp": {"post": _post(), "get": _get(), "delete": _delete()}}


def _post() -> parts.Route:
    return {
        "operationId": "sendMcpMessage",
        "summary": "A message of an MCP client",
        "description": f"MCP streamable HTTP, 2024-11-05 to 2026-07-28. {_ERRORS}",
        "parameters": [_SESSION],
        "requestBody": {"required": True, "content": parts.json(_MESSAGE)},
        "responses": {
            "200": {"description": "The answer.", "content": {**parts.json(_MESSAGE), **_EVENTS}},
            "202": {"description": "Taken; there is no answer."},
        },
    }


def _get() -> parts.Route:
    return {
        "operationId": "listenToMcp",
        "summary": "What the server says by itself; with Last-Event-ID what was missed",
        "description": _ERRORS,
        "parameters": [_SESSION],
        "responses": {"200": {"description": "Server-sent events.", "content": _EVENTS}},
    }


def _delete() -> parts.Route:
    return {
        "operationId": "endMcpSession",
        "summary": "End an MCP session",
        "description": _ERRORS,
        "parameters": [_SESSION],
        "responses": {"200": {"description": "Ended."}},
    }
