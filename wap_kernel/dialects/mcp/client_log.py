"""Log messages for the client: what became of its calls, never contents.

Until 2025-11-25 a client chooses the level once for its session; from 2026-07-28 on with each request, or it hears
nothing. The SDK's own helper warns that logging will go; until then, clients that ask for it are served.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, get_args

import mcp_types as types
from mcp.server.connection import allowed_log_levels
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from wap_kernel.dialects.mcp.identity import Message, get_connection

LOGGER = "wap"
DEFAULT: types.LoggingLevel = "info"
_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)
"""From the least to the most severe."""
_CHOSEN = "wap.log_level"


async def set_level(message: Message, params: types.SetLevelRequestParams) -> types.EmptyResult:
    get_connection(message).state[_CHOSEN] = params.level
    return types.EmptyResult()


async def tell(message: Message, level: types.LoggingLevel, data: Mapping[str, Any]) -> None:
    """With the request that it is about."""
    if level in _wanted(message):
        said = types.LoggingMessageNotificationParams(level=level, logger=LOGGER, data=dict(data))
        await message.session.send_notification(types.LoggingMessageNotification(params=said), message.request_id)


def _wanted(message: Message) -> Collection[types.LoggingLevel]:
    if message.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return allowed_log_levels(message.protocol_version, message.meta)
    return _LEVELS[_LEVELS.index(get_connection(message).state.get(_CHOSEN, DEFAULT)) :]
