"""Notify clients that a file which they subscribed to has changed.

Operations report changes from any thread; changes in quick succession are collected. The files that a command changed
are not known, so after a command every subscribed file counts as changed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated, ServerEvent

from wap_kernel.model.errors import RateLimited
from wap_kernel.model.limits import MCP_MAX_SUBSCRIPTIONS
from wap_kernel.model.operations import Operation
from wap_kernel.model.paths import Access

COLLECT_SECONDS = 0.1


class ResourceChanges:
    """The changes of subscribed files. It belongs to the event loop that creates it."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self._loop = asyncio.get_running_loop()
        self._watched: Counter[tuple[str, str]] = Counter()
        """Subscriptions by URI, as the client wrote it, and path."""
        self._changed: set[str] = set()
        self._is_unknown = False
        self._publisher: asyncio.Task[None] | None = None

    def announce(self, operation: Operation) -> None:
        """Report an operation that was performed, from any thread, without waiting."""
        paths = frozenset(access.path for access in operation.path_accesses() if access.access is Access.WRITE)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._collect, paths)

    @contextmanager
    def watch(self, files: Iterable[tuple[str, str]]) -> Iterator[None]:
        """Count the files as subscribed while the block runs."""
        files = list(files)
        self._watched.update(files)
        try:
            yield
        finally:
            self._watched.subtract(files)
            self._watched += Counter()  # drops the zero counts

    def close(self) -> None:
        if self._publisher is not None:
            self._publisher.cancel()

    def _collect(self, paths: frozenset[str]) -> None:
        """Collect changed paths; none means that they are not known."""
        if not self._watched:
            return
        self._changed |= paths
        self._is_unknown |= not paths
        if self._publisher is None or self._publisher.done():
            self._publisher = asyncio.ensure_future(self._publish())

    async def _publish(self) -> None:
        while self._changed or self._is_unknown:
            await asyncio.sleep(COLLECT_SECONDS)  # a batch writes hundreds of files
            changed, self._changed = self._changed, set()
            is_unknown, self._is_unknown = self._is_unknown, False
            for uri in {uri for uri, path in self._watched if is_unknown or _is_affected(path, changed)}:
                await self.bus.publish(ResourceUpdated(uri))


def _is_affected(path: str, changed: set[str]) -> bool:
    """Return whether the path or a folder above it changed: that folder was moved or deleted."""
    while path not in changed:
        folder, _, name = path.rpartition("/")
        if not name or not folder:
            return "." in changed
        path = folder
    return True


class Subscriber:
    """The subscriptions of one session. Its notifications are sent one after the other."""

    def __init__(self, changes: ResourceChanges, session: ServerSession) -> None:
        self._changes = changes
        self._session = session
        self._files: dict[str, ExitStack] = {}
        self._pending: dict[str, None] = {}
        self._sender: asyncio.Task[None] | None = None
        self._unsubscribe = changes.bus.subscribe(self._queue_event)

    def add(self, uri: str, path: str) -> None:
        if uri in self._files:
            return
        if len(self._files) >= MCP_MAX_SUBSCRIPTIONS:
            raise RateLimited(
                f"A client may subscribe to {MCP_MAX_SUBSCRIPTIONS} files.",
                hint="Unsubscribe from some.",
                limit="subscriptions",
                retryAfterMs=1000,
            )
        subscription = ExitStack()
        subscription.enter_context(self._changes.watch([(uri, path)]))
        self._files[uri] = subscription

    def remove(self, uri: str) -> None:
        self._files.pop(uri, ExitStack()).close()

    def close(self) -> None:
        self._unsubscribe()
        for uri in list(self._files):
            self.remove(uri)
        if self._sender is not None:
            self._sender.cancel()

    def _queue_event(self, event: ServerEvent) -> None:
        if isinstance(event, ResourceUpdated) and event.uri in self._files:
            self._pending[event.uri] = None
            if self._sender is None or self._sender.done():
                self._sender = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        while self._pending:  # a slow client gets one notification for many changes of a file
            uri = next(iter(self._pending))
            del self._pending[uri]
            await self._session.send_resource_updated(uri)
