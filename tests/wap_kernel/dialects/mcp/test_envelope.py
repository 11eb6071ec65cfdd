"""The envelope of a request from 2026-07-28 on, and the headers that repeat it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wap_kernel.dialects.mcp.envelope import Envelope, decode_header, encode_header, read_envelope
from wap_kernel.dialects.mcp.messages import ProtocolError, Request

VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "test"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}


def _request(method: str = "tools/call", **params: Any) -> Request:
    return Request(1, method, {"_meta": META, **params})


def _headers(**values: str) -> dict[str, list[str]]:
    headers = {"mcp_protocol_version": VERSION, "mcp_method": "tools/call", "mcp_name": "readFile", **values}
    return {name.replace("_", "-"): [value] for name, value in headers.items()}


def test_an_envelope_is_read_with_and_without_headers() -> None:
    expected = Envelope(VERSION, "test", {"elicitation": {}})
    assert read_envelope(_request(name="readFile"), None) == expected
    assert read_envelope(_request(name="readFile"), _headers()) == expected
    assert read_envelope(_request("tools/list"), _headers(mcp_method="tools/list")) == expected


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (_headers(mcp_protocol_version="2025-11-25"), -32020),
        (_headers(mcp_method="tools/list"), -32020),
        (_headers(mcp_name="writeFile"), -32020),
        (_headers(mcp_name="=?base64?%%?="), -32020),
        ({**_headers(), "mcp-name": ["readFile", "readFile"]}, -32020),
        ({**_headers(), "mcp-name": []}, -32020),
    ],
)
def test_a_header_that_differs_from_the_body_is_refused(headers: dict[str, list[str]], code: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_envelope(_request(name="readFile"), headers)
    assert (caught.value.code, caught.value.request_id) == (code, 1)


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({}, -32602),
        ({"io.modelcontextprotocol/protocolVersion": VERSION}, -32602),
        ({**META, "io.modelcontextprotocol/protocolVersion": 7}, -32602),
        ({**META, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}, -32022),
    ],
)
def test_an_incomplete_envelope_is_refused(meta: dict[str, Any], code: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_envelope(Request(1, "tools/list", {"_meta": meta}), None)
    assert caught.value.code == code
    assert ("supported" in caught.value.data) is (code == -32022)


@given(st.text())
def test_a_header_holds_any_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return
    encoded = encode_header(text)
    assert decode_header(encoded) == text
    assert encoded.isascii() and encoded.isprintable() and encoded == encoded.strip()
