"""Send HTTP requests to one Jupyter server, with the standard library.

Connections are reused. A redirect is not followed: the token belongs to this server alone. When a connection breaks,
only requests that may be sent twice are retried.
"""

from __future__ import annotations

import secrets
import selectors
import ssl
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, InvalidURL
from typing import Any

from wap_kernel.client.http.address import Address, Proxy, proxy_for
from wap_kernel.client.http.json_body import decode_body, encode_body
from wap_kernel.model.errors import InvalidArgument, NotFound, ProviderUnavailable, TooLarge, Unauthenticated, WapError
from wap_kernel.model.limits import MAX_ANSWER_BYTES

ANSWER_SECONDS = 60.0
MAX_IDLE = 4
KEY_HEADER = "Idempotency-Key"
CONNECTION_ERRORS = (OSError, HTTPException)
"""Exceptions of a connection that breaks."""
GATEWAY_STATUSES = (502, 503, 504)
"""Statuses that a proxy answers while it cannot reach the server."""

Stream = tuple[HTTPResponse, Any]
"""A streamed response, and its socket."""


class ExtensionMissing(NotFound):
    """A server answers, but has no wap extension at this address."""


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    body: bytes | None
    headers: Mapping[str, str]
    seconds: float

    @property
    def is_idempotent(self) -> bool:
        return self.method in ("GET", "HEAD") or KEY_HEADER in self.headers


