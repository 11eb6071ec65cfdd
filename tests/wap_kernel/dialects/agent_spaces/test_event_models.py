"""The events of Agent Spaces as they are read: every example of the reference, what is refused, what may be added."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.agent_spaces_examples import EVENTS, EVENTS_MESSAGE
from wap_kernel import parse_event, parse_events_message, validate_event, validate_events_message


@pytest.mark.parametrize("name", EVENTS)
def test_the_examples_of_the_specification_are_read(name: str) -> None:
    assert parse_event(EVENTS[name]).model_dump(by_alias=True, exclude_unset=True) == EVENTS[name]


def test_the_message_of_the_specification() -> None:
    assert parse_events_message(EVENTS_MESSAGE).model_dump(by_alias=True, exclude_unset=True) == EVENTS_MESSAGE


def test_our_extras_of_a_message_and_what_a_later_version_may_add() -> None:
    sent = {
        **EVENTS_MESSAGE,
        "status": "awaiting_approval",
        "events": [*EVENTS.values(), {**EVENTS["shell"], "later": {"a": [1]}}],
        "startedAt": "2024-01-15T10:30:00.000Z",
        "pendingApproval": {"approvalId": "a"},
        "later": [],
    }
    assert parse_events_message(sent).model_dump(by_alias=True, exclude_unset=True) == sent


@pytest.mark.parametrize("status", ["running", "awaiting_approval", "completed", "cancelled", "error"])
def test_every_status(status: str) -> None:
    assert validate_events_message({**EVENTS_MESSAGE, "status": status}).success


@pytest.mark.parametrize(
    "wrong",
    [
        {**EVENTS_MESSAGE, "status": "done"},
        {**EVENTS_MESSAGE, "protocolVersion": "2.0"},
        {**EVENTS_MESSAGE, "startedAt": "2024-01-15T10:30:00+00:00"},
        {**EVENTS_MESSAGE, "events": [{"type": "createFile"}]},
    ],
)
def test_a_malformed_message_is_refused(wrong: dict[str, Any]) -> None:
    assert not validate_events_message(wrong).success


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({**EVENTS["shell"], "timestamp": "2024-01-15T10:30:00"}, "shell.timestamp: "),
        ({**EVENTS["shell"], "success": "yes"}, "shell.success: "),
        ({**EVENTS["shell"], "exitCode": 0.5}, "shell.exitCode: "),
        ({**EVENTS["error"], "category": "weather"}, "error.category: "),
        ({**EVENTS["policyDenied"], "reason": None}, "policyDenied.reason: "),
        ({"type": "createFile", "success": True}, "createFile.path: "),
        ({"type": "creatFile", "success": True}, "Unknown type of event"),
        ({"type": "writeFile", "success": True}, "Unknown type of event"),
        ({"success": True}, "This field is required."),
    ],
)
def test_a_malformed_event_is_refused(wrong: dict[str, Any], text: str) -> None:
    answer = validate_event(wrong)
    assert answer.error is not None and text in answer.error.message
