"""The ASGI bridge, with small applications behind a tornado server: both directions, disconnects, failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from tornado import web
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from jupyter_ext.asgi import MAX_SMALL_BODY_BYTES, AsgiExchange, Receive, Scope, Send, build_scope
from tests.support.http_runs import SECONDS, until

MIB = 2**20
START = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}


@web.stream_request_body
class Handler(web.RequestHandler):
    application_behind: Any
    fed = 0
    gone = 0

    async def prepare(self) -> None:
        self.exchange = AsgiExchange(type(self).application_behind, self, build_scope(self.request, {"more": "said"}))

    def data_received(self, chunk: bytes) -> Awaitable[None]:
        type(self).fed += len(chunk)
        return self.exchange.feed(chunk)

    async def post(self) -> None:
        self.exchange.end_body()
        await self.exchange.finish()

    get = post

    def on_connection_close(self) -> None:
        type(self).gone += 1
        self.exchange.disconnect()


class Connection:
    """Speaks HTTP by hand: what it sends and when it reads is the test's affair."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, *parts: bytes) -> None:
        self.writer.write(b"".join(parts))
        await self.writer.drain()

    async def begin(self, method: str = "POST", **headers: str) -> None:
        lines = [f"{method} /there%20is?token=secret HTTP/1.1", "Host: localhost"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode())

    async def until(self, end: bytes) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(end), SECONDS)

    async def head(self) -> tuple[int, str]:
        text = (await self.until(b"\r\n\r\n")).decode()
        return int(text.split()[1]), text.lower()

    async def piece(self) -> bytes:
        """A chunk of a chunked body."""
        size = int(await self.until(b"\r\n"), 16)
        return (await asyncio.wait_for(self.reader.readexactly(size + 2), SECONDS))[:-2]


Served = Callable[..., Any]


@asynccontextmanager
async def served(application: Any) -> AsyncIterator[tuple[type[Handler], Callable[[], Awaitable[Connection]]]]:
    kind = cast(type[Handler], type("AHandler", (Handler,), {"application_behind": staticmethod(application)}))
    server = HTTPServer(web.Application([(r".*", kind)]), max_body_size=1024 * MIB)
    (socket,) = bind_sockets(0, "127.0.0.1")
    server.add_socket(socket)
    opened: list[asyncio.StreamWriter] = []

    async def connect() -> Connection:
        reader, writer = await asyncio.open_connection("127.0.0.1", socket.getsockname()[1], limit=64 * 1024)
        opened.append(writer)
        return Connection(reader, writer)

    try:
        yield kind, connect
    finally:
        for writer in opened:
            writer.close()
        server.stop()
        await server.close_all_connections()


