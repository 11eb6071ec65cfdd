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
        "at": {"type": "string", "format": "date-time", "description": "The time of the request."},
        "dialect": _TEXT,
        "tool": {"type": "string", "description": "The name in the dialect, or else the engine's name."},
        "operation": {"type": "string", "description": "The engine's name of the operation."},
        "workspaceId": _TEXT,
        "user": _TEXT,
        "agent": {"type": "string", "description": "The name of the agent token, or the name that the client claims."},
        "session": {"type": "string", "description": "The session that the client claims, or the id of a kernel."},
        "notebook": {"type": "string", "description": "The path of the notebook that the client claims to be."},
        "token": {"type": "string", "description": "The id of the agent token."},
        "runId": _TEXT,
        "operationId": {"type": "string", "description": "The id of the operation in its run."},
        "outcome": {
            "enum": list(OUTCOMES),
            "description": "asked: a person decides. unfinished: still running, or the server died.",
        },
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
        "summary": "The audit records of the workspace, also of denied and failed operations, newest first",
        "description": "Needs a person's credential.",
        "parameters": [
            *parts.page_parameters(DEFAULT_PAGE, MAX_PAGE),
            parts.query("tool", _TEXT, "Only records of this tool, by the dialect's name or the engine's."),
            parts.query("outcome", {"type": "string", "enum": list(OUTCOMES)}, "Only records with this outcome."),
        ],
        "responses": parts.responses(parts.page_of("records", _RECORD), parts.ALWAYS),
    }
