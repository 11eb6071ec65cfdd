"""The sender of a message: its caller, and the authorizer and rate limits of the server it came through."""

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
    """The sender of a message."""

    @property
    def credential(self) -> str:
        """The credential that the limits of sessions and streams count by."""

    def caller(self, client: str | None) -> Caller:
        """Return the caller; `client`, the client's own name, is the agent where no better name is known."""

    async def authorize(self, effect: Effect) -> None:
        """Ask the server's authorizer; raise PermissionDenied."""

    def admit(self, operation: Operation) -> AbstractAsyncContextManager[None]:
        """Count an operation while it is performed; raise RateLimited."""


RequesterLookup = Callable[[Message], Requester]


class LocalRequester:
    """The user who started this process, through a client at its standard input."""

    def __init__(self, session: str) -> None:
        self._session = session

    @property
    def credential(self) -> str:
        return self._session

    def caller(self, client: str | None) -> Caller:
        return Caller(agent=client, session=self._session)

    async def authorize(self, effect: Effect) -> None:
        """Allow everything: the folder is the user's own, and only policy binds them."""

    def admit(self, operation: Operation) -> AbstractAsyncContextManager[None]:
        return nullcontext()


class CallerResolver:
    """Find the caller of a message and authorize it."""

    def __init__(self, workspace: Workspace, get_requester: RequesterLookup) -> None:
        self._workspace = workspace
        self._get_requester = get_requester

    def requester(self, message: Message) -> Requester:
        return self._get_requester(message)

    def caller(self, message: Message) -> Caller:
        params = message.session.client_params
        return self._get_requester(message).caller(None if params is None else clean_name(params.client_info.name))

    async def authorize(self, message: Message, effect: Effect, tool: str) -> Caller:
        """Return the caller if the server's authorizer allows `effect`; record a refusal."""
        caller = self.caller(message)
        try:
            await self._get_requester(message).authorize(effect)
        except PermissionDenied as error:
            self._workspace.audit_refusal(tool, error, caller)
            raise
        return caller


def clean_name(text: str) -> str | None:
    """Return a claimed name without control and format characters, which would forge lines in logs and cards."""
    return "".join(c for c in text if unicodedata.category(c)[0] != "C")[:MAX_CLAIM_CHARACTERS] or None


def get_connection(message: Message) -> Connection:
    """Return the connection, whose state lasts as long as the client is connected; the SDK hands it to no handler."""
    return message.session._connection
