"""A session that the server has forgotten is begun anew."""

from __future__ import annotations

import asyncio

from mcp_types import ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from wap_kernel.dialects.mcp.stdio.session_renewal import RENEWAL_ID, SessionRenewal

OPENING = JSONRPCRequest(jsonrpc="2.0", id=0, method="initialize", params={"capabilities": {}})


def _request(number: int) -> JSONRPCRequest:
    return JSONRPCRequest(jsonrpc="2.0", id=number, method="tools/list")


def _forgotten(number: int | str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=-32600, message="Session not found"))


def _answered(number: int | str) -> JSONRPCResponse:
    return JSONRPCResponse(jsonrpc="2.0", id=number, result={})


class Server:
    """The messages that the server received."""

    def __init__(self) -> None:
        self.heard: list[JSONRPCMessage] = []
        self.renewal = SessionRenewal(self._take)
        self.renewal.observe_request(OPENING)

    async def _take(self, message: JSONRPCMessage) -> None:
        self.heard.append(message)

    def says(self, message: JSONRPCMessage) -> list[JSONRPCMessage]:
        return asyncio.run(self.renewal.observe(message))


def test_all_that_came_to_nothing_is_sent_again_in_one_new_session() -> None:
    server = Server()
    for number in (1, 2):
        server.renewal.observe_request(_request(number))
    assert server.says(_forgotten(1)) == server.says(_forgotten(2)) == []
    assert server.heard == [OPENING.model_copy(update={"id": RENEWAL_ID})]
    assert server.says(_answered(RENEWAL_ID)) == []
    ready = JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
    assert server.heard[1:] == [ready, _request(1), _request(2)]
    assert server.says(_answered(1)) == [_answered(1)]
    assert server.says(_forgotten(2)) == [_forgotten(2)], "once"


def test_what_is_cancelled_meanwhile_is_not_sent_again() -> None:
    server = Server()
    for number in (1, 2):
        server.renewal.observe_request(_request(number))
    server.says(_forgotten(1))
    server.renewal.observe_request(
        JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": 1})
    )
    assert server.says(_forgotten(2)) == []
    assert [message.method for message in server.heard if isinstance(message, JSONRPCRequest)] == ["initialize"]
    server.says(_answered(RENEWAL_ID))
    assert server.heard[-1] == _request(2) and _request(1) not in server.heard


def test_where_none_can_be_begun_it_is_said_why() -> None:
    server = Server()
    server.renewal.observe_request(_request(1))
    server.says(_forgotten(1))
    failure = ErrorData(code=-32600, message="no")
    (reply,) = server.says(JSONRPCError(jsonrpc="2.0", id=RENEWAL_ID, error=failure))
    assert reply == JSONRPCError(jsonrpc="2.0", id=1, error=failure)


def test_other_answers_pass_and_what_is_cancelled_is_forgotten() -> None:
    server = Server()
    server.renewal.observe_request(_request(1))
    cancel = {"requestId": 1}
    server.renewal.observe_request(JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=cancel))
    for message in (_answered(7), _forgotten(1), _forgotten(9)):
        assert server.says(message) == [message]
    assert server.heard == []
