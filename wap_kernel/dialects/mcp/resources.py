"""The files of the workspace as resources to list, read and subscribe to; with the policy and audit of the tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from wap_kernel.dialects.batch_authorization import SCOPE_RULE
from wap_kernel.dialects.coding_environment.rpc_errors import OFFERED_TOOLS, RpcError, to_rpc_error
from wap_kernel.dialects.coding_environment.tools import DIALECT, list_tools
from wap_kernel.dialects.mcp.connection import Call
from wap_kernel.dialects.mcp.messages import ProtocolError, Result
from wap_kernel.dialects.mcp.params import ListenParams, UriParams, parse_page, parse_params
from wap_kernel.dialects.mcp.protocol import INVALID_REQUEST, SUBSCRIPTION_KEY
from wap_kernel.dialects.mcp.resource_uri import build_template, build_uri, guess_media_type, parse_uri
from wap_kernel.dialects.mcp.subscriptions import ResourceChanges, Subscriber
from wap_kernel.dialects.mcp.tools import Tools
from wap_kernel.engine.workspace import Workspace
from wap_kernel.files.interface import FileKind, Files
from wap_kernel.model.caller import CallContext, Caller
from wap_kernel.model.errors import InvalidArgument, PathClosed, PermissionDenied, RateLimited, WapError
from wap_kernel.model.limits import (
    CODING_MAX_ERROR_CHARACTERS,
    CODING_MAX_READ_BYTES,
    MCP_MAX_LISTENERS,
    MCP_MAX_RESOURCES,
    MCP_MAX_SUBSCRIPTIONS,
    MCP_RESOURCE_PAGE,
)
from wap_kernel.model.operations import Effect, ListFiles, Operation, ReadFile
from wap_kernel.model.results import FileContent, FileList
from wap_kernel.model.results import Result as OperationResult

R = TypeVar("R", bound=OperationResult)


class Resources:
    """The resources of a workspace. They are on offer where the tools `listFiles` and `readFile` are."""

    def __init__(self, workspace: Workspace, tools: Tools, changes: ResourceChanges) -> None:
        self._workspace = workspace
        self._tools = tools
        self._changes = changes
        self._listeners: Counter[str] = Counter()
        """The number of listening streams, by credential."""

    async def list(self, call: Call) -> Result:
        with _errors_of("listFiles"):
            start = _parse_cursor(parse_page(call.request).cursor)
            operation = ListFiles(path=".", recursive=True, metadata=True, limit=MCP_MAX_RESOURCES)
            result = await self.perform(call, "listFiles", operation, FileList)
            root, files = self._workspace.root, self._workspace.judge.files_of(self._tools.get_caller(call))
            return await self._workspace.offload(lambda: _build_page(root, files, result, start))

    async def templates(self, call: Call) -> Result:
        parse_page(call.request)
        with _errors_of("readFile"):
            await self._authorize(call, "readFile")
        file = {
            "uriTemplate": build_template(self._workspace.root),
            "name": "file",
            "title": "A file of the workspace",
            "description": "Any file, by its path relative to the workspace's root; also one that is not listed.",
        }
        return {"resourceTemplates": [file]}

    async def read(self, call: Call) -> Result:
        uri = parse_params(call.request, UriParams).uri
        with _errors_of("readFile", uri):
            path = self._parse_uri(uri)
            operation = ReadFile(path=path, max_size=CODING_MAX_READ_BYTES, encoding="auto")
            file = await self.perform(call, "readFile", operation, FileContent)
        contents: dict[str, Any] = {"uri": uri, "blob" if file.encoding == "base64" else "text": file.content}
        if (media_type := guess_media_type(path)) is not None:
            contents["mimeType"] = media_type
        return {"contents": [contents]}

    async def subscribe(self, call: Call) -> Result:
        uri = parse_params(call.request, UriParams).uri
        with _errors_of("readFile", uri):
            path = await self._check_readable(call, uri)
            self._get_subscriber(call).add(uri, path)
        return {}

    async def unsubscribe(self, call: Call) -> Result:
        self._get_subscriber(call).remove(parse_params(call.request, UriParams).uri)
        return {}

    async def listen(self, call: Call) -> Result:
        """Subscribe to files, as clients do from 2026-07-28 on; files that the caller may not read are left out."""
        requested = parse_params(call.request, ListenParams).notifications.resource_subscriptions or []
        if not call.outlet.is_stream:
            hint = "Send Accept: application/json, text/event-stream."
            raise ProtocolError(INVALID_REQUEST, "The answer is a stream of events.", hint, status=406)
        meta = {SUBSCRIPTION_KEY: call.request.id}
        with _errors_of("readFile"):
            files = await self._find_readable(call, requested[:MCP_MAX_SUBSCRIPTIONS])
            with self._count_listener(call.requester.credential), self._changes.listen(dict(files)) as listener:
                # There are no other notifications than those of files.
                honored = {"resourceSubscriptions": list(files)} if files else {}
                acknowledged = {"notifications": honored, "_meta": meta}
                call.notify("notifications/subscriptions/acknowledged", acknowledged)
                async for uri in listener:
                    call.notify("notifications/resources/updated", {"uri": uri, "_meta": meta})
        return {"_meta": meta}

    async def _find_readable(self, call: Call, uris: Sequence[str]) -> dict[str, str]:
        await self._authorize(call, "readFile")
        files: dict[str, str] = {}
        for uri in uris:
            try:
                files[uri] = await self._check_readable(call, uri)
            except WapError:
                continue
        return files

    @contextmanager
    def _count_listener(self, credential: str) -> Iterator[None]:
        """Limit the listening streams of one credential: one client must not use up the server's connections."""
        if self._listeners[credential] >= MCP_MAX_LISTENERS:
            raise RateLimited(
                f"A client may have {MCP_MAX_LISTENERS} listening streams.",
                hint="Close some: one stream tells of many files.",
                limit="subscriptions",
                retryAfterMs=1000,
            )
        self._listeners[credential] += 1
        try:
            yield
        finally:
            self._listeners[credential] -= 1
            self._listeners += Counter()  # drops the zero counts

    def close(self) -> None:
        self._changes.close()

    def _get_subscriber(self, call: Call) -> Subscriber:
        connection = call.connection
        if connection.subscriber is None:
            connection.subscriber = Subscriber(self._changes, call.standing_outlet)
            connection.on_close(connection.subscriber.close)
        return connection.subscriber

    def _parse_uri(self, uri: str) -> str:
        return parse_uri(uri, self._workspace.names_of_root)

    async def _check_readable(self, call: Call, uri: str) -> str:
        """Return the path if the caller may read it: a notification reveals that a file changes."""
        caller = await self._authorize(call, "readFile")
        path = self._parse_uri(uri)
        if not await self._workspace.offload(lambda: self._workspace.judge.may_read(path, caller)):
            raise PathClosed(f"The policy does not let you read it: {path}", path=path)
        return path

    async def _authorize(self, call: Call, tool: str) -> Caller:
        caller = await self._tools.authorize(call, Effect.READ, tool)
        is_opened = bool(list_tools(caller, [tool]))
        if is_opened and self._tools.is_offered(call, tool):
            return caller
        if is_opened:
            error = PermissionDenied(f"{tool} is not offered here, and so neither is this.", rule=OFFERED_TOOLS)
        else:
            error = PermissionDenied(f"This agent token does not open {tool}.", rule=SCOPE_RULE)
        self._workspace.audit_refusal(tool, error, caller)
        raise error

    async def perform(self, call: Call, tool: str, operation: Operation, kind: type[R]) -> R:
        """Perform an operation as a call of `tool` would."""
        caller = await self._authorize(call, tool)
        context = CallContext(dialect=DIALECT, tool=tool)
        async with call.requester.admit(operation):
            result = await self._workspace.answer(operation, caller, lambda result: result, context)
        assert isinstance(result, kind)
        return result


