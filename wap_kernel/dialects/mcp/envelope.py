"""The envelope of a request from 2026-07-28 on: read it from `_meta`, and compare it with the HTTP headers. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wap_kernel.dialects.mcp.messages import ProtocolError, Request
from wap_kernel.dialects.mcp.protocol import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    ENVELOPE_VERSIONS,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    METHOD_HEADER,
    NAME_HEADER,
    NAMED_METHODS,
    UNSUPPORTED_VERSION,
    VERSION_HEADER,
    VERSION_KEY,
)

_REQUIRED = "From 2026-07-28 on every request has there what MCP demands."
_MISMATCH = "Mcp-Protocol-Version, Mcp-Method and Mcp-Name repeat what the body says, once each."
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")


@dataclass(frozen=True)
class Envelope:
    """The client's version, name and capabilities."""

    version: str
    client: str | None
    capabilities: Mapping[str, Any]


def is_enveloped(request: Request) -> bool:
    return VERSION_KEY in request.meta


def read_envelope(request: Request, headers: Mapping[str, list[str]] | None) -> Envelope:
    """Return the envelope of a request; raise ProtocolError where it is incomplete or differs from the headers.

    `headers` holds the values of each header, by its name in lower case; None for a transport without headers.
    """
    missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in request.meta]
    if missing:
        raise ProtocolError(INVALID_PARAMS, f"params._meta: {missing[0]} is missing.", _REQUIRED, request_id=request.id)
    version = request.meta[VERSION_KEY]
    if headers is not None:
        _compare_headers(request, version, headers)
    if not isinstance(version, str):
        hint = "Name a version of MCP, as 2026-07-28."
        raise ProtocolError(INVALID_PARAMS, f"params._meta: {VERSION_KEY} is no text.", hint, request_id=request.id)
    check_version(version, request)
    capabilities = request.meta[CAPABILITIES_KEY]
    return Envelope(version, find_client_name(request.meta.get(CLIENT_KEY)), _as_object(capabilities))


def check_version(version: str, request: Request | None = None) -> None:
    if version not in ENVELOPE_VERSIONS:
        raise ProtocolError(
            UNSUPPORTED_VERSION,
            "Unsupported protocol version.",
            "Speak one of those in data.supported.",
            request_id=None if request is None else request.id,
            supported=list(ENVELOPE_VERSIONS),
            requested=version[:100],
        )


def _compare_headers(request: Request, version: object, headers: Mapping[str, list[str]]) -> None:
    expected: dict[str, object] = {VERSION_HEADER: version, METHOD_HEADER: request.method}
    parameter = NAMED_METHODS.get(request.method)
    name = None if parameter is None or request.params is None else request.params.get(parameter)
    if name is not None:
        expected[NAME_HEADER] = name
    for header, value in expected.items():
        sent = headers.get(header.lower(), [])
        if len(sent) != 1 or decode_header(sent[0]) != value:
            raise ProtocolError(
                HEADER_MISMATCH,
                f"The header {header} does not say what the body says.",
                _MISMATCH,
                request_id=request.id,
            )


def decode_header(value: str) -> str | None:
    """Return the text of a header, which may be in base64; None where that is malformed."""
    match = _ENCODED.fullmatch(value)
    if match is None:
        return value
    try:
        decoded = base64.b64decode(match[1], validate=True)
        return decoded.decode("utf-8") if base64.b64encode(decoded).decode("ascii") == match[1] else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def encode_header(text: str) -> str:
    """Return `text` as the value of a header, in base64 where it would not survive as it is."""
    is_printable = text.isascii() and text.isprintable() and text == text.strip() and _ENCODED.fullmatch(text) is None
    return text if is_printable else f"=?base64?{base64.b64encode(text.encode('utf-8')).decode('ascii')}?="


def find_client_name(info: object) -> str | None:
    name = info.get("name") if isinstance(info, Mapping) else None
    return name if isinstance(name, str) else None


def _as_object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
