"""Messages of JSON-RPC are parsed, and what is no message gets an error that its sender can match."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wap_kernel.dialects.mcp.messages import (
    Notification,
    ProtocolError,
    Request,
    Response,
    encode_error,
    encode_result,
    parse_body,
)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"jsonrpc": "2.0", "id": 1, "method": "a"}, Request(1, "a", None)),
        ({"jsonrpc": "2.0", "id": "x", "method": "a", "params": {"b": 1}}, Request("x", "a", {"b": 1})),
        ({"jsonrpc": "2.0", "method": "a"}, Notification("a", None)),
        ({"jsonrpc": "2.0", "id": 1, "result": {"a": 1}}, Response(1, {"a": 1})),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": 1}}, Response(1, None)),
        ({"jsonrpc": "2.0", "id": 1, "result": 7}, Response(1, None)),
        ([{"jsonrpc": "2.0", "method": "a"}], [Notification("a", None)]),
    ],
)
def test_a_message_is_parsed(body: Any, message: Any) -> None:
    assert parse_body(json.dumps(body).encode()) == message


@pytest.mark.parametrize(
    ("body", "code", "request_id"),
    [
        (b"", -32700, None),
        (b'{"jsonrpc": "2.0", "id": 7,', -32700, 7),
        (b'{"jsonrpc": "2.0", "id": "a", "method": "\\ud83d"}', -32700, "a"),
        (b'{"jsonrpc": "2.0", "method": "\xff", "id": 7}', -32700, 7),
        (b'{"id": 007, "method": "x"}', -32700, None),
        (b'{"jsonrpc": "2.0", "method": "a", "params": {"id": 7,', -32700, None),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "a", "params": []}', -32602, 7),
        (b'{"jsonrpc": "2.0", "id": 7, "method": 1}', -32600, 7),
        (b'{"jsonrpc": "2.0", "id": null, "method": "a"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "a"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": true, "method": "a"}', -32600, None),
        (b'{"jsonrpc": "1.0", "id": 7, "method": "a"}', -32600, 7),
        (b'{"jsonrpc": "2.0", "id": 7}', -32600, 7),
        (b"[]", -32600, None),
        (b"null", -32600, None),
        (b"[" * 100_000, -32700, None),
        (b'{"jsonrpc": "2.0", "id": 1e999, "method": "a"}', -32600, None),
    ],
)
def test_a_body_that_is_no_message_is_refused(body: bytes, code: int, request_id: Any) -> None:
    with pytest.raises(ProtocolError) as caught:
        parse_body(body)
    assert (caught.value.code, caught.value.request_id) == (code, request_id)
    answer = json.loads(encode_error(caught.value.request_id, caught.value))
    assert answer["error"]["data"]["code"] == "INVALID_ARGUMENT" and answer["error"]["data"]["hint"]
    assert "\n" not in answer["error"]["message"]


def test_an_item_of_a_batch_that_is_no_message_is_refused_alone() -> None:
    parsed = parse_body(b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}, 1]')
    assert isinstance(parsed, list)
    request, refusal = parsed
    assert request == Request(1, "ping", None)
    assert isinstance(refusal, ProtocolError) and (refusal.code, refusal.request_id) == (-32600, None)


def test_a_result_may_be_encoded_already() -> None:
    assert encode_result(1, b'{"a":1}') == encode_result(1, {"a": 1}) == b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}'