@dataclass(frozen=True)
class HttpClient:
    """The connections to one server; threads that send at the same time use a connection each."""

    address: Address
    token: str = field(repr=False)
    bypasses_proxy: bool
    """True for a server on this machine, which is never behind a proxy, whatever the environment says."""
    headers: Mapping[str, bytes] = field(default_factory=dict)
    """Headers of every request."""
    _idle: list[HTTPConnection] = field(default_factory=list, repr=False)

    @classmethod
    def open(
        cls, url: str, token: str, *, bypasses_proxy: bool | None = None, headers: Mapping[str, bytes] | None = None
    ) -> HttpClient:
        address, token = Address.parse(url), token.strip()
        if not (token.isascii() and token.isprintable()):
            raise InvalidArgument("The token has characters in it that cannot be sent.", hint="Copy the token again.")
        client = cls(address, token, address.is_local if bypasses_proxy is None else bypasses_proxy, headers or {})
        weakref.finalize(client, _close_all, client._idle)
        return client

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> Any:
        """Send a request below the base URL and return the parsed answer, or None for an empty one.

        Raise a WapError for a refusal and for a broken connection.
        """
        data = None if body is None else encode_body(body)
        request = _Request(method, path, data, headers or {}, seconds)
        try:
            status, answer = self._answer(request)
        except CONNECTION_ERRORS as error:
            raise self.explain_failure(error) from None
        if not 200 <= status < 300:
            raise self._refusal(status, answer)
        try:
            return decode_body(answer) if answer else None
        except ValueError:
            raise ProviderUnavailable(
                f"The server at {self.address} did not answer with JSON.",
                hint="Is it a Jupyter server, and does the address have its base URL?",
            ) from None

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str], seconds: float) -> Iterator[Stream]:
        """Open a streamed response; raise a WapError for a refusal, and connection errors as they are."""
        with self.exchange("GET", path, None, headers, seconds) as (response, sock):
            if response.status in GATEWAY_STATUSES:
                raise HTTPException(f"the server at {self.address} answered {response.status}")
            if not 200 <= response.status < 300:
                raise self._refusal(response.status, self.read(response))
            yield response, sock

    @contextmanager
    def exchange(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        seconds: float,
        started: Callable[[Any], None] = lambda sock: None,
    ) -> Iterator[Stream]:
        """Send a request on a connection of its own and yield the response, whatever its status.

        `started` gets the socket before the answer comes. Connection errors are raised as they are.
        """
        connection = self._connect(seconds)
        try:
            self._send(connection, _Request(method, path, body, headers, seconds))
            sock = connection.sock  # the connection drops it when the server will close it
            started(sock)
            with connection.getresponse() as response:
                yield response, sock
        finally:
            connection.close()

    def close(self) -> None:
        _close_all(self._idle)

    # -- connections

    def _answer(self, request: _Request) -> tuple[int, bytes]:
        idle = self._take_idle(request.seconds)
        try:
            return self._answer_on(idle or self._connect(request.seconds), request)
        except (ConnectionError, HTTPException) as error:
            if not request.is_idempotent or isinstance(error, ConnectionRefusedError | InvalidURL):
                raise
        return self._answer_on(self._connect(request.seconds), request)

    def _answer_on(self, connection: HTTPConnection, request: _Request) -> tuple[int, bytes]:
        is_done = False
        try:
            self._send(connection, request)
            with connection.getresponse() as response:
                answer = response.status, self.read(response)
                is_done = not response.will_close
        finally:  # an interrupt, too, leaves half an answer in the connection
            if is_done and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
            else:
                connection.close()
        return answer

    def read(self, response: HTTPResponse) -> bytes:
        """Return the body, which may not exceed the limit, whatever is at the address."""
        if response.length is None:
            data = response.read(MAX_ANSWER_BYTES + 1)
            if len(data) <= MAX_ANSWER_BYTES:
                return data
        elif response.length <= MAX_ANSWER_BYTES:
            return response.read()  # with a number of bytes, http.client would return half an answer without an error
        raise answer_too_large(self.address)

    def _take_idle(self, seconds: float) -> HTTPConnection | None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.sock is not None and not _is_readable(connection.sock):
                connection.sock.settimeout(seconds)
                return connection
            connection.close()

    def _connect(self, seconds: float) -> HTTPConnection:
        address, proxy = self.address, self._proxy()
        host, port = (address.host, address.port) if proxy is None else (proxy.host, proxy.port)
        if address.scheme == "http":
            return HTTPConnection(host, port, timeout=seconds)
        connection = HTTPSConnection(host, port, timeout=seconds, context=ssl.create_default_context())
        if proxy is not None:
            connection.set_tunnel(address.host, address.port, proxy.headers)
        return connection

    def _proxy(self) -> Proxy | None:
        return None if self.bypasses_proxy else proxy_for(self.address)

    def _send(self, connection: HTTPConnection, request: _Request) -> None:
        headers: dict[str, str | bytes] = {"Content-Type": "application/json", **self.headers, **request.headers}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"  # agent tokens are accepted in this form only
        else:  # a server without a token checks for forged requests of browsers: cookie and header must match
            nonce = secrets.token_hex(16)
            headers |= {"Cookie": f"_xsrf={nonce}", "X-XSRFToken": nonce}
        target = self.address.path + request.path
        if self.address.scheme == "http" and (proxy := self._proxy()) is not None:
            headers |= {"Host": self.address.netloc, **proxy.headers}
            target = f"http://{self.address.netloc}{target}"
        connection.request(request.method, target, request.body, headers)

    # -- errors

    def explain_failure(self, error: Exception) -> WapError:
        if isinstance(error, ssl.SSLCertVerificationError):
            return ProviderUnavailable(
                f"The certificate of the server at {self.address} is not trusted: {error.verify_message}.",
                hint="Name the server as its certificate does (WAP_URL and WAP_TOKEN, or --url URL --token-file FILE); "
                "for a self-signed certificate, set SSL_CERT_FILE to the certificate's file as well.",
            )
        if isinstance(error, ssl.SSLError):
            return ProviderUnavailable(
                f"The server at {self.address} does not speak TLS: {error.reason}.", hint="Is it http instead of https?"
            )
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        return ProviderUnavailable(
            f"The server at {self.address} does not answer: {reason}.", hint="Is it still running?"
        )

    def _refusal(self, status: int, answer: bytes) -> WapError:
        """Return the server's own error, or one for an answer that is not wap's."""
        try:
            return WapError.from_dict(decode_body(answer))
        except (ValueError, TypeError, KeyError, AttributeError):
            pass
        answered = f"The server at {self.address} answered {status}"
        if 300 <= status < 400:
            return ProviderUnavailable(
                f"{answered}, a redirect, which is not followed because the token belongs to this server alone.",
                hint="Is the token right, and does the address have the server's base URL?",
            )
        if status in (401, 403):
            return Unauthenticated(f"{answered}.", hint="Is the token right?")
        if status == 404:
            return ExtensionMissing(f"{answered}.", hint="Is it a Jupyter server with wap enabled?")
        if status == 413:
            return TooLarge(f"{answered}: the request is too large for it.", hint="Send it in parts.")
        return ProviderUnavailable(f"{answered}.", hint="Is it a Jupyter server with wap enabled?")


def answer_too_large(address: Address) -> TooLarge:
    return TooLarge(
        f"The answer of the server at {address} is over {MAX_ANSWER_BYTES // 1024**2} MiB.",
        hint="Ask for less at a time: fewer operations, a part of a file.",
        limit=MAX_ANSWER_BYTES,
    )


def _is_readable(sock: Any) -> bool:
    """Return whether an idle connection has data, which can only be its end."""
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _close_all(connections: list[HTTPConnection]) -> None:
    while connections:
        connections.pop().close()
