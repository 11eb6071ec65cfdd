"""The routes that need a person's credential, for the OpenAPI document: agent tokens, grants."""

from __future__ import annotations

from typing import Any

from wap_kernel.dialects import json_schema
from wap_kernel.model.errors import Code
from wap_kernel.model.limits import DEFAULT_PAGE, MAX_PAGE

from ..tokens.models import AgentToken, MintedToken
from ..tokens.requests import TokenRequest
from . import parts

PERSON = "Needs a person's credential."

_GRANT = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "allows": {"type": "string", "description": "The operations that need no approval any more, in words."},
        "createdAt": {"type": "string"},
        "createdBy": {"type": "string"},
    },
    "required": ["id", "allows", "createdAt", "createdBy"],
    "additionalProperties": False,
}


def paths() -> dict[str, Any]:
    return {
        "/wap/grants": {"get": _grants()},
        "/wap/grants/{id}": {"delete": _revoke("revokeGrant", "Revoke a grant")},
        "/wap/tokens": {"post": _mint(), "get": _tokens()},
        "/wap/tokens/{id}": {"delete": _revoke("revokeToken", "Revoke an agent token")},
    }


def _grants() -> parts.Route:
    answer = {"type": "object", "properties": {"grants": {"type": "array", "items": _GRANT}}, "required": ["grants"]}
    return {
        "operationId": "listGrants",
        "summary": "The grants (approvals that a person had remembered), newest first",
        "description": PERSON,
        "responses": parts.responses(answer, parts.ALWAYS),
    }


def _mint() -> parts.Route:
    return {
        "operationId": "mintToken",
        "summary": "Mint an agent token",
        "description": f"{PERSON} The token is in this answer and never again.",
        "requestBody": parts.request_body(TokenRequest),
        "responses": parts.responses(
            json_schema.build_schema(MintedToken, "serialization"), parts.ALWAYS, success="201"
        ),
    }


def _tokens() -> parts.Route:
    return {
        "operationId": "listTokens",
        "summary": "The agent tokens, newest first, also revoked and expired ones",
        "description": PERSON,
        "parameters": parts.page_parameters(DEFAULT_PAGE, MAX_PAGE),
        "responses": parts.responses(
            parts.page_of("tokens", json_schema.build_schema(AgentToken, "serialization")), parts.ALWAYS
        ),
    }


def _revoke(name: str, summary: str) -> parts.Route:
    return {
        "operationId": name,
        "summary": summary,
        "description": PERSON,
        "parameters": [parts.path("id")],
        "responses": parts.responses(None, (*parts.ALWAYS, Code.NOT_FOUND), success="204"),
    }
