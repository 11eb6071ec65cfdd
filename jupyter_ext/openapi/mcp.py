"""The route wap/mcp, for the OpenAPI document. The Model Context Protocol describes its messages."""

from __future__ import annotations

from typing import Any

from . import parts

_MESSAGE = {
    "type": "object",
    "properties": {"jsonrpc": {"const": "2.0"}, "id": {}, "method": {"type": "string"}, "params": {"type": "object"}},
    "required": ["jsonrpc"],
}
_ERROR = {
    "type": "object",
    "properties": {
        "jsonrpc": {"const": "2.0"},
        "id": {},
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "integer"},
                "message": {"type": "string"},
                "data": {"description": "The `code` of a refusal by this server, as on the other routes."},
            },
            "required": ["code", "message"],
        },
    },
    "required": ["jsonrpc", "error"],
}
_REFUSALS = {
    "400": "The message, or a header, does not follow the protocol.",
    "401": "The client is not authenticated.",
    "403": "The client may not do this.",
    "404": "There is no such session, or no such method.",
    "406": "The Accept header names neither JSON nor server-sent events.",
    "409": "The session has such a stream already.",
    "413": "The body is too large.",
    "415": "The Content-Type is not JSON.",
    "500": "The server has a bug.",
    "503": "There is no workspace, or no session is free.",
}
_EVENTS: parts.Route = {"text/event-stream": {"schema": {}}}
"""Events that each hold a message, except the first, which only has an id to continue after."""
_SESSION = parts.header("Mcp-Session-Id", {"type": "string"}, "The session id in the answer to initialize.")


def paths() -> dict[str, Any]:
    return {"/wap/mcp": {"post": _post(), "get": _get(), "delete": _delete()}}


def _refusals(*others: str) -> parts.Route:
    always = ("400", "401", "403", "404", "406", "413", "500", "503")
    return {
        status: {
            "description": f"{_REFUSALS[status]} A JSON-RPC error, mostly without an id.",
            "content": parts.json(_ERROR),
        }
        for status in sorted((*always, *others))
    }


def _post() -> parts.Route:
    return {
        "operationId": "sendMcpMessage",
        "summary": "A message of an MCP client",
        "description": "MCP streamable HTTP, 2024-11-05 to 2026-07-28.",
        "parameters": [_SESSION],
        "requestBody": {"required": True, "content": parts.json(_MESSAGE)},
        "responses": {
            "200": {"description": "The answer.", "content": {**parts.json(_MESSAGE), **_EVENTS}},
            "202": {"description": "Accepted; there is no answer."},
            **_refusals("415"),
        },
    }


def _get() -> parts.Route:
    return {
        "operationId": "listenToMcp",
        "summary": "The messages of the server; with Last-Event-ID also those that the client missed",
        "parameters": [_SESSION],
        "responses": {"200": {"description": "Server-sent events.", "content": _EVENTS}, **_refusals("409")},
    }


def _delete() -> parts.Route:
    return {
        "operationId": "endMcpSession",
        "summary": "End an MCP session",
        "parameters": [_SESSION],
        "responses": {"200": {"description": "Ended."}, **_refusals()},
    }
