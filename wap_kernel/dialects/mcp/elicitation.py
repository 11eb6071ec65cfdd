"""Asking the user of a client, through the client, to agree to what the workspace's own policy wants confirmed.

Until 2025-11-25 the server sends a request of its own while the call waits. From 2026-07-28 on it may not: the call is
answered with the question, and the client calls again with the answer, which counts for that question only.
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

PATIENCE_SECONDS = 15 * 60.0
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean", "title": "I agree", "default": False}},
    "required": ["confirm"],
}


class Elicitation(Protocol):
    due: types.InputRequiredResult | None
    """What the call is to be answered with, where the question is still open."""

    async def confirm(self, question: ConfirmationPrompt) -> bool: ...


def elicitation(message: Message, params: types.CallToolRequestParams) -> Elicitation | None:
    """None where nobody can be asked."""
    declared = message.session.client_capabilities
    ability = None if declared is None else declared.elicitation
    if ability is None or (ability.form is None and ability.url is not None):
        return None
    if message.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return _Retried(params.input_responses or {})
    return _Asked(message) if message.session.can_send_request else None


class _Asked:
    def __init__(self, message: Message) -> None:
        self._message = message
        self.due: types.InputRequiredResult | None = None

    async def confirm(self, question: ConfirmationPrompt) -> bool:
        asking = self._message.session.elicit_form(question.text, _SCHEMA, self._message.request_id)
        try:
            return _is_yes(await asyncio.wait_for(asking, PATIENCE_SECONDS))
        except (MCPError, ValidationError, asyncio.TimeoutError):
            # The client cannot ask after all, or answers with something else, or nobody answers.
            return False


class _Retried:
    def __init__(self, answers: types.InputResponses) -> None:
        self._answers = answers
        self.due: types.InputRequiredResult | None = None

    async def confirm(self, question: ConfirmationPrompt) -> bool:
        key = question.key
        answer = self._answers.get(key)
        if answer is None:
            form = types.ElicitRequestFormParams(message=question.text, requested_schema=_SCHEMA)
            self.due = types.InputRequiredResult(input_requests={key: types.ElicitRequest(params=form)})
        return isinstance(answer, types.ElicitResult) and _is_yes(answer)


def _is_yes(answer: types.ElicitResult) -> bool:
    return answer.action == "accept" and (answer.content or {}).get("confirm") is True
