"""The routes that need a person's credential, for the OpenAPI document: agent tokens, grants."""

from __future__ import annotations

from typing import Any

from wap_kernel.model.errors import Code
from wap_kernel.model.limits import DEFAULT_PAGE, MAX_PAGE

from .. import schemas
from ..tokens.requests import NewToken
from ..tokens.store import AgentToken, MintedToken
from . import parts

PERSON = "Needs a person's credential."

_GRANT = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "allows": {"type": "string", "description": "What is no longer asked about, for people to read."},
        "createdAt": {"type": "string"},
        "createdBy": {"type": "string"},
    },
    "required": ["id", "allows", "createdAt", "createdBy"],
    "additionalProperties": False,
}


def paths() -> dict[str, Any]:
    return {
        "/wap/grants": {"get": _grants()},
        "/wap/grants/{id}": {"delete": _revoke("revokeGrant", "Ask again about what a grant allows")},
        "/wap/tokens": {"post": _mint(), "get": _tokens()},
        "/wap/tokens/{id}": {"delete": _revoke("revokeToken", "Revoke an agent token")},
    }


def _grants() -> parts.Route:
    answer = {"type": "object", "properties": {"grants": {"type": "array", "items": _GRANT}}, "required": ["grants"]}
    return {
        "operationId": "listGrants",
        "summary": "What a person allowed for good (remember), newest first",
        "description": PERSON,
        "responses": parts.responses(answer, parts.ALWAYS),
    }


def _mint() -> parts.Route:
    return {
        "operationId": "mintToken",
        "summary": "Mint an agent token",
        "description": f"{PERSON} The token is in this answer and never again.",
        "requestBody": {"required": True, "content": parts.json(schemas.of(NewToken, "validation"))},
        "responses": parts.responses(schemas.of(MintedToken, "serialization"), parts.ALWAYS, success="201"),
    }


def _tokens() -> parts.Route:
    return {
        "operationId": "listTokens",
        "summary": "The agent tokens, newest first, also those that are revoked or have expired",
        "description": PERSON,
        "parameters": parts.page(DEFAULT_PAGE, MAX_PAGE),
        "responses": parts.responses(parts.listed("tokens", schemas.of(AgentToken, "serialization")), parts.ALWAYS),
    }


def _revoke(name: str, summary: str) -> parts.Route:
    return {
        "operationId": name,
        "summary": summary,
        "description": PERSON,
        "parameters": [parts.path("id")],
        "responses": parts.responses(None, (*parts.ALWAYS, Code.NOT_FOUND), success="204"),
    }
