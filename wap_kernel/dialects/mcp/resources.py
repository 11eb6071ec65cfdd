"""The files of the workspace as resources: listed, read, subscribed to; by the same policy and audit as the tools."""

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
from wap_kernel.dialects.mcp.resource_uri import media_type, path_of, template, uri_of
from wap_kernel.dialects.mcp.subscriptions import Changes, Subscriber
from wap_kernel.engine.workspace import Workspace
from wap_kernel.files.interface import FileKind, Files
from wap_kernel.model.call_context import CallContext
from wap_kernel.model.caller import Caller
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

_SUBSCRIBER = "wap.subscriber"
R = TypeVar("R", bound=Result)


class Resources:
    """As far as `listFiles` and `readFile` are among `only` these tools, or all."""

    def __init__(
        self, workspace: Workspace, desk: CallerResolver, changes: Changes, only: Collection[str] | None
    ) -> None:
        self._workspace = workspace
        self._desk = desk
        self._only = only
        self._changes = changes
        self._listener = ListenHandler(changes.bus)
        self._listening: Counter[str] = Counter()
        """Streams, by credential."""

    async def list(self, message: Message, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
        async with errors.as_errors("listFiles"):
            start = _offset(None if params is None else params.cursor)
            operation = ListFiles(path=".", recursive=True, metadata=True, limit=MCP_MAX_RESOURCES)
            found = await self.perform(message, "listFiles", operation, FileList)
            root, judge, caller = self._workspace.root, self._workspace.judge, self._desk.caller(message)
            page, following = await self._workspace.offload(lambda: _page(root, judge.files_of(caller), found, start))
        return types.ListResourcesResult(resources=page, next_cursor=following)

    async def templates(
        self, message: Message, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        async with errors.as_errors("readFile"):
            await self._authorize(message, "readFile")
        file = types.ResourceTemplate(
            uri_template=template(self._workspace.root),
            name="file",
            title="A file of the workspace",
            description="Any file, by its path relative to the workspace's root; also one that is not listed.",
        )
        return types.ListResourceTemplatesResult(resource_templates=[file])

    async def read(self, message: Message, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        async with errors.as_errors("readFile"):
            path = self._path(params.uri)
            operation = ReadFile(path=path, max_size=CODING_MAX_READ_BYTES, encoding="auto")
            found = await self.perform(message, "readFile", operation, FileContent)
        kind = media_type(path)
        contents: types.TextResourceContents | types.BlobResourceContents
        if found.encoding == "base64":
            contents = types.BlobResourceContents(uri=params.uri, mime_type=kind, blob=found.content)
        else:
            contents = types.TextResourceContents(uri=params.uri, mime_type=kind, text=found.content)
        return types.ReadResourceResult(contents=[contents])

    async def subscribe(self, message: Message, params: types.SubscribeRequestParams) -> types.EmptyResult:
        async with errors.as_errors("readFile"):
            path = await self._readable(message, params.uri)
            self._subscriber(message).add(params.uri, path)
        return types.EmptyResult()

    async def unsubscribe(self, message: Message, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        self._subscriber(message).remove(params.uri)
        return types.EmptyResult()

    async def listen(
        self, message: Message, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """How clients subscribe from 2026-07-28 on. What they may not read they do not hear of."""
        async with errors.as_errors("readFile"):
            await self._authorize(message, "readFile")
            wanted = (params.notifications.resource_subscriptions or [])[:MCP_MAX_SUBSCRIPTIONS]
            files: dict[str, str] = {}
            for uri in wanted:
                try:
                    files[uri] = await self._readable(message, uri)
                except WapError:
                    continue
            # Of nothing else is ever told.
            honored = types.SubscriptionFilter(resource_subscriptions=list(files))
            with self._listens(self._desk.asker(message).credential), self._changes.watching(files.items()):
                return await self._listener(message, params.model_copy(update={"notifications": honored}))

    @contextmanager
    def _listens(self, credential: str) -> Iterator[None]:
        """The SDK has a limit for all together, which one would use up for the others."""
        if self._listening[credential] >= MCP_MAX_LISTENERS:
            raise RateLimited(
                f"There may be {MCP_MAX_LISTENERS} streams that listen.",
                hint="Close some: one stream tells of many files.",
                limit="subscriptions",
                retryAfterMs=1000,
            )
        self._listening[credential] += 1
        try:
            yield
        finally:
            self._listening[credential] -= 1
            self._listening += Counter()  # forgets who listens no more

    def close(self) -> None:
        self._listener.close()
        self._changes.close()

    def _subscriber(self, message: Message) -> Subscriber:
        connection = get_connection(message)
        found: Subscriber | None = connection.state.get(_SUBSCRIBER)
        if found is None:
            found = connection.state[_SUBSCRIBER] = Subscriber(self._changes, message.session)
            connection.exit_stack.callback(found.close)
        return found

    def _path(self, uri: str) -> str:
        return path_of(uri, self._workspace.names_of_root)

    async def _readable(self, message: Message, uri: str) -> str:
        """The path, if the caller may read it: whether a file changes is told of it, too."""
        caller = await self._authorize(message, "readFile")
        path = self._path(uri)
        if not await self._workspace.offload(lambda: self._workspace.judge.may_read(path, caller)):
            raise PathClosed(f"The policy does not let you read it: {path}", path=path)
        return path

    async def _authorize(self, message: Message, tool: str) -> Caller:
        caller = await self._desk.authorize(message, Effect.READ, tool)
        if list_tools(caller, [tool]) and (self._only is None or tool in self._only):
            return caller
        if list_tools(caller, [tool]):
            error = PermissionDenied(f"{tool} is not offered here, and so neither is this.", rule=OFFERED_TOOLS)
        else:
            error = PermissionDenied(f"This agent token does not open {tool}.", rule=SCOPE_RULE)
        self._workspace.refused(tool, error, caller)
        raise error

    async def perform(self, message: Message, tool: str, operation: Operation, kind: type[R]) -> R:
        """As a call of that tool would."""
        caller = await self._authorize(message, tool)
        context = CallContext(dialect=DIALECT, tool=tool)
        async with self._desk.asker(message).admit(operation):
            result = await self._workspace.answer(operation, caller, lambda result: result, context)
        assert isinstance(result, kind)
        return result


def _page(root: str, files: Files, found: FileList, start: int) -> tuple[list[types.Resource], str | None]:
    list_tools = [entry for entry in found.files if not entry.is_directory]
    end = start + MCP_RESOURCE_PAGE
    page = [
        types.Resource(
            uri=uri_of(root, entry.path),
            name=entry.path,
            mime_type=media_type(entry.path),
            size=None if entry.metadata is None else entry.metadata.size,
            annotations=entry.metadata and types.Annotations(last_modified=entry.metadata.last_modified),
        )
        for entry in list_tools[start:end]
        if _is_file(files, entry.path)
    ]
    return page, str(end) if end < len(list_tools) else None


def _is_file(files: Files, path: str) -> bool:
    """Whether it can be read: not a link that leads out of the workspace, to a folder or nowhere, and not a pipe."""
    try:
        return files.stat(path).kind is FileKind.FILE
    except (OSError, WapError):
        return False


def _offset(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 9):
        raise InvalidArgument("cursor: It is not one that was answered.", hint="Leave it out to begin anew.")
    return int(cursor)
