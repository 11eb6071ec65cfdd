"""Build the OpenAPI 3.1 document from the models that check the requests. A test compares it with the route table."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from wap_kernel.model.limits import MAX_CLAIM_CHARACTERS
from wap_kernel.model.package import __version__

from ..handlers.base import AGENT_HEADER, NOTEBOOK_HEADER, SESSION_HEADER
from . import audit, mcp, parts, person_routes, policy, runs, tools, workspace_tools
from .tools import ERRORS

__all__ = ["ERRORS", "build_document"]

_LICENSE = "BSD-3-Clause"
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
            "contact": {"name": "The wap contributors"},
            "license": {"name": _LICENSE, "identifier": _LICENSE},
        },
        "servers": [{"url": base_url.rstrip("/") or "/"}],
        "security": [{name: []} for name in _SECURITY_SCHEMES],
        "tags": [{"name": name, "description": description} for name, description, _ in _TAGS],
        "paths": {path: item for tag, _, build in _TAGS for path, item in _tag_routes(tag, build()).items()},
        "components": {
            "schemas": {"Error": parts.ERROR},
            "securitySchemes": _SECURITY_SCHEMES,
            "parameters": {
                "agent": _claim_header(AGENT_HEADER, "the agent"),
                "session": _claim_header(SESSION_HEADER, "the agent's session"),
                "notebook": _claim_header(NOTEBOOK_HEADER, "the notebook"),
            },
        },
    }
    return json.dumps(document).encode("ascii")


def _tag_routes(tag: str, paths: dict[str, Any]) -> dict[str, Any]:
    """Add the tag to each route, and a description where its summary says everything."""
    return {
        path: {method: {"tags": [tag], "description": route["summary"], **route} for method, route in item.items()}
        for path, item in paths.items()
    }


def _describe_descriptions() -> dict[str, Any]:
    return {**tools.definition_paths(), "/wap/openapi.json": {"get": _openapi()}}


def _openapi() -> parts.Route:
    return {
        "operationId": "describeApi",
        "summary": "This document",
        "responses": parts.responses({"type": "object"}, parts.ALWAYS),
    }


def _claim_header(name: str, claimant: str) -> dict[str, Any]:
    description = f"The name of {claimant}, recorded as claimed; truncated after {MAX_CLAIM_CHARACTERS} characters."
    return parts.header(name, {"type": "string"}, description)


_TAGS = (
    ("tools", "The tools of the Workspace Agent Protocol and what it leaves out.", tools.paths),
    ("workspace", "The tools of the workspace-tool-interface.", workspace_tools.paths),
    ("runs", "Batches of Agent Spaces operations: run, watch, decide, cancel, revert.", runs.paths),
    ("mcp", "The Model Context Protocol.", mcp.paths),
    ("policy", "The policy in force, and verdicts in advance.", policy.paths),
    ("people", "Routes that need a person's credential: agent tokens, grants.", person_routes.paths),
    ("audit", "The audit records.", audit.paths),
    ("descriptions", "The tools for models, and this document.", _describe_descriptions),
)
"""Each tag of routes, its description, and the function that describes the routes."""
