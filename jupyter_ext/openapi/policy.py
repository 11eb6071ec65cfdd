"""The routes of policy, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from wap_kernel.dialects.agent_spaces.operations import OperationsMessage
from wap_kernel.model.errors import Code
from wap_kernel.model.policy import VerdictKind

from . import parts

_TEXTS = {"type": "array", "items": {"type": "string"}}
_POLICY = {
    "type": "object",
    "properties": {
        "layers": {"type": "array", "items": {"type": "object"}},
        "effective": {"type": "object"},
        "provider": {"type": "string", "description": "Where commands run."},
        "confinesCommands": {"type": "boolean", "description": "Whether a sandbox confines commands."},
        "isolation": {"enum": ["layer", "shared"], "description": "Where the changes of commands go."},
        "git": {
            "type": "object",
            "properties": {"remotes": _TEXTS, "protectedBranches": _TEXTS},
            "required": ["remotes", "protectedBranches"],
            "additionalProperties": False,
        },
        "grants": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"id": {"type": "string"}, "allows": {"type": "string"}},
                "required": ["id", "allows"],
                "additionalProperties": False,
            },
            "description": "What people allowed always; an agent sees none.",
        },
    },
    "required": ["layers", "effective", "provider", "confinesCommands", "isolation", "git", "grants"],
    "additionalProperties": False,
}


def paths() -> dict[str, Any]:
    return {"/wap/policy": {"get": _policy()}, "/wap/policy/check": {"post": _check()}}


def _policy() -> parts.Route:
    return {
        "operationId": "getPolicy",
        "summary": "The policy that binds the caller: its layers, and the effective policy",
        "responses": parts.responses(_POLICY, parts.ALWAYS),
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
        "requestBody": parts.request_body(OperationsMessage),
        "responses": parts.responses(answer, (*parts.ALWAYS, Code.RATE_LIMITED, Code.TIMEOUT)),
    }
