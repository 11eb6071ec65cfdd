"""HTTP to one Jupyter server, with the standard library.

Connections are kept and used again. A redirect is not followed: elsewhere is not where the token belongs. Only what may
be asked twice is asked again when a connection breaks.
"""

from __future__ import annotations

import secrets
import selectors
import ssl
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, InvalidURL
from typing import Any

from wap_kernel.client.address import Address, Proxy, proxy_for
from wap_kernel.client.json_body import decoded, encoded
from wap_kernel.model.errors import InvalidArgument, NotFound, ProviderUnavailable, TooLarge, Unauthenticated, WapError

ANSWER_SECONDS = 60.0
LARGEST_ANSWER = 128 * 1024 * 1024
"""Bytes; a file of the largest size that policy lets anybody read takes half of it, all in escapes."""
MAX_IDLE = 4
KEY_HEADER = "Idempotency-Key"
BROKEN = (OSError, HTTPException)
"""What becomes of a connection that does not hold."""
PASSING = (502, 503, 504)
"""What is answered in a server's place while it cannot be reached."""

Stream = tuple[HTTPResponse, Any]
"""An answer that comes bit by bit, and its socket."""


class Absent(NotFound):
    """A server answers, but nothing of wap is at this address."""


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    body: bytes | None
    headers: Mapping[str, str]
    seconds: float

    @property
    def is_safe(self) -> bool:
        """Whether twice is the same as once."""
        return self.method in ("GET", "HEAD") or KEY_HEADER in self.headers


@dataclass(frozen=True)
class Http:
    """From any thread; who asks while another does gets a connection of their own."""

    address: Address
    token: str = field(repr=False)
    is_direct: bool
    """A server on this machine is never behind a proxy, whatever the environment says."""
    _idle: list[HTTPConnection] = field(default_factory=list, repr=False)

    @classmethod
    def at(cls, url: str, token: str, *, is_direct: bool | None = None) -> Http:
        address, token = Address.parse(url), token.strip()
        if not (token.isascii() and token.isprintable()):
            raise InvalidArgument("The token has characters in it that cannot be sent.", hint="Copy it once more.")
        made = cls(address, token, address.is_local if is_direct is None else is_direct)
        weakref.finalize(made, _close_all, made._idle)
        return made

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> Any:
        """The parsed answer to a request below the base URL; None where it is empty. Raises a WapError."""
        data = None if body is None else encoded(body)
        request = _Request(method, path, data, headers or {}, seconds)
        try:
            status, answer = self._answer(request)
        except BROKEN as error:
            raise self.explained(error) from None
        if not 200 <= status < 300:
            raise self._refusal(status, answer)
        try:
            return decoded(answer) if answer else None
        except ValueError:
            raise ProviderUnavailable(
                f"The server at {self.address} does not answer as it should: this is not JSON.",
                hint="Is it a Jupyter server, and does the address have its base URL?",
            ) from None

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str], seconds: float) -> Iterator[Stream]:
        """Raises what breaks as it is, and so what a proxy says of it; a refusal as a WapError."""
        connection = self._connect(seconds)
        try:
            self._send(connection, _Request("GET", path, None, headers, seconds))
            plain = connection.sock  # which the connection gives up when the server will not keep it
            response = connection.getresponse()
            with response:
                if response.status in PASSING:
                    raise HTTPException(f"the server at {self.address} answered {response.status}")
                if not 200 <= response.status < 300:
                    raise self._refusal(response.status, self._read(response))
                yield response, plain
        finally:
            connection.close()

    def close(self) -> None:
        _close_all(self._idle)

    # -- connections

    def _answer(self, request: _Request) -> tuple[int, bytes]:
        kept = self._kept(request.seconds)
        try:
            return self._answer_on(kept or self._connect(request.seconds), request)
        except (ConnectionError, HTTPException) as error:
            if not request.is_safe or isinstance(error, ConnectionRefusedError | InvalidURL):
                raise
        return self._answer_on(self._connect(request.seconds), request)

    def _answer_on(self, connection: HTTPConnection, request: _Request) -> tuple[int, bytes]:
        is_done = False
        try:
            self._send(connection, request)
            with connection.getresponse() as response:
                answer = response.status, self._read(response)
                is_done = not response.will_close
        finally:  # an interrupt, too, leaves half an answer on it
            if is_done and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
            else:
                connection.close()
        return answer

    def _read(self, response: HTTPResponse) -> bytes:
        """Not more than this process should hold, whatever is at the address."""
        if response.length is None:
            data = response.read(LARGEST_ANSWER + 1)
            if len(data) <= LARGEST_ANSWER:
                return data
        elif response.length <= LARGEST_ANSWER:
            return response.read()  # all of it: to ask for so many bytes would take half an answer for a whole one
        raise too_large(self.address)

    def _kept(self, seconds: float) -> HTTPConnection | None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.sock is not None and not _has_news(connection.sock):
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
        return None if self.is_direct else proxy_for(self.address)

    def _send(self, connection: HTTPConnection, request: _Request) -> None:
        headers = {"Content-Type": "application/json", **request.headers}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"  # the only form that agent tokens have
        else:  # a server without a token guards against browsers' forged requests; the two must be the same
            nonce = secrets.token_hex(16)
            headers |= {"Cookie": f"_xsrf={nonce}", "X-XSRFToken": nonce}
        target = self.address.path + request.path
        if self.address.scheme == "http" and (proxy := self._proxy()) is not None:
            headers |= {"Host": self.address.netloc, **proxy.headers}
            target = f"http://{self.address.netloc}{target}"
        connection.request(request.method, target, request.body, headers)

    # -- what went wrong

    def explained(self, error: Exception) -> WapError:
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
        """The server's own error, or what can be said of an answer that is none of ours."""
        try:
            return WapError.from_dict(decoded(answer))
        except (ValueError, TypeError, KeyError, AttributeError):
            pass
        said = f"The server at {self.address} answered {status}"
        if 300 <= status < 400:
            return ProviderUnavailable(
                f"{said}: it sends elsewhere, where the token is not taken.",
                hint="Is the token right, and does the address have the server's base URL?",
            )
        if status in (401, 403):
            return Unauthenticated(f"{said}.", hint="Is the token right?")
        if status == 404:
            return Absent(f"{said}.", hint="Is it a Jupyter server with wap enabled?")
        if status == 413:
            return TooLarge(f"{said}: the request is too large for it.", hint="Send it in parts.")
        return ProviderUnavailable(f"{said}.", hint="Is it a Jupyter server with wap enabled?")


def too_large(address: Address) -> TooLarge:
    return TooLarge(
        f"The answer of the server at {address} is over {LARGEST_ANSWER // 1024**2} MiB.",
        hint="Ask for less at a time: fewer operations, a part of a file.",
        limit=LARGEST_ANSWER,
    )


def _has_news(sock: Any) -> bool:
    """Nobody has asked it anything, so this can only be its end."""
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _close_all(connections: list[HTTPConnection]) -> None:
    while connections:
        connections.pop().close()