def body(data: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def test_the_body_streams_in_while_the_answer_streams_out() -> None:
    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        await send(START)
        while (message := await receive())["more_body"]:
            await send(body(message["body"].upper(), more=True))
        await send(body(b"the end"))

    async with served(echo) as (_, connect):
        connection = await connect()
        await connection.begin(Transfer_Encoding="chunked")
        status, head = await connection.head()
        assert (status, "transfer-encoding: chunked" in head, "text/plain" in head) == (200, True, True)
        for word in (b"one", b"two"):
            await connection.send(b"3\r\n", word, b"\r\n")
            assert await connection.piece() == word.upper()  # before the next was sent
        await connection.send(b"0\r\n\r\n")
        assert (await connection.piece(), await connection.piece()) == (b"the end", b"")


async def test_the_application_sees_the_request_without_its_credentials() -> None:
    seen: list[Scope] = []

    async def inspect(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)
        await send({**START, "headers": [(b"content-length", b"2"), (b"connection", b"close"), (b"x-a", b"b")]})
        await send(body(b"ok"))

    async with served(inspect) as (_, connect):
        connection = await connect()
        await connection.begin("GET", Authorization="token secret", Cookie="secret", X_Custom="välue")
        status, head = await connection.head()
        assert (status, "x-a: b" in head, "connection: close" in head) == (200, True, False)
        assert await connection.reader.readexactly(2) == b"ok"
    (scope,) = seen
    assert "secret" not in repr(scope)
    assert (scope["method"], scope["path"], scope["more"]) == ("GET", "/there is", "said")
    assert dict(scope["headers"])[b"x-custom"]


async def test_a_body_that_nobody_takes_is_not_taken_from_the_socket() -> None:
    go, total = asyncio.Event(), 0

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal total
        await go.wait()
        while (message := await receive())["more_body"]:
            total += len(message["body"])
        await send(START)
        await send(body(b""))

    async with served(slow) as (kind, connect):
        connection = await connect()
        await connection.begin(Content_Length=str(64 * MIB))
        sending = asyncio.ensure_future(connection.send(b"x" * (64 * MIB)))
        await until(lambda: kind.fed > 0)
        for _ in range(20):  # it has every chance to take more
            await asyncio.sleep(0.01)
        assert kind.fed < MIB and not sending.done()
        go.set()
        await asyncio.wait_for(sending, SECONDS)
        assert (await connection.head())[0] == 200
    assert total == 64 * MIB


async def test_an_answer_that_nobody_reads_is_not_made() -> None:
    made = 0

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal made
        await send(START)
        for _ in range(1000):
            await send(body(b"x" * MIB, more=True))
            made += 1

    async with served(endless) as (_, connect):
        connection = await connect()
        await connection.begin("GET")
        await connection.head()
        before = -1
        while made != before:  # until it stands still: the sockets hold some megabytes
            before = made
            await asyncio.sleep(0.2)
        assert made < 50


async def test_a_client_that_goes_away_ends_the_work() -> None:
    ended: list[str] = []
    begun = asyncio.Event()

    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        begun.set()
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            ended.append((await receive())["type"])
            raise

    async with served(work) as (_, connect):
        connection = await connect()
        await connection.begin("GET")
        await begun.wait()
        connection.writer.close()
        await until(lambda: bool(ended))
    assert ended == ["http.disconnect"]


async def test_a_client_that_goes_away_while_it_sends_ends_the_work_too() -> None:
    ended = asyncio.Event()

    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            while True:
                await receive()
        finally:
            ended.set()

    async with served(work) as (kind, connect):
        connection = await connect()
        await connection.begin(Content_Length=str(MAX_SMALL_BODY_BYTES + 1))
        await connection.send(b"some")
        await until(lambda: kind.fed > 0)
        connection.writer.close()
        await asyncio.wait_for(ended.wait(), SECONDS)


async def test_a_small_body_comes_whole_and_one_that_does_not_come_whole_begins_nothing() -> None:
    begun: list[dict[str, Any]] = []

    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(dict(await receive()))
        await send(START)
        await send(body(b"the end"))

    async with served(work) as (kind, connect):
        goes, stays = await connect(), await connect()
        for connection in (goes, stays):
            await connection.begin(Content_Length="9")
            await connection.send(b"some")
        await until(lambda: kind.fed == 8)
        goes.writer.close()
        await until(lambda: kind.gone == 1)
        assert begun == []
        await stays.send(b" more")
        assert (await stays.head())[0] == 200
        assert begun == [{"type": "http.request", "body": b"some more", "more_body": False}]


async def test_a_large_answer_in_one_piece_ends_the_work_when_it_has_been_read() -> None:
    size, ended = 8 * MIB, asyncio.Event()

    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        await send({**START, "headers": [(b"content-length", str(size).encode())]})
        await send(body(b"x" * size))
        ended.set()

    async with served(work) as (_, connect):
        connection = await connect()
        await connection.begin(Content_Length="0")
        await connection.head()
        assert not ended.is_set(), "more than the socket holds"
        assert len(await asyncio.wait_for(connection.reader.readexactly(size), SECONDS)) == size
        await asyncio.wait_for(ended.wait(), SECONDS)


@pytest.mark.parametrize("length", ["0" * 5000 + "4", "9" * 5000])
async def test_a_length_of_thousands_of_digits_is_no_bug(length: str, caplog: pytest.LogCaptureFixture) -> None:
    async def work(scope: Scope, receive: Receive, send: Send) -> None:
        await send(START)
        await send(body(b"the end"))

    async with served(work) as (_, connect):
        connection = await connect()
        await connection.begin(Content_Length=length)
        await asyncio.wait_for(connection.reader.read(), SECONDS)
    assert "Traceback" not in caplog.text


async def test_what_follows_an_answer_is_not_ended_with_the_connection() -> None:
    """The SDK acknowledges a notification first and passes it on then."""
    gone, done = asyncio.Event(), asyncio.Event()

    async def acknowledge(scope: Scope, receive: Receive, send: Send) -> None:
        await send({**START, "status": 202, "headers": [(b"content-length", b"0")]})
        await send(body(b""))
        await gone.wait()
        await asyncio.sleep(0.01)
        done.set()

    async with served(acknowledge) as (_, connect):
        connection = await connect()
        await connection.begin("GET", Connection="close")
        assert (await connection.head())[0] == 202
        connection.writer.close()
        gone.set()
        await asyncio.wait_for(done.wait(), SECONDS)


async def test_an_early_answer_waits_for_the_body_so_that_it_arrives() -> None:
    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await send({**START, "status": 404, "headers": [(b"content-length", b"2")]})
        await send(body(b"no"))

    async with served(refuse) as (_, connect):
        connection = await connect()
        await connection.begin(Content_Length=str(8 * MIB))
        await asyncio.wait_for(connection.send(b"x" * (8 * MIB)), SECONDS)
        assert (await connection.head())[0] == 404
        assert await connection.reader.readexactly(2) == b"no"
        await connection.begin("GET")  # and the connection is as good as before
        assert (await connection.head())[0] == 404


async def _raises(scope: Scope, receive: Receive, send: Send) -> None:
    raise RuntimeError("a bug")


async def _says_nothing(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()


@pytest.mark.parametrize("application", [_raises, _says_nothing])
async def test_an_application_that_fails_is_an_error(application: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with served(application) as (_, connect):
        connection = await connect()
        await connection.begin("GET")
        assert (await connection.head())[0] == 500
