"""The files of the workspace as resources to list, read and subscribe to; with the policy and audit of the tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TypeVar

import mcp_types as types
from mcp.server.subscriptions import ListenHandler

from wap_kernel.dialects.batch_authorization import SCOPE_RULE
from wap_kernel.dialects.coding_environment.rpc_errors import OFFERED_TOOLS
from wap_kernel.dialects.coding_environment.tools import DIALECT, list_tools
from wap_kernel.dialects.mcp import errors
from wap_kernel.dialects.mcp.identity import CallerResolver, Message, get_connection
from wap_kernel.dialects.mcp.resource_uri import build_template, build_uri, guess_media_type, parse_uri
from wap_kernel.dialects.mcp.subscriptions import ResourceChanges, Subscriber
from wap_kernel.engine.workspace import Workspace
from wap_kernel.files.interface import FileKind, Files
from wap_kernel.model.caller import CallContext, Caller
from wap_kernel.model.errors import InvalidArgument, PathClosed, PermissionDenied, RateLimited, WapError
from wap_kernel.model.limits import (
    CODING_MAX_READ_BYTES,
    MCP_MAX_LISTENERS,
    MCP_MAX_RESOURCES,
    MCP_MAX_SUBSCRIPTIONS,
    MCP_RESOURCE_PAGE,
)
from wap_kernel.model.operations import Effect, ListFiles, Operation, ReadFile
from wap_kernel.model.results import FileContent, FileList, Result

_SUBSCRIBER_KEY = "wap.subscriber"
R = TypeVar("R", bound=Result)


class Resources:
    """The resources of a workspace. They need `listFiles` and `readFile` among `only` these tools, or all."""

    def __init__(
        self, workspace: Workspace, resolver: CallerResolver, changes: ResourceChanges, only: Collection[str] | None
    ) -> None:
        self._workspace = workspace
        self._resolver = resolver
        self._only = only
        self._changes = changes
        self._listener = ListenHandler(changes.bus)
        self._streams: Counter[str] = Counter()
        """The number of listening streams, by credential."""

    async def list(self, message: Message, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        async with errors.translate_errors("listFiles"):
            start = _parse_cursor(None if params is None else params.cursor)
            operation = ListFiles(path=".", recursive=True, metadata=True, limit=MCP_MAX_RESOURCES)
            result = await self.perform(message, "listFiles", operation, FileList)
            root, judge, caller = self._workspace.root, self._workspace.judge, self._resolver.caller(message)
            page, following = await self._workspace.offload(
                lambda: _build_page(root, judge.files_of(caller), result, start)
            )
        return types.ListResourcesResult(resources=page, next_cursor=following)

    async def templates(
        self, message: Message, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        async with errors.translate_errors("readFile"):
            await self._authorize(message, "readFile")
        file = types.ResourceTemplate(
            uri_template=build_template(self._workspace.root),
            name="file",
            title="A file of the workspace",
            description="Any file, by its path relative to the workspace's root; also one that is not listed.",
        )
        return types.ListResourceTemplatesResult(resource_templates=[file])

    async def read(self, message: Message, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        async with errors.translate_errors("readFile"):
            path = self._parse_uri(params.uri)
            operation = ReadFile(path=path, max_size=CODING_MAX_READ_BYTES, encoding="auto")
            file = await self.perform(message, "readFile", operation, FileContent)
        media_type = guess_media_type(path)
        contents: types.TextResourceContents | types.BlobResourceContents
        if file.encoding == "base64":
            contents = types.BlobResourceContents(uri=params.uri, mime_type=media_type, blob=file.content)
        else:
            contents = types.TextResourceContents(uri=params.uri, mime_type=media_type, text=file.content)
        return types.ReadResourceResult(contents=[contents])

    async def subscribe(self, message: Message, params: types.SubscribeRequestParams) -> types.EmptyResult:
        async with errors.translate_errors("readFile"):
            path = await self._check_readable(message, params.uri)
            self._subscriber(message).add(params.uri, path)
        return types.EmptyResult()

    async def unsubscribe(self, message: Message, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._subscriber(message).remove(params.uri)
        return types.EmptyResult()

    async def listen(
        self, message: Message, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Subscribe to files, as clients do from 2026-07-28 on; files that the caller may not read are left out."""
        async with errors.translate_errors("readFile"):
            await self._authorize(message, "readFile")
            uris = (params.notifications.resource_subscriptions or [])[:MCP_MAX_SUBSCRIPTIONS]
            files: dict[str, str] = {}
            for uri in uris:
                try:
                    files[uri] = await self._check_readable(message, uri)
                except WapError:
                    continue
            # There are no other notifications.
            honored = types.SubscriptionFilter(resource_subscriptions=list(files))
            with self._count_stream(self._resolver.requester(message).credential), self._changes.watch(files.items()):
                return await self._listener(message, params.model_copy(update={"notifications": honored}))

    @contextmanager
    def _count_stream(self, credential: str) -> Iterator[None]:
        """Limit the streams of one credential: the SDK limits all together, and one client could use that up."""
        if self._streams[credential] >= MCP_MAX_LISTENERS:
            raise RateLimited(
                f"A client may have {MCP_MAX_LISTENERS} listening streams.",
                hint="Close some: one stream tells of many files.",
                limit="subscriptions",
                retryAfterMs=1000,
            )
        self._streams[credential] += 1
        try:
            yield
        finally:
            self._streams[credential] -= 1
            self._streams += Counter()  # drops the zero counts

    def close(self) -> None:
        self._listener.close()
        self._changes.close()

    def _subscriber(self, message: Message) -> Subscriber:
        connection = get_connection(message)
        subscriber: Subscriber | None = connection.state.get(_SUBSCRIBER_KEY)
        if subscriber is None:
            subscriber = connection.state[_SUBSCRIBER_KEY] = Subscriber(self._changes, message.session)
            connection.exit_stack.callback(subscriber.close)
        return subscriber

    def _parse_uri(self, uri: str) -> str:
        return parse_uri(uri, self._workspace.names_of_root)

    async def _check_readable(self, message: Message, uri: str) -> str:
        """Return the path if the caller may read it: a notification reveals that a file changes."""
        caller = await self._authorize(message, "readFile")
        path = self._parse_uri(uri)
        if not await self._workspace.offload(lambda: self._workspace.judge.may_read(path, caller)):
            raise PathClosed(f"The policy does not let you read it: {path}", path=path)
        return path

    async def _authorize(self, message: Message, tool: str) -> Caller:
        caller = await self._resolver.authorize(message, Effect.READ, tool)
        if list_tools(caller, [tool]) and (self._only is None or tool in self._only):
            return caller
        if list_tools(caller, [tool]):
            error = PermissionDenied(f"{tool} is not offered here, and so neither is this.", rule=OFFERED_TOOLS)
        else:
            error = PermissionDenied(f"This agent token does not open {tool}.", rule=SCOPE_RULE)
        self._workspace.audit_refusal(tool, error, caller)
        raise error

    async def perform(self, message: Message, tool: str, operation: Operation, kind: type[R]) -> R:
        """Perform an operation as a call of `tool` would."""
        caller = await self._authorize(message, tool)
        context = CallContext(dialect=DIALECT, tool=tool)
        async with self._resolver.requester(message).admit(operation):
            result = await self._workspace.answer(operation, caller, lambda result: result, context)
        assert isinstance(result, kind)
        return result


def _build_page(root: str, files: Files, listing: FileList, start: int) -> tuple[list[types.Resource], str | None]:
    entries = [entry for entry in listing.files if not entry.is_directory]
    end = start + MCP_RESOURCE_PAGE
    page = [
        types.Resource(
            uri=build_uri(root, entry.path),
            name=entry.path,
            mime_type=guess_media_type(entry.path),
            size=None if entry.metadata is None else entry.metadata.size,
            annotations=entry.metadata and types.Annotations(last_modified=entry.metadata.last_modified),
        )
        for entry in entries[start:end]
        if _is_file(files, entry.path)
    ]
    return page, str(end) if end < len(entries) else None


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
