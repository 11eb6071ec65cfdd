"""Build the OpenAPI 3.1 document from the models that check the requests. A test compares it with the route table."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from wap_kernel.model.limits import MAX_CLAIM_CHARACTERS
from wap_kernel.model.package import __version__

from ..handlers.base import AGENT_HEADER, SESSION_HEADER
from . import audit, mcp, parts, person_routes, runs, tools, workspace_tools
from .tools import ERRORS

__all__ = ["ERRORS", "build_document"]

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
def build_document(base_url: str) -> bytes:
    """Build the answer of `GET wap/openapi.json` for a server at `base_url`; it never changes, so it is cached."""
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "wap",
            "version": __version__,
            "description": "Workspace Agent Protocol 1.0 and Agent Spaces on a Jupyter server.",
        },
        "servers": [{"url": base_url.rstrip("/") or "/"}],
        "security": [{name: []} for name in _SECURITY_SCHEMES],
        "paths": {
            **{
                **tools.paths(),
                **workspace_tools.paths(),
                **runs.paths(),
                **mcp.paths(),
                **audit.paths(),
                **person_routes.paths(),
            },
            "/wap/openapi.json": {"get": _openapi()},
        },
        "components": {
            "schemas": {"Error": parts.ERROR},
            "securitySchemes": _SECURITY_SCHEMES,
            "parameters": {
                "agent": _claim_header(AGENT_HEADER, "the agent"),
                "session": _claim_header(SESSION_HEADER, "the agent's session"),
            },
        },
    }
    return json.dumps(document).encode("ascii")


def _openapi() -> parts.Route:
    return {
        "operationId": "describeApi",
        "summary": "This document",
        "responses": parts.responses({"type": "object"}, parts.ALWAYS),
    }


def _claim_header(name: str, claimant: str) -> dict[str, Any]:
    description = f"The name of {claimant}, recorded as claimed; truncated after {MAX_CLAIM_CHARACTERS} characters."
    return parts.header(name, {"type": "string"}, description)
