"""The timeout of a command over REST: one over the cap of policy says so, and a default that is cut says nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.server_processes import OPEN

CAP_SECONDS = 2


@pytest.fixture
def wap_settings() -> dict[str, Any]:
    policy = {**OPEN["policy"], "shell": {**OPEN["policy"]["shell"], "maxTimeoutMs": 1000 * CAP_SECONDS}}  # type: ignore[index, dict-item]
    return {**OPEN, "policy": policy}


ROUTES = {
    "wap": ("wap/api/executeCommand", {"command": "true"}, "timeout"),
    "tool interface": ("wap/workspace/bash", {"command": "true"}, "timeout_ms"),
    "agent spaces": ("wap/runs", {"type": "shell", "command": "true"}, "timeout"),
}


async def _run(fetch: Any, route: str, parameters: dict[str, Any]) -> dict[str, Any]:
    is_batch = route.startswith("wap/runs")
    body = {"protocolVersion": "1.0", "operations": [parameters]} if is_batch else parameters
    answer = (await fetch(route, method="POST", body=json.dumps(body))).body
    result: dict[str, Any] = answer["events"][0] if is_batch else answer
    return result


@pytest.mark.parametrize("dialect", ROUTES)
async def test_a_timeout_over_the_cap_says_so(fetch: Any, dialect: str) -> None:
    route, parameters, field = ROUTES[dialect]
    note = "wap: the timeout of 900 seconds was shortened to 2 seconds, the longest that policy allows"
    result = await _run(fetch, route, {**parameters, field: 900_000})
    assert note in result["stderr"].splitlines()
    for within in ({}, {field: 1000 * CAP_SECONDS}):
        assert "timeout" not in (await _run(fetch, route, {**parameters, **within}))["stderr"]


@pytest.mark.parametrize(
    ("field", "milliseconds", "advice"),
    [
        ("timeout", 1_000, "Ask for a longer timeout, in milliseconds, up to 2000, or do less at once."),
        ("timeout", 900_000, "Policy allows no longer timeout; do less at once."),
    ],
)
async def test_the_end_of_a_command_names_the_option_or_the_cap(
    fetch: Any, field: str, milliseconds: int, advice: str
) -> None:
    slow = {"type": "shell", "command": "sleep 60", field: milliseconds}
    event = await _run(fetch, "wap/runs", slow)
    assert event["timedOut"]
    assert event["error"].startswith(f"The command was ended after {min(milliseconds // 1000, CAP_SECONDS)} second")
    assert event["error"].endswith(advice)
