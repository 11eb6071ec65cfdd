"""The MCP server of a workspace: receive messages, and answer requests by the table of methods."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass

from wap_kernel.dialects.coding_environment.rpc_errors import RpcError, to_rpc_error
from wap_kernel.dialects.mcp import client_log
from wap_kernel.dialects.mcp.completion import Completions
from wap_kernel.dialects.mcp.connection import Call, Connection, Outlet
from wap_kernel.dialects.mcp.identity import Requester, clean_name
from wap_kernel.dialects.mcp.messages import (
    Notification,
    ProtocolError,
    Request,
    Response,
    Result,
    encode_error,
    encode_json,
    encode_result,
)
from wap_kernel.dialects.mcp.params import InitializeParams, parse_params
from wap_kernel.dialects.mcp.prompts import Prompts
from wap_kernel.dialects.mcp.protocol import (
    CACHEABLE_METHODS,
    ENVELOPE_VERSIONS,
    HTTP_STATUS,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    SERVER_KEY,
    has_envelope,
    negotiate_version,
)
from wap_kernel.dialects.mcp.resources import Resources
from wap_kernel.dialects.mcp.subscriptions import ResourceChanges
from wap_kernel.dialects.mcp.tools import ErrorForm, Tools
from wap_kernel.model.errors import Code, InvalidArgument, WapError
from wap_kernel.model.package import __version__
from wap_kernel.runs.runner import Runner

INSTRUCTIONS = """Tools to work in one folder, the workspace, beside a person who watches. Paths are relative to it, \
or to workspaceRoot, a folder in it. expectedHash refuses a change of a file that is no longer the one you read. \
confirmed says that the user has agreed to exactly this call; never set it on your own. {tools}Every call is checked \
against a policy and recorded. A refusal says what to do instead; where a person has to agree, say so and go on with \
something else."""
_TOOL_ADVICE = {
    "getWorkspaceInfo": "Begin with getWorkspaceInfo.",
    "listFiles": "See what there is with listFiles.",
    "searchFiles": "Find text with searchFiles.",
    "globFiles": "Find files with globFiles.",
    "editFile": "Change parts of a file with editFile.",
    "git": "Commit with git.",
}
SERVER_INFO = {"name": "wap", "title": "Workspace", "version": __version__}
_CAPABILITIES = {"prompts": {}, "resources": {"subscribe": True}, "tools": {}, "completions": {}}
_STAMP = encode_json({SERVER_KEY: SERVER_INFO})
_NOT_INITIALIZED = InvalidArgument(
    "The session is not open yet.", hint="Send initialize and wait for its answer, then notifications/initialized."
)

Handler = Callable[[Call], Awaitable[Result]]


@dataclass(frozen=True)
class Reply:
    """The encoded answer to a request, and the HTTP status that it has outside of sessions."""

    data: bytes
    status: int = 200


class McpServer:
    """The methods on offer: tools (`only` these, or all), resources, prompts, completions and logging.

    A tool call waits `wait` seconds for an approval, unless the call itself sets them.
    """

    def __init__(
        self,
        runner: Runner,
        changes: ResourceChanges,
        *,
        only: Collection[str] | None = None,
        wait: float = 0.0,
        errors: ErrorForm = "result",
    ) -> None:
        self._runner = runner
        self._tools = Tools(runner, only, wait, errors)
        self._resources = Resources(runner.workspace, self._tools, changes)
        prompts = Prompts(runner, self._tools)
        shared: dict[str, Handler] = {
            "tools/list": self._tools.list,
            "tools/call": self._tools.call,
            "resources/list": self._resources.list,
            "resources/templates/list": self._resources.templates,
            "resources/read": self._resources.read,
            "prompts/list": prompts.list,
            "prompts/get": prompts.get,
            "completion/complete": Completions(self._resources).complete,
        }
        self._handshake_methods: Mapping[str, Handler] = {
            **shared,
            "initialize": self._initialize,
            "ping": _ping,
            "logging/setLevel": client_log.set_level,
            "resources/subscribe": self._resources.subscribe,
            "resources/unsubscribe": self._resources.unsubscribe,
        }
        self._envelope_methods: Mapping[str, Handler] = {
            **shared,
            "server/discover": self._discover,
            "subscriptions/listen": self._resources.listen,
        }

    def close(self) -> None:
        self._resources.close()

    def receive(self, connection: Connection, message: Response | Notification) -> None:
        """Receive a message that gets no answer."""
        if isinstance(message, Response):
            connection.resolve(message)
        elif message.method == "notifications/cancelled":
            connection.cancel_call((message.params or {}).get("requestId"))

    def start(
        self, connection: Connection, request: Request, requester: Requester, outlet: Outlet, standing: Outlet
    ) -> asyncio.Task[Reply]:
        """Begin to answer a request; the connection knows the task, so that the client can cancel it."""
        connection.check_calls([request.id])
        task = asyncio.ensure_future(self.answer(Call(connection, request, requester, outlet, standing)))
        connection.add_call(request.id, task)
        return task

    async def answer(self, call: Call) -> Reply:
        request = call.request
        try:
            result = await self._find_handler(call.connection, request)(call)
            return Reply(encode_result(request.id, self._complete(call, result)))
        except RpcError as error:
            return self._reply_error(request, error)
        except WapError as error:
            return self._reply_error(request, to_rpc_error(request.method, error))
        except Exception as error:  # noqa: BLE001 - a bug: the server logs it and hides its text
            bug = self._runner.workspace.bug(error, request.method)
            return self._reply_error(request, to_rpc_error(request.method, bug))

    def _complete(self, call: Call, result: Result) -> Result:
        version = call.connection.version  # none before `initialize`, which may be preceded by a ping
        is_enveloped = version is not None and has_envelope(version)
        return _complete_result(call.request.method, result) if is_enveloped else result

    def _find_handler(self, connection: Connection, request: Request) -> Handler:
        is_enveloped = connection.version is not None and has_envelope(connection.version)
        methods = self._envelope_methods if is_enveloped else self._handshake_methods
        handler = methods.get(request.method)
        if handler is None:
            hint = "initialize and server/discover tell what there is."
            raise ProtocolError(METHOD_NOT_FOUND, "There is no such method.", hint, code=Code.NOT_FOUND, status=404)
        if connection.version is None and request.method not in ("initialize", "ping"):
            raise to_rpc_error(request.method, _NOT_INITIALIZED)
        return handler

    def _reply_error(self, request: Request, error: RpcError) -> Reply:
        status = error.status if isinstance(error, ProtocolError) else HTTP_STATUS.get(error.code, 200)
        return Reply(encode_error(request.id, error), status)

    async def _initialize(self, call: Call) -> Result:
        params = parse_params(call.request, InitializeParams)
        connection = call.connection
        connection.version = negotiate_version(params.protocol_version)
        connection.client = clean_name(params.client_info.name)
        connection.capabilities = params.capabilities
        return {
            "protocolVersion": connection.version,
            "capabilities": {**_CAPABILITIES, "logging": {}},
            "serverInfo": SERVER_INFO,
            "instructions": self._build_instructions(call),
        }

    async def _discover(self, call: Call) -> Result:
        return {
            "supportedVersions": list(ENVELOPE_VERSIONS),
            "capabilities": {**_CAPABILITIES, "logging": {}},
            "instructions": self._build_instructions(call),
        }

    def _build_instructions(self, call: Call) -> str:
        offered = self._tools.list_offered(call)
        advice = [text for tool, text in _TOOL_ADVICE.items() if tool in offered]
        return INSTRUCTIONS.format(tools="".join(f"{text} " for text in advice))


async def _ping(call: Call) -> Result:
    return {}


def _complete_result(method: str, result: Result) -> bytes:
    """Return a result with the members that every result has from 2026-07-28 on."""
    data = result if isinstance(result, bytes) else encode_json(result)
    members = [b'"_meta":%b' % _STAMP] if not isinstance(result, Mapping) or "_meta" not in result else []
    if isinstance(result, bytes) or "resultType" not in result:
        members.append(b'"resultType":"complete"')
    if method in CACHEABLE_METHODS:
        members.append(b'"ttlMs":0,"cacheScope":"private"')
    separator = b"" if data == b"{}" or not members else b","
    return data[:-1] + separator + b",".join(members) + b"}"


def build_cancelled_reply(request: Request) -> Reply:
    """Build the answer to a cancelled request, for a transport that needs one to end a stream."""
    error = RpcError(REQUEST_CANCELLED, "The request was cancelled.", {})
    return Reply(encode_error(request.id, error))
