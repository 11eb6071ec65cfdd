"""Tells clients that a file which they subscribed to has changed.

Changes come from operations of ours, on any thread; many at once are told together. After a command nobody knows which
files it changed, so everything that is subscribed to may have.
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
from wap_kernel.model.path_access import Access

COLLECT_SECONDS = 0.1


class Changes:
    """Lives on the event loop that makes it."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self._loop = asyncio.get_running_loop()
        self._watched: Counter[tuple[str, str]] = Counter()
        """URI, as the client wrote it, and path."""
        self._changed: set[str] = set()
        self._is_unknown = False
        self._telling: asyncio.Task[None] | None = None

    def announce(self, operation: Operation) -> None:
        """It has been performed. From any thread; it returns at once."""
        paths = frozenset(touch.path for touch in operation.path_accesses() if touch.access is Access.WRITE)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._take, paths)

    @contextmanager
    def watching(self, files: Iterable[tuple[str, str]]) -> Iterator[None]:
        """Somebody wants to hear of these."""
        files = list(files)
        self._watched.update(files)
        try:
            yield
        finally:
            self._watched.subtract(files)
            self._watched += Counter()  # forgets what nobody watches

    def close(self) -> None:
        if self._telling is not None:
            self._telling.cancel()

    def _take(self, paths: frozenset[str]) -> None:
        """No paths: it is not known which."""
        if not self._watched:
            return
        self._changed |= paths
        self._is_unknown |= not paths
        if self._telling is None or self._telling.done():
            self._telling = asyncio.ensure_future(self._tell())

    async def _tell(self) -> None:
        while self._changed or self._is_unknown:
            await asyncio.sleep(COLLECT_SECONDS)  # for company: a batch writes hundreds of files
            changed, self._changed = self._changed, set()
            is_unknown, self._is_unknown = self._is_unknown, False
            for uri in {uri for uri, path in self._watched if is_unknown or _is_touched(path, changed)}:
                await self.bus.publish(ResourceUpdated(uri))


def _is_touched(path: str, changed: set[str]) -> bool:
    """Itself, or a folder above it: that was moved or deleted."""
    while path not in changed:
        folder, _, name = path.rpartition("/")
        if not name or not folder:
            return "." in changed
        path = folder
    return True


class Subscriber:
    """A client of a session: what it subscribed to, one by one, and its notifications, one after the other."""

    def __init__(self, changes: Changes, session: ServerSession) -> None:
        self._changes = changes
        self._session = session
        self._files: dict[str, ExitStack] = {}
        self._due: dict[str, None] = {}
        self._sending: asyncio.Task[None] | None = None
        self._unsubscribe = changes.bus.subscribe(self._hear)

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
        watching = ExitStack()
        watching.enter_context(self._changes.watching([(uri, path)]))
        self._files[uri] = watching

    def remove(self, uri: str) -> None:
        self._files.pop(uri, ExitStack()).close()

    def close(self) -> None:
        self._unsubscribe()
        for uri in list(self._files):
            self.remove(uri)
        if self._sending is not None:
            self._sending.cancel()

    def _hear(self, event: ServerEvent) -> None:
        if isinstance(event, ResourceUpdated) and event.uri in self._files:
            self._due[event.uri] = None
            if self._sending is None or self._sending.done():
                self._sending = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        while self._due:  # a client that reads slowly hears once of many changes
            uri = next(iter(self._due))
            del self._due[uri]
            await self._session.send_resource_updated(uri)
