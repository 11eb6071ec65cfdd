"""Send log messages to the client: the outcomes of its calls, never contents.

Until 2025-11-25 a client sets the level once for its session; from 2026-07-28 on with each request, or it gets no
messages. The SDK deprecates logging; until it is removed, clients that ask for it get it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, get_args

import mcp_types as types
from mcp.server.connection import allowed_log_levels
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from wap_kernel.dialects.mcp.identity import Message, get_connection

LOGGER = "wap"
DEFAULT_LEVEL: types.LoggingLevel = "info"
_LEVELS: tuple[types.LoggingLevel, ...] = get_args(types.LoggingLevel)
"""The levels from the least to the most severe."""
_LEVEL_KEY = "wap.log_level"


async def set_level(message: Message, params: types.SetLevelRequestParams) -> types.EmptyResult:
    get_connection(message).state[_LEVEL_KEY] = params.level
    return types.EmptyResult()


async def send_log(message: Message, level: types.LoggingLevel, data: Mapping[str, Any]) -> None:
    """Send a log message about the request of `message`, if the client enabled `level`."""
    if level in _enabled_levels(message):
        params = types.LoggingMessageNotificationParams(level=level, logger=LOGGER, data=dict(data))
        await message.session.send_notification(types.LoggingMessageNotification(params=params), message.request_id)


def _enabled_levels(message: Message) -> Collection[types.LoggingLevel]:
    if message.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return allowed_log_levels(message.protocol_version, message.meta)
    return _LEVELS[_LEVELS.index(get_connection(message).state.get(_LEVEL_KEY, DEFAULT_LEVEL)) :]
