"""`wap mcp DIR`: the MCP server at standard input and output, with the engine in this process."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

from wap_kernel.dialects.coding_environment.tools import check_tool_names, get_profile
from wap_kernel.dialects.mcp.connection import Connection
from wap_kernel.dialects.mcp.envelope import is_enveloped, read_envelope
from wap_kernel.dialects.mcp.identity import LocalRequester, Requester, clean_name
from wap_kernel.dialects.mcp.messages import (
    SHAPE,
    Batch,
    Message,
    ProtocolError,
    Request,
    Response,
    encode_error,
    parse_body,
)
from wap_kernel.dialects.mcp.protocol import BATCH_VERSION, ENVELOPE_VERSIONS, INVALID_REQUEST, UNSUPPORTED_VERSION
from wap_kernel.dialects.mcp.server import McpServer, Reply
from wap_kernel.dialects.mcp.stdio.lines import LineWriter, claim_stdin, follow_lines
from wap_kernel.dialects.mcp.subscriptions import ResourceChanges
from wap_kernel.dialects.registry import open_runner
from wap_kernel.engine.open_workspace import open_workspace
from wap_kernel.redaction.results import CurrentRedactor


async def serve(
    root: str, settings: Mapping[str, Any], stop: asyncio.Event, *, profile: str | None = None, grace: float = 0.0
) -> None:
    """Serve until standard input ends, or `stop` is set.

    Requests that came before the end of standard input are answered if they take less than `grace` seconds more.
    """
    get_profile(profile)
    only, wait = check_tool_names(settings.get("mcp_tools", ())), float(settings.get("mcp_wait", 0.0))
    changes = ResourceChanges()
    workspace = open_workspace(root, settings, changed=lambda operation, *_: changes.announce(operation))
    runner = open_runner(workspace)
    loop = asyncio.get_running_loop()
    writer = LineWriter(on_failure=lambda: loop.call_soon_threadsafe(stop.set))
    try:
        server = McpServer(runner, changes, only=only, wait=wait, errors=settings.get("mcp_errors", "result"))
        outlet = _LineOutlet(writer, workspace.redactor)
        conversation = _Conversation(server, LocalRequester(secrets.token_hex(8), profile), outlet)
        serving = asyncio.ensure_future(_serve(conversation, server, grace))
        stopping = asyncio.ensure_future(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if serving.done():
            serving.result()
    finally:
        await runner.close()
        await workspace.close()
        writer.close()


async def _serve(conversation: _Conversation, server: McpServer, grace: float) -> None:
    with claim_stdin() as standard_input:
        async for line in follow_lines(standard_input):
            conversation.receive(line)
    server.close()  # ends the requests that only listen
    await conversation.close(grace)


class _LineOutlet:
    """Messages to the client, with the server's credentials masked."""

    is_stream = takes_requests = True

    def __init__(self, writer: LineWriter, redactor: CurrentRedactor) -> None:
        self._writer = writer
        self._redactor = redactor

    def send(self, message: bytes) -> None:
        self._writer.write(self._mask(message), is_optional=b'"id"' not in message[:40])

    def answer(self, message: bytes) -> None:
        self._writer.write(self._mask(message))

    def _mask(self, message: bytes) -> bytes:
        if self._redactor.has_no_secrets:
            return message
        return self._redactor.mask_known(message.decode("utf-8")).encode("utf-8")


class _Conversation:
    """The messages of one client. Its first request decides whether they have envelopes."""

    def __init__(self, server: McpServer, requester: Requester, outlet: _LineOutlet) -> None:
        self._server = server
        self._requester = requester
        self._outlet = outlet
        self._connection = Connection()
        self._is_enveloped: bool | None = None

    def receive(self, line: bytes) -> None:
        try:
            message = parse_body(line)
            if isinstance(message, list):
                self._receive_batch(message)
            else:
                self._receive(message)
        except ProtocolError as error:
            self._refuse(error)

    def _refuse(self, error: ProtocolError) -> None:
        if error.is_answer and error.request_id is not None:  # the request ends, and the client waits for nothing
            self._connection.resolve(Response(error.request_id, None))
        else:
            self._outlet.answer(encode_error(error.request_id, error))

    def _receive_batch(self, messages: Batch) -> None:
        if self._connection.version != BATCH_VERSION:
            raise ProtocolError(INVALID_REQUEST, f"Only {BATCH_VERSION} has batches.", SHAPE)
        requests = [message for message in messages if isinstance(message, Request)]
        self._connection.check_calls([request.id for request in requests])  # before the first one begins
        calls = [self._start(request) for request in requests]
        refusals = [message for message in messages if isinstance(message, ProtocolError)]
        for message in messages:
            if not isinstance(message, Request | ProtocolError):
                self._server.receive(self._connection, message)
        answers = [encode_error(refusal.request_id, refusal) for refusal in refusals]
        whole = asyncio.gather(*calls, return_exceptions=True)
        whole.add_done_callback(lambda done: self._answer_batch(answers, done.result()))

    def _answer_batch(self, answers: list[bytes], replies: list[Reply | BaseException]) -> None:
        answers = [*answers, *(reply.data for reply in replies if isinstance(reply, Reply))]
        if answers:  # cancelled requests get no answer
            self._outlet.answer(b"[%b]" % b",".join(answers))

    def _receive(self, message: Message) -> None:
        if isinstance(message, Request):
            self._start(message).add_done_callback(self._answer)
        else:
            self._server.receive(self._connection, message)

    def _start(self, request: Request) -> asyncio.Task[Reply]:
        connection = self._get_connection(request)
        task = self._server.start(connection, request, self._requester, self._outlet, self._outlet)
        if connection is not self._connection:
            self._connection.add_call(request.id, task)  # where a cancellation finds it
            task.add_done_callback(lambda _: connection.close())
        return task

    def _get_connection(self, request: Request) -> Connection:
        if self._is_enveloped is None and (request.method == "initialize" or not is_enveloped(request)):
            self._is_enveloped = False
        if self._is_enveloped is False:
            if request.method != "initialize" and is_enveloped(request):
                hint = "Leave the envelope out of _meta, or connect anew without initialize."
                raise ProtocolError(INVALID_REQUEST, "The session has no envelopes.", hint, request_id=request.id)
            return self._connection
        if request.method == "initialize":
            raise ProtocolError(
                UNSUPPORTED_VERSION,
                "The client began with envelopes, so there is no session to initialize.",
                "Connect anew to speak an earlier version.",
                request_id=request.id,
                supported=list(ENVELOPE_VERSIONS),
            )
        self._connection.check_calls([request.id])
        envelope = read_envelope(request, None)
        self._is_enveloped = True
        client = None if envelope.client is None else clean_name(envelope.client)
        return Connection(envelope.version, client, envelope.capabilities)

    def _answer(self, done: asyncio.Task[Reply]) -> None:
        if not done.cancelled():  # a cancelled request gets no answer
            self._outlet.answer(done.result().data)

    async def close(self, grace: float) -> None:
        """Wait for the requests under way, for at most `grace` seconds, and end the others."""
        calls = list(self._connection.calls.values())
        if calls:
            await asyncio.wait(calls, timeout=grace)
        self._connection.close()
        if calls:
            await asyncio.wait(calls)