@contextmanager
def _errors_of(tool: str, uri: str | None = None) -> Iterator[None]:
    """Raise errors of the block as JSON-RPC errors, worded for `tool`, with the URI of the resource in the data."""
    try:
        yield
    except RpcError:
        raise
    except WapError as error:
        if uri is not None:
            error.details = {**error.details, "uri": uri[:CODING_MAX_ERROR_CHARACTERS]}
        raise to_rpc_error(tool, error) from None


def _build_page(root: str, files: Files, listing: FileList, start: int) -> dict[str, Any]:
    entries = [entry for entry in listing.files if not entry.is_directory]
    end = start + MCP_RESOURCE_PAGE
    page = []
    for entry in entries[start:end]:
        if not _is_file(files, entry.path):
            continue
        resource: dict[str, Any] = {"uri": build_uri(root, entry.path), "name": entry.path}
        if (media_type := guess_media_type(entry.path)) is not None:
            resource["mimeType"] = media_type
        if entry.metadata is not None:
            resource["size"] = entry.metadata.size
            resource["annotations"] = {"lastModified": entry.metadata.last_modified}
        page.append(resource)
    return {"resources": page, **({"nextCursor": str(end)} if end < len(entries) else {})}


def _is_file(files: Files, path: str) -> bool:
    """Return whether the entry is a file: no pipe, and no link out of the workspace, to a folder or nowhere."""
    try:
        return files.stat(path).kind is FileKind.FILE
    except (OSError, WapError):
        return False


def _parse_cursor(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 9):
        raise InvalidArgument("cursor: The server did not give this cursor.", hint="Leave it out to begin anew.")
    return int(cursor)
