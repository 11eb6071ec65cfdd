"""Announce changes of subscribed files to MCP clients.

Operations report changes from any thread; changes in quick succession are collected. The files that a command changed
are not known, so after a command every subscribed file counts as changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager

from wap_kernel.dialects.mcp.connection import Outlet
from wap_kernel.dialects.mcp.messages import encode_notification
from wap_kernel.model.errors import RateLimited
from wap_kernel.model.limits import MCP_MAX_SUBSCRIPTIONS
from wap_kernel.model.operations import Operation
from wap_kernel.model.paths import Access

COLLECT_SECONDS = 0.1


class Listener:
    """The URIs of changed files for one client, each once until it is taken."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = dict(files)
        """The paths of the subscribed files, by the URI as the client wrote it."""
        self._changed: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._is_closed = False

    def collect(self, changed: set[str], is_unknown: bool) -> None:
        for uri, path in self.files.items():
            if is_unknown or _is_affected(path, changed):
                self._changed[uri] = None  # a slow client gets one notification for many changes of a file
                self._wake.set()

    def close(self) -> None:
        self._is_closed = True
        self._wake.set()

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            while self._changed:
                uri = next(iter(self._changed))
                del self._changed[uri]
                yield uri
            if self._is_closed:
                return
            self._wake.clear()
            await self._wake.wait()


class ResourceChanges:
    """The changes of subscribed files, and the listeners. It belongs to the event loop that creates it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._listeners: set[Listener] = set()
        self._changed: set[str] = set()
        self._is_unknown = False
        self._publisher: asyncio.Task[None] | None = None

    def announce(self, operation: Operation) -> None:
        """Report an operation that was performed, from any thread, without waiting."""
        paths = frozenset(access.path for access in operation.path_accesses() if access.access is Access.WRITE)
        if self._listeners and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._collect, paths)

    @contextmanager
    def listen(self, files: Mapping[str, str]) -> Iterator[Listener]:
        """Yield a listener that gets the changes of `files` while the block runs."""
        listener = Listener(files)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def close(self) -> None:
        """End the listeners; their clients are told that nothing follows."""
        if self._publisher is not None:
            self._publisher.cancel()
        for listener in self._listeners:
            listener.close()

    def _collect(self, paths: frozenset[str]) -> None:
        """Collect changed paths; none means that they are not known."""
        self._changed |= paths
        self._is_unknown |= not paths
        if self._publisher is None or self._publisher.done():
            self._publisher = asyncio.ensure_future(self._publish())

    async def _publish(self) -> None:
        while self._changed or self._is_unknown:
            await asyncio.sleep(COLLECT_SECONDS)  # a batch writes hundreds of files
            changed, self._changed = self._changed, set()
            is_unknown, self._is_unknown = self._is_unknown, False
            for listener in self._listeners:
                listener.collect(changed, is_unknown)


def _is_affected(path: str, changed: set[str]) -> bool:
    """Return whether the path or a folder above it changed: that folder was moved or deleted."""
    while path not in changed:
        folder, _, name = path.rpartition("/")
        if not name or not folder:
            return "." in changed
        path = folder
    return True


class Subscriber:
    """The subscriptions of one session, until 2025-11-25."""

    def __init__(self, changes: ResourceChanges, outlet: Outlet) -> None:
        self._outlet = outlet
        self._listening = changes.listen({})
        self._listener = self._listening.__enter__()
        self._sender = asyncio.ensure_future(self._send())

    def add(self, uri: str, path: str) -> None:
        files = self._listener.files
        if uri not in files and len(files) >= MCP_MAX_SUBSCRIPTIONS:
            raise RateLimited(
                f"A client may subscribe to {MCP_MAX_SUBSCRIPTIONS} files.",
                hint="Unsubscribe from some.",
                limit="subscriptions",
                retryAfterMs=1000,
            )
        files[uri] = path

    def remove(self, uri: str) -> None:
        self._listener.files.pop(uri, None)

    def close(self) -> None:
        self._listening.__exit__(None, None, None)
        self._sender.cancel()

    async def _send(self) -> None:
        async for uri in self._listener:
            self._outlet.send(encode_notification("notifications/resources/updated", {"uri": uri}))
