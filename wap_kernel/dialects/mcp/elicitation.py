"""Ask the user of a client, through the client, to confirm what the workspace's own policy wants confirmed.

Until 2025-11-25 the server sends a request of its own while the call waits. From 2026-07-28 on it may not: the call is
answered with the prompt, and the client calls again with the user's answer, which counts for that prompt only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from wap_kernel.dialects.coding_environment.confirmation_prompt import ConfirmationPrompt
from wap_kernel.dialects.mcp.connection import Call, ClientGone
from wap_kernel.dialects.mcp.protocol import has_envelope

ANSWER_TIMEOUT_SECONDS = 15 * 60.0
METHOD = "elicitation/create"
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean", "title": "I agree", "default": False}},
    "required": ["confirm"],
}


class Elicitation(Protocol):
    """A way to ask the user of a client."""

    pending_request: Mapping[str, Any] | None
    """The answer of the call while the user has not answered."""

    async def confirm(self, prompt: ConfirmationPrompt) -> bool: ...


def open_elicitation(call: Call, answers: Mapping[str, Any] | None) -> Elicitation | None:
    """Return the elicitation for a call; None where the client cannot ask its user."""
    capability = call.connection.capabilities.get("elicitation")
    if not isinstance(capability, Mapping) or ("url" in capability and "form" not in capability):
        return None
    if has_envelope(call.version):
        return _RetriedElicitation(answers or {})
    return _DirectElicitation(call) if call.outlet.takes_requests else None


class _DirectElicitation:
    pending_request: Mapping[str, Any] | None = None

    def __init__(self, call: Call) -> None:
        self._call = call

    async def confirm(self, prompt: ConfirmationPrompt) -> bool:
        request = self._call.connection.ask(self._call.outlet, METHOD, _build_params(prompt))
        try:
            return _is_yes(await asyncio.wait_for(request, ANSWER_TIMEOUT_SECONDS))
        except (ClientGone, asyncio.TimeoutError):  # the client cannot ask after all, or the user does not answer
            return False


class _RetriedElicitation:
    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = answers
        self.pending_request: Mapping[str, Any] | None = None

    async def confirm(self, prompt: ConfirmationPrompt) -> bool:
        answer = self._answers.get(prompt.key)
        if answer is None:
            request = {"method": METHOD, "params": {**_build_params(prompt), "mode": "form"}}
            self.pending_request = {"resultType": "input_required", "inputRequests": {prompt.key: request}}
        return _is_yes(answer)


def _build_params(prompt: ConfirmationPrompt) -> dict[str, Any]:
    return {"message": prompt.text, "requestedSchema": _SCHEMA}


def _is_yes(answer: object) -> bool:
    content = answer.get("content") if isinstance(answer, Mapping) and answer.get("action") == "accept" else None
    return isinstance(content, Mapping) and content.get("confirm") is True
