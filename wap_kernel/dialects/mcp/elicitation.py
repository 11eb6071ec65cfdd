"""Ask the user of a client, through the client, to confirm what the workspace's own policy wants confirmed.

Until 2025-11-25 the server sends a request of its own while the call waits. From 2026-07-28 on it may not: the call is
answered with the prompt, and the client calls again with the user's answer, which counts for that prompt only.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from wap_kernel.dialects.coding_environment.confirmation_prompt import ConfirmationPrompt
from wap_kernel.dialects.mcp.identity import Message

ANSWER_TIMEOUT_SECONDS = 15 * 60.0
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean", "title": "I agree", "default": False}},
    "required": ["confirm"],
}


class Elicitation(Protocol):
    """A way to ask the user of a client."""

    pending_request: types.InputRequiredResult | None
    """The answer of the call while the user has not answered."""

    async def confirm(self, prompt: ConfirmationPrompt) -> bool: ...


def open_elicitation(message: Message, params: types.CallToolRequestParams) -> Elicitation | None:
    """Return the elicitation for a call; None where the client cannot ask its user."""
    declared = message.session.client_capabilities
    capability = None if declared is None else declared.elicitation
    if capability is None or (capability.form is None and capability.url is not None):
        return None
    if message.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return _RetriedElicitation(params.input_responses or {})
    return _DirectElicitation(message) if message.session.can_send_request else None


class _DirectElicitation:
    def __init__(self, message: Message) -> None:
        self._message = message
        self.pending_request: types.InputRequiredResult | None = None

    async def confirm(self, prompt: ConfirmationPrompt) -> bool:
        request = self._message.session.elicit_form(prompt.text, _SCHEMA, self._message.request_id)
        try:
            return _is_yes(await asyncio.wait_for(request, ANSWER_TIMEOUT_SECONDS))
        except (MCPError, ValidationError, asyncio.TimeoutError):
            # The client cannot ask after all, its answer does not fit the form, or the user does not answer.
            return False


class _RetriedElicitation:
    def __init__(self, answers: types.InputResponses) -> None:
        self._answers = answers
        self.pending_request: types.InputRequiredResult | None = None

    async def confirm(self, prompt: ConfirmationPrompt) -> bool:
        key = prompt.key
        answer = self._answers.get(key)
        if answer is None:
            form = types.ElicitRequestFormParams(message=prompt.text, requested_schema=_SCHEMA)
            self.pending_request = types.InputRequiredResult(input_requests={key: types.ElicitRequest(params=form)})
        return isinstance(answer, types.ElicitResult) and _is_yes(answer)


def _is_yes(answer: types.ElicitResult) -> bool:
    return answer.action == "accept" and (answer.content or {}).get("confirm") is True
