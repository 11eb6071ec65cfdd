"""`wap mcp --url URL`: forward the messages of a stdio client to a server over HTTP, and the answers back.

Messages pass unchanged, requests of the server too; only errors about the connection are reworded. Each request has a
thread and a connection of its own, so that they can be answered in any order. Every request gets an answer, also where
the server gives none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPResponse
from typing import Any, BinaryIO
from urllib.parse import urlencode

from wap_kernel.client.http.http_client import CONNECTION_ERRORS, GATEWAY_STATUSES, HttpClient
from wap_kernel.client.mcp.enveloped_requests import EnvelopedRequest, EnvelopedRequests
from wap_kernel.client.mcp.event_stream import EventStream, parse_json
from wap_kernel.client.mcp.refusals import explain_failure, explain_refusal
from wap_kernel.client.mcp.session import READY, ForwardedSession, is_session_lost
from wap_kernel.dialects.mcp.envelope import is_enveloped
from wap_kernel.dialects.mcp.messages import (
    Batch,
    Message,
    Notification,
    ProtocolError,
    Request,
    RequestId,
    encode_error,
    encode_json,
    parse_body,
)
from wap_kernel.dialects.mcp.protocol import SESSION_HEADER
from wap_kernel.dialects.mcp.stdio.lines import read_lines
from wap_kernel.model.errors import InternalError, ProviderUnavailable, WapError

ROUTE = "wap/mcp"
SILENCE_SECONDS = 300.0
"""The read timeout; a stream sends something every 15 seconds. An answer as JSON may take as long as a command."""
RETRY_SECONDS = 0.5
MAX_RETRIES = 20
"""Attempts to resume a stream: a server that restarts is back within seconds."""
PASSING_STATUSES = (*GATEWAY_STATUSES, 409, 429)
"""Statuses of a stream that another attempt may open: the server may not know yet that the last connection is lost."""

Write = Callable[[bytes], None]


class McpBridge:
    """The messages between one client and the server at `http`."""

    def __init__(self, http: HttpClient, write: Write, profile: str | None = None) -> None:
        self._http = http
        self._route = ROUTE if profile is None else f"{ROUTE}?{urlencode({'profile': profile})}"
        self._write = write
        self._session = ForwardedSession()
        self._threads: set[threading.Thread] = set()
        self._enveloped = EnvelopedRequests()
        self._is_reached = False
        self._is_closed = False

    def run(self, standard_input: BinaryIO, grace: float) -> None:
        """Forward until standard input ends, then wait `grace` seconds for answers; raise ProviderUnavailable."""
        for line in read_lines(standard_input):
            self._forward(line)
        deadline = time.monotonic() + grace
        for thread in list(self._threads):
            thread.join(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """End the session, and with it what its requests have started."""
        self._is_closed = True
        self._enveloped.close()
        if self._session.id is not None:
            headers = self._session.build_headers(None)
            with suppress(*CONNECTION_ERRORS), self._http.exchange("DELETE", self._route, None, headers, RETRY_SECONDS):
                pass

    # -- messages of the client

    def _forward(self, line: bytes) -> None:
        try:
            message = parse_body(line)
        except ProtocolError as error:
            self._refuse(error)
            return
        if isinstance(message, Request) and message.method == "initialize":
            self._session.begin(message)
            self._exchange(line, message)  # the session must be known before anything else is sent
        elif isinstance(message, Request | list):
            self._start(line, message)
        elif not self._cancel(message):
            self._exchange(line, message)

    def _refuse(self, error: ProtocolError) -> None:
        if error.is_answer:  # the server would wait for another one for ever
            self._exchange(encode_error(error.request_id, error), Notification("", None))
        else:
            self._write(encode_error(error.request_id, error))

    def _cancel(self, message: Message) -> bool:
        """Close the connection of a request with an envelope that the client cancels; return whether it was one."""
        is_cancellation = isinstance(message, Notification) and message.method == "notifications/cancelled"
        params = message.params or {} if is_cancellation and isinstance(message, Notification) else {}
        return self._enveloped.cancel(params.get("requestId"))

    def _start(self, line: bytes, message: Request | Batch) -> None:
        is_single = isinstance(message, Request) and is_enveloped(message)
        enveloped = self._enveloped.begin(message.id) if is_single and isinstance(message, Request) else None

        def work() -> None:
            try:
                self._exchange(line, message, enveloped)
            except WapError as error:
                self._answer_failure(_list_ids(message), enveloped, explain_failure(error))
            except Exception:  # a bug: it is printed, and the client does not wait for ever
                bug = explain_failure(InternalError("Internal error of wap mcp."))
                self._answer_failure(_list_ids(message), enveloped, bug)
                raise
            finally:
                if enveloped is not None:
                    self._enveloped.end(enveloped)
                self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=work, name="wap-mcp-request", daemon=True)
        self._threads.add(thread)
        thread.start()

    # -- exchanges with the server

    def _exchange(
        self,
        body: bytes,
        message: Message | Batch,
        enveloped: EnvelopedRequest | None = None,
        *,
        is_renewed: bool = False,
    ) -> None:
        """Send a message and forward what is answered; raise WapError where nothing is."""
        headers = self._session.build_headers(message)
        started: Callable[[Any], None] = (lambda _: None) if enveloped is None else enveloped.connect
        try:
            with self._http.exchange("POST", self._route, body, headers, SILENCE_SECONDS, started) as (response, _):
                self._is_reached = True
                if response.status == 200 and response.headers.get_content_type() == "text/event-stream":
                    self._forward_events(response, _list_ids(message), enveloped, headers.get(SESSION_HEADER))
                    return
                refusal = self._receive(response, message)
            if refusal is None:
                return
            is_lost = is_session_lost(*refusal) and not is_renewed
            is_lost = is_lost and self._renew(headers.get(SESSION_HEADER))
        except CONNECTION_ERRORS as error:
            self._report_failure(error, _list_ids(message), enveloped)
            return
        if is_lost:
            self._exchange(body, message, enveloped, is_renewed=True)
        else:
            self._answer_failure(_list_ids(message), enveloped, explain_refusal(self._http, *refusal))

    def _receive(self, response: HTTPResponse, message: Message | Batch) -> tuple[int, dict[str, Any]] | None:
        """Forward an answer as JSON; return the status and the error of a refusal."""
        data = self._http.read(response)
        if response.status in (202, 204) or (response.status == 200 and not data):
            return None
        answer = parse_json(data)
        if response.status == 200 and answer is not None:
            if isinstance(message, Request) and message.method == "initialize" and isinstance(answer, dict):
                self._open_session(response.headers.get("Mcp-Session-Id"), answer)
            self._write(data)
            return None
        error = answer.get("error") if isinstance(answer, dict) else None
        if isinstance(error, dict) and isinstance(answer, dict) and answer.get("id") is not None:
            self._write(data)
            return None
        return response.status, error if isinstance(error, dict) else {}

    def _open_session(self, session_id: str | None, answer: Mapping[str, Any]) -> None:
        if "result" not in answer:
            return
        self._session.accept(session_id, answer["result"])
        if session_id is not None:
            threading.Thread(target=self._listen, args=(session_id,), name="wap-mcp-events", daemon=True).start()

    def _renew(self, lost_id: str | None) -> bool:
        """Begin another session as the client began the first; return whether there is one.

        The lost session stays until there is another, so that requests sent meanwhile come here, too.
        """
        with self._session.renewal:
            if self._session.id != lost_id:
                return self._session.id is not None  # another request has begun it
            opening = self._session.opening
            if opening is None:
                return False
            body = encode_json({"jsonrpc": "2.0", "id": opening.id, "method": opening.method, "params": opening.params})
            headers = self._session.build_headers(opening)
            with self._http.exchange("POST", self._route, body, headers, SILENCE_SECONDS) as (response, _):
                answer = parse_json(self._http.read(response))
                if response.status != 200 or not isinstance(answer, dict):
                    return False
                self._open_session(response.headers.get("Mcp-Session-Id"), answer)
            if self._session.id == lost_id:
                return False
            ready = encode_json({"jsonrpc": "2.0", "method": READY.method})
            headers = self._session.build_headers(READY)
            with self._http.exchange("POST", self._route, ready, headers, SILENCE_SECONDS):
                return True

    # -- events

    def _forward_events(
        self,
        response: HTTPResponse,
        request_ids: Sequence[RequestId],
        enveloped: EnvelopedRequest | None,
        session_id: str | None,
    ) -> None:
        """Forward the events of a response; when the connection breaks before the answer, resume the stream."""
        stream = EventStream(self._write, set(request_ids))
        stream.forward(response)
        retries = 0
        while stream.missing and stream.last_id and session_id and retries < MAX_RETRIES and not self._is_closed:
            retries += 1
            time.sleep(RETRY_SECONDS)
            with suppress(*CONNECTION_ERRORS):
                if self._listen_once(stream, session_id) not in (200, *PASSING_STATUSES):
                    break
        if stream.missing:
            failure = ConnectionError("the connection broke before the answer")
            self._report_failure(failure, list(stream.missing), enveloped)

    def _listen(self, session_id: str) -> None:
        """Forward the messages of a session that are about no request, until it ends."""
        stream = EventStream(self._write, set())
        while not self._is_closed and self._session.id == session_id:
            with suppress(*CONNECTION_ERRORS):
                if self._listen_once(stream, session_id) not in (200, *PASSING_STATUSES):
                    return
            time.sleep(RETRY_SECONDS)

    def _listen_once(self, stream: EventStream, session_id: str) -> int:
        """Open or resume a stream of a session, and forward it until it ends; return the status."""
        headers = {**self._session.build_headers(None), SESSION_HEADER: session_id}
        if stream.last_id:
            headers["Last-Event-ID"] = stream.last_id
        with self._http.exchange("GET", self._route, None, headers, SILENCE_SECONDS) as (response, _):
            if response.status == 200 and not stream.forward(response) and not stream.missing:
                stream.last_id = ""  # nothing to resume: the server has forgotten the event
            return response.status

    # -- errors

    def _report_failure(
        self, error: Exception, request_ids: Sequence[RequestId], enveloped: EnvelopedRequest | None
    ) -> None:
        if not self._is_reached:
            hint = "Start Jupyter; `jupyter server list` shows the addresses of those that run."
            raise ProviderUnavailable(f"There is no server at {self._http.address}", hint=hint)
        self._answer_failure(request_ids, enveloped, explain_failure(self._http.explain_failure(error)))

    def _answer_failure(
        self, request_ids: Sequence[RequestId], enveloped: EnvelopedRequest | None, failure: Mapping[str, Any]
    ) -> None:
        """Answer requests with an error, unless the client waits for nothing any more."""
        if self._is_closed or (enveloped is not None and enveloped.is_cancelled):
            return
        for request_id in request_ids:
            self._write(encode_json({"jsonrpc": "2.0", "id": request_id, "error": failure}))


def _list_ids(message: Message | Batch) -> list[RequestId]:
    return [each.id for each in (message if isinstance(message, list) else [message]) if isinstance(each, Request)]
