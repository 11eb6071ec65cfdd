"""Who sent a message, and what the server that they came through says to it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Protocol

from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext

from wap_kernel.engine.workspace import Workspace
from wap_kernel.model.caller import Caller
from wap_kernel.model.errors import PermissionDenied
from wap_kernel.model.limits import MAX_CLAIM_CHARACTERS
from wap_kernel.model.operations import Effect, Operation

Message = ServerRequestContext[Any, Any]


class Requester(Protocol):
    @property
    def credential(self) -> str:
        """What they came in with: whoever holds it may take up so much room and no more."""

    def caller(self, client: str | None) -> Caller:
        """`client` is what the client calls itself; it counts where nothing better is known."""

    async def authorize(self, effect: Effect) -> None:
        """Raises PermissionDenied."""

    def admit(self, operation: Operation) -> AbstractAsyncContextManager[None]:
        """Around an operation that is performed: counts it, or raises RateLimited."""


RequesterLookup = Callable[[Message], Requester]


class LocalRequester:
    """Whoever started this process, by a client at its standard input."""

    def __init__(self, session: str) -> None:
        self._session = session

    @property
    def credential(self) -> str:
        return self._session

    def caller(self, client: str | None) -> Caller:
        return Caller(agent=client, session=self._session)

    async def authorize(self, effect: Effect) -> None:
        """It is their own folder; policy binds them, nothing else."""

    def admit(self, operation: Operation) -> AbstractAsyncContextManager[None]:
        return nullcontext()


class CallerResolver:
    """Takes messages: who asks, and whether they may."""

    def __init__(self, workspace: Workspace, asker_of: RequesterLookup) -> None:
        self._workspace = workspace
        self._asker_of = asker_of

    def asker(self, message: Message) -> Requester:
        return self._asker_of(message)

    def caller(self, message: Message) -> Caller:
        said = message.session.client_params
        return self._asker_of(message).caller(None if said is None else clean_name(said.client_info.name))

    async def authorize(self, message: Message, effect: Effect, tool: str) -> Caller:
        """The caller, if the server's authorizer lets them; a refusal is recorded."""
        caller = self.caller(message)
        try:
            await self._asker_of(message).authorize(effect)
        except PermissionDenied as error:
            self._workspace.refused(tool, error, caller)
            raise
        return caller


def clean_name(text: str) -> str | None:
    """A name as somebody gives it: control and format characters would forge lines in logs and cards."""
    return "".join(c for c in text if unicodedata.category(c)[0] != "C")[:MAX_CLAIM_CHARACTERS] or None


def get_connection(message: Message) -> Connection:
    """What lasts as long as the client is connected. The SDK hands it to no handler, and nothing else does."""
    return message.session._connection
