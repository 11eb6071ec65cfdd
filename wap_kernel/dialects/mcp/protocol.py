"""The names and numbers of the Model Context Protocol: versions, error codes, headers, keys of `_meta`.

Until 2025-11-25 a client opens a session with `initialize`. From 2026-07-28 on every request stands alone and carries
an envelope in its `_meta`: the version, the client's name and its capabilities.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The versions that `initialize` negotiates."""
ENVELOPE_VERSIONS = ("2026-07-28",)
"""The versions in which every request has an envelope."""
LATEST_HANDSHAKE_VERSION = HANDSHAKE_VERSIONS[-1]
BATCH_VERSION = "2025-03-26"
"""The one version that has JSON-RPC batches."""
PRIMING_VERSION = "2025-11-25"
"""The version from which on a stream begins with an empty event that gives a position to resume from."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022
REQUEST_CANCELLED = -32800

HTTP_STATUS: Mapping[int, int] = MappingProxyType(
    {
        PARSE_ERROR: 400,
        INVALID_REQUEST: 400,
        INVALID_PARAMS: 400,
        HEADER_MISMATCH: 400,
        UNSUPPORTED_VERSION: 400,
        METHOD_NOT_FOUND: 404,
    }
)
"""The HTTP status of a JSON-RPC error in the versions with envelopes; 200 for the others."""

SESSION_HEADER = "Mcp-Session-Id"
VERSION_HEADER = "Mcp-Protocol-Version"
METHOD_HEADER = "Mcp-Method"
NAME_HEADER = "Mcp-Name"
NAMED_METHODS: Mapping[str, str] = MappingProxyType(
    {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
)
"""The parameter that `Mcp-Name` repeats, by method."""

_PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = f"{_PREFIX}protocolVersion"
CLIENT_KEY = f"{_PREFIX}clientInfo"
CAPABILITIES_KEY = f"{_PREFIX}clientCapabilities"
LOG_LEVEL_KEY = f"{_PREFIX}logLevel"
SERVER_KEY = f"{_PREFIX}serverInfo"
SUBSCRIPTION_KEY = f"{_PREFIX}subscriptionId"

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels from the least to the most severe."""
CACHEABLE_METHODS = frozenset(
    {
        *("server/discover", "tools/list", "prompts/list"),
        *("resources/list", "resources/templates/list", "resources/read"),
    }
)
"""The methods whose results say for how long a client may cache them, from 2026-07-28 on."""


def negotiate_version(requested: str) -> str:
    """Return the version of a session whose client requests `requested`."""
    return requested if requested in HANDSHAKE_VERSIONS else LATEST_HANDSHAKE_VERSION


def has_envelope(version: str) -> bool:
    return version in ENVELOPE_VERSIONS
