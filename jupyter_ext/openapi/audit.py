"""GET wap/audit, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from wap_kernel.model.limits import DEFAULT_PAGE, MAX_PAGE
from wap_kernel.state.audit.query import OUTCOMES

from . import parts

_TEXT = {"type": "string"}
_RECORD = {
    "type": "object",
    "properties": {
        "id": _TEXT,
        "at": {"type": "string", "format": "date-time", "description": "When it was asked for."},
        "dialect": _TEXT,
        "tool": {"type": "string", "description": "By the dialect's own name, or else the engine's."},
        "operation": {"type": "string", "description": "By the engine's name."},
        "workspaceId": _TEXT,
        "user": _TEXT,
        "agent": {"type": "string", "description": "The token's name, or as claimed."},
        "session": {"type": "string", "description": "As claimed."},
        "token": {"type": "string", "description": "The id of the agent token."},
        "runId": _TEXT,
        "operationId": {"type": "string", "description": "Of the operation in its run."},
        "outcome": {"enum": list(OUTCOMES), "description": "unfinished: under way, or the server died."},
        "code": _TEXT,
        "error": _TEXT,
        "durationMs": {"type": "number"},
        "summary": {"type": "object", "description": "Paths and commands; never contents or output."},
    },
    "required": ["id", "at", "tool", "operation", "workspaceId", "user", "outcome", "summary"],
    "additionalProperties": False,
}


def paths() -> dict[str, Any]:
    return {"/wap/audit": {"get": _audit()}}


def _audit() -> parts.Route:
    return {
        "operationId": "listAudit",
        "summary": "What was done in the workspace, also what was denied or failed, newest first",
        "description": "Needs a person's credential.",
        "parameters": [
            *parts.page(DEFAULT_PAGE, MAX_PAGE),
            parts.query("tool", _TEXT, "Only this tool, by the dialect's name or the engine's."),
            parts.query("outcome", {"type": "string", "enum": list(OUTCOMES)}, "Only what ended like this."),
        ],
        "responses": parts.responses(parts.listed("records", _RECORD), parts.ALWAYS),
    }
