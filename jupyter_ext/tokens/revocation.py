"""End what a revoked agent token has under way in this process, also when another server revoked it.

Servers that share a state folder share its tokens and tell each other nothing. So the store is polled, and only while a
token has something here that a revocation must end: an operation under way, a run that waits, an open stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Protocol

from wap_kernel.model.errors import WapError

POLL_SECONDS = 0.5
"""Seconds between two polls: with the end of a command, a revocation takes effect within a second."""

OnRevoked = Callable[[], object]


class TokenWork(Protocol):
    """The work of agent tokens in this process; the `Runner` of the workspace."""

    async def list_tokens_with_work(self) -> set[str]:
        """Return the ids of the tokens that have operations under way or runs that wait."""

    async def end_work_of(self, token: str) -> None:
        """Cancel the operations and runs of a token, also the runs that wait."""


class RevocationStore(Protocol):
    """The store of the tokens."""

    async def find_revoked(self, tokens: Collection[str]) -> set[str]:
        """Return those of the tokens that were revoked, or that exist no longer."""


class RevocationWatch:
    """The watch on the tokens that have something under way here. On the event loop only."""

    def __init__(
        self, store: RevocationStore, work: TokenWork, log: logging.Logger, *, seconds: float = POLL_SECONDS
    ) -> None:
        self._store = store
        self._work = work
        self._log = log
        self._seconds = seconds
        self._callbacks: dict[str, list[OnRevoked]] = {}
        self._noted: set[str] = set()
        """Tokens that may have work here; a token without work is dropped at the next poll."""
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_polling(self) -> bool:
        return self._task is not None

    def watch(self, token: str, on_revoked: OnRevoked) -> Callable[[], None]:
        """Call `on_revoked` once when the token is revoked; return a function that ends the watch.

        `on_revoked` must return at once: it cancels a task, or closes a stream.
        """
        self._callbacks.setdefault(token, []).append(on_revoked)
        self._start()

        def unsubscribe() -> None:
            callbacks = self._callbacks.get(token, [])
            with suppress(ValueError):  # it was called, or unsubscribed before
                callbacks.remove(on_revoked)
            if not callbacks:
                self._callbacks.pop(token, None)

        return unsubscribe

    def note_work(self, token: str) -> None:
        """Note that an operation of the token begins."""
        self._noted.add(token)
        self._start()

    async def end(self, token: str) -> None:
        """End everything that a revoked token has here: this process knows of the revocation."""
        for on_revoked in self._callbacks.pop(token, []):
            try:
                on_revoked()
            except Exception:  # noqa: BLE001 - the others must end all the same
                self._log.exception("wap: a stream of a revoked agent token could not be ended")
        await self._work.end_work_of(token)
        self._noted.discard(token)

    async def close(self) -> None:
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _start(self) -> None:
        if self._task is None and not self._is_closed:
            self._task = asyncio.get_running_loop().create_task(self._poll())

    async def _poll(self) -> None:
        try:
            while self._noted or self._callbacks:
                await asyncio.sleep(self._seconds)
                try:
                    await self._check()
                except WapError as error:  # the state cannot be read now; the next round tries again
                    self._log.warning("wap: revocations cannot be checked: %s", error.text)
                except Exception:  # noqa: BLE001 - a bug must not end the watch
                    self._log.exception("wap: revocations cannot be checked")
        finally:
            self._task = None

    async def _check(self) -> None:
        before = frozenset(self._noted)
        with_work = await self._work.list_tokens_with_work() if before else set()
        self._noted -= before - with_work
        watched = {*self._noted, *self._callbacks}
        if not watched:
            return
        for token in await self._store.find_revoked(watched):
            self._log.info("wap: agent token %s was revoked, so its work here ends", token)
            await self.end(token)
