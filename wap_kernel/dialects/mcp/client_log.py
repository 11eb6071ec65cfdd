"""Send log messages to the client: the outcomes of its calls, never contents.

Until 2025-11-25 a client sets the level once for its session; from 2026-07-28 on with each request, or it gets no
messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wap_kernel.dialects.mcp.connection import Call
from wap_kernel.dialects.mcp.messages import Result
from wap_kernel.dialects.mcp.params import LevelParams, parse_params
from wap_kernel.dialects.mcp.protocol import LOG_LEVEL_KEY, LOG_LEVELS, has_envelope

LOGGER = "wap"


async def set_level(call: Call) -> Result:
    call.connection.log_level = parse_params(call.request, LevelParams).level
    return {}


def send_log(call: Call, level: str, data: Mapping[str, Any]) -> None:
    """Send a log message about the request of `call`, if the client enabled `level`."""
    enabled = call.meta.get(LOG_LEVEL_KEY) if has_envelope(call.version) else call.connection.log_level
    if enabled in LOG_LEVELS and LOG_LEVELS.index(level) >= LOG_LEVELS.index(enabled):
        call.notify("notifications/message", {"level": level, "logger": LOGGER, "data": data})
